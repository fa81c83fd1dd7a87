"""Saved chats: open, rename, delete, export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, OptionList, Static

from edgespec.errors import EdgeSpecError
from edgespec_tui.archive import Archive
from edgespec_tui.record import ChatRecord
from edgespec_tui.text import count, one_line
from edgespec_tui.widgets.line_input import LineInput

EMPTY = "No saved chats yet. Every chat is saved as it goes on."


class ChatsScreen(ModalScreen[ChatRecord | None]):
    """The list; what is chosen is opened in the chat."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", key_display="⏎", tooltip="Go on with this chat"),
        Binding("r", "rename", "Rename", tooltip="Give this chat another title"),
        Binding("d", "delete", "Delete", tooltip="Delete this chat; asks for a second d"),
        Binding("m", "export('md')", "Markdown", tooltip="Export as Markdown into the current folder"),
        Binding("j", "export('json')", "JSON", tooltip="Export as JSON, with every round, into the current folder"),
        Binding("escape", "back", "Back", key_display="esc", tooltip="Back to the chat"),
    ]

    def __init__(self, archive: Archive, open_record: ChatRecord) -> None:
        super().__init__()
        self._archive = archive
        self._open = open_record
        self._records: list[ChatRecord] = []
        self._doomed = ""

    def compose(self) -> ComposeResult:
        with Vertical(id="chats"):
            yield Static(Content("Chats: Enter opens one"), classes="heading")
            yield OptionList(markup=False)
            yield LineInput(id="title", placeholder="New title", compact=True)
            yield Static("", id="remark")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one("#title").display = False
        self._fill(0)
        self._list.focus()

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    @property
    def _chosen(self) -> ChatRecord | None:
        place = self._list.highlighted
        return self._records[place] if place is not None and place < len(self._records) else None

    def _fill(self, place: int) -> None:
        records, broken = self._archive.all()
        self._records = [self._open if record.id == self._open.id else record for record in records]
        self._list.clear_options()
        for record in self._records:
            when = record.changed[:16].replace("T", " ")
            here = ("  open now", "$text-success") if record.id == self._open.id else ""
            turns = f"  {count(len(record.turns), 'turn')}"
            title = one_line(record.title)
            self._list.add_option(
                Content.assemble((when, "$foreground-muted"), "  ", title, (turns, "$foreground-muted"), here)
            )
        if self._records:
            self._list.highlighted = min(place, len(self._records) - 1)
        said = "" if self._records else EMPTY
        self._say(f"{count(broken, 'file')} there cannot be read as chats." if broken else said)

    def _say(self, text: str) -> None:
        self.query_one("#remark", Static).update(Content(text))

    def on_option_list_option_highlighted(self) -> None:
        self._doomed = ""

    def on_option_list_option_selected(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """Go on with the chosen chat."""
        if (record := self._chosen) is not None:
            self.dismiss(record)

    def action_back(self) -> None:
        """Leave the title's field, or the screen."""
        title = self.query_one("#title", Input)
        if title.display:
            title.display = False
            self._list.focus()
        else:
            self.dismiss(None)

    def action_rename(self) -> None:
        """Ask for another title."""
        if (record := self._chosen) is not None:
            title = self.query_one("#title", Input)
            title.value = record.title
            title.display = True
            title.focus()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """The new title is written."""
        record = self._chosen
        if record is not None and message.value.strip():
            self._try(lambda: self._archive.rename(record, message.value))
        self.action_back()

    def action_delete(self) -> None:
        """Delete the chosen chat when asked twice."""
        if (record := self._chosen) is None:
            return
        if record.id == self._open.id:
            self._say("This chat is open; start a new one first.")
        elif record.id == self._doomed:
            self._try(lambda: self._archive.delete(record))
        else:
            self._doomed = record.id
            self._say(f"Press d again to delete “{one_line(record.title)}”.")

    def action_export(self, kind: str) -> None:
        """Write the chosen chat into the current folder."""
        if (record := self._chosen) is not None:
            try:
                path = self._archive.export(record, kind, Path.cwd())
                self._say(f"Written: {one_line(str(path))}")
            except EdgeSpecError as error:
                self._say(error.message)

    def _try(self, change: Callable[[], None]) -> None:
        place = self._list.highlighted or 0
        try:
            change()
            self._fill(place)
        except EdgeSpecError as error:
            self._say(error.message)
