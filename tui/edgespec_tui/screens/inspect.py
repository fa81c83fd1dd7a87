"""One model looked at closely: what its header says, and whether it fits."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from edgespec_tui.inspection import Section, inspect
from edgespec_tui.shelf import Entry, Shelf
from edgespec_tui.text import clean, one_line


class Inspected(Message):
    """The headers are read."""

    def __init__(self, sections: list[Section]) -> None:
        super().__init__()
        self.sections = sections


class InspectScreen(ModalScreen[None]):
    """Names and values; the file is read while the screen is up."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,i,q", "dismiss", "Back", key_display="esc")]

    def __init__(self, entry: Entry, shelf: Shelf) -> None:
        super().__init__()
        self._entry = entry
        self._shelf = shelf

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="inspect"):
            yield Static(Content(one_line(self._entry.name)), classes="heading")
            yield Static(Content("Reading the header ..."), id="reading")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one("#inspect").focus()
        self._read()

    @work(thread=True)
    def _read(self) -> None:
        self.post_message(Inspected(inspect(self._entry, self._shelf)))

    async def on_inspected(self, message: Inspected) -> None:
        """Show them."""
        page = self.query_one("#inspect", VerticalScroll)
        await self.query_one("#reading").remove()
        for section in message.sections:
            await page.mount(Static(Content(section.heading), classes="heading"))
            await page.mount_all(
                Horizontal(
                    Static(Content(one_line(name)), classes="name"),
                    Static(Content(clean(value)), classes="meaning"),
                    classes="row",
                )
                for name, value in section.rows
            )
