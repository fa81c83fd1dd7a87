"""The part of the models screen that lists models and chooses among them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from edgespec.engine.messages import LoadOptions
from edgespec.errors import EdgeSpecError
from edgespec.models.units import format_size
from edgespec_tui import shelf as shelves
from edgespec_tui.columns import GAP, fitting
from edgespec_tui.screens.chat_base import HEIGHTS, WIDTHS
from edgespec_tui.shelf import HEADS, Choice, Entry, Opinion, Shelf, judge
from edgespec_tui.text import clean, one_line
from edgespec_tui.widgets.download_bar import DownloadBar
from edgespec_tui.widgets.line_input import LineInput
from edgespec_tui.widgets.too_small import TooSmall

if TYPE_CHECKING:
    from edgespec_tui.app import EdgeSpecApp

GIVE_WAY = ("for", "needs", "licence", "drafts with", "size")
LEFT = ("for", "fits", "here", "licence", "drafts with")


class ShelfReady(Message):
    """The list is there, or why it is not."""

    def __init__(self, shelf: Shelf | None, problem: str = "") -> None:
        super().__init__()
        self.shelf = shelf
        self.problem = problem


class Judged(Message):
    """A choice was looked at."""

    def __init__(self, choice: Choice, opinion: Opinion, use: bool) -> None:
        super().__init__()
        self.choice = choice
        self.opinion = opinion
        self.use = use


class ModelsList(Screen[LoadOptions | None]):
    """The list and choosing from it; leaves with what is to be loaded, None for no change."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(self, load: LoadOptions) -> None:
        super().__init__()
        self._load = load
        self._shelf: Shelf | None = None
        self._entries: list[Entry | None] = []

    def compose(self) -> ComposeResult:
        yield Static(Content("Models  looking at this disk ..."), id="title")
        yield LineInput(placeholder="words that a line must contain; ⏎ goes to the list, Esc shows all", id="filter")
        yield Static("", id="heads")
        yield OptionList(id="models", markup=False, compact=True)
        yield Static("", id="detail")
        yield DownloadBar(id="progress")
        yield Static("", id="remark")
        yield Footer(show_command_palette=False, compact=True)
        yield TooSmall()

    def on_mount(self) -> None:
        self._filter.display = False
        self._list.focus()
        self._look()

    @property
    def _app(self) -> EdgeSpecApp:
        return cast("EdgeSpecApp", self.app)

    @property
    def _filter(self) -> Input:
        return self.query_one("#filter", Input)

    @property
    def _list(self) -> OptionList:
        return self.query_one("#models", OptionList)

    @property
    def _entry(self) -> Entry | None:
        place = self._list.highlighted
        return self._entries[place] if place is not None and place < len(self._entries) else None

    def _say(self, *sentences: str, wrong: bool = False) -> None:
        remark = self.query_one("#remark", Static)
        remark.update(Content(clean(" ".join(filter(None, sentences)))))
        remark.set_class(wrong, "-wrong")

    # The list

    @work(thread=True, exclusive=True, group="look")
    def _look(self) -> None:
        try:
            self.post_message(ShelfReady(shelves.look()))
        except EdgeSpecError as error:
            self.post_message(ShelfReady(None, f"{error.message} {error.hint}"))

    def on_shelf_ready(self, message: ShelfReady) -> None:
        """Draw the list."""
        if message.shelf is None:
            self._say(message.problem, wrong=True)
            return
        self._shelf = message.shelf
        memory = format_size(message.shelf.machine.memory)
        device = message.shelf.machine.device_free
        card = f", {format_size(device)} free on the graphics card" if device else ", no graphics card of its own"
        self.query_one("#title", Static).update(
            Content.assemble(("Models", "bold $text-primary"), f"  this machine: {memory}{card}  ",
                             (f"loaded: {self._loaded_names()}", "$foreground-muted"))
        )  # fmt: skip
        self._fill()

    def _loaded_names(self) -> str:
        names = [one_line(Path(path).stem) for path in (self._load.target, self._load.draft) if path is not None]
        return " + ".join(names)

    def on_resize(self) -> None:
        """Choose the columns anew."""
        if self._shelf is not None:
            self._fill()

    def _fill(self) -> None:
        if (shelf := self._shelf) is None:
            return
        before = self._entry
        pairs, local = (self._wanted(entries) for entries in (shelf.pairs, shelf.local))
        self._entries = [*pairs, None, *local] if local else [*pairs]
        lines = [HEADS, *(entry.cells for entry in self._entries if entry is not None)]
        head, *rows = fitting(lines, self.size.width - 4, GIVE_WAY, LEFT)
        self.query_one("#heads", Static).update(Content("  " + (" " * GAP).join(head)))
        drawn = iter(rows)
        self._list.clear_options()
        for entry in self._entries:
            self._list.add_option(
                Option("─ on this disk", disabled=True) if entry is None else Option(self._line(entry, next(drawn)))
            )
        self._list.highlighted = self._place_of(before)
        self._describe()

    def _wanted(self, entries: tuple[Entry, ...]) -> list[Entry]:
        """Those that contain every word of the filter."""
        words = self._filter.value.casefold().split()
        return [entry for entry in entries if all(word in entry.searched for word in words)]

    def _place_of(self, before: Entry | None) -> int | None:
        """The line that was chosen, if it is still there; else the first that can be used, or the first at all."""
        lines = [(i, entry) for i, entry in enumerate(self._entries) if entry is not None]
        same = [i for i, entry in lines if before is not None and entry.name == before.name]
        usable = [i for i, entry in lines if entry.usable]
        return next(iter((*same, *usable, *(i for i, _ in lines))), None)

    def on_input_changed(self) -> None:
        """Other words."""
        self._fill()

    def _line(self, entry: Entry, cells: list[str]) -> Content:
        colour = "" if entry.usable else "$foreground-muted"
        if entry.local is not None and entry.local.problem is not None:
            colour = "$text-error"
        return Content.styled((" " * GAP).join(cells), colour)

    def on_option_list_option_highlighted(self) -> None:
        """Say more about it."""
        self._describe()

    def _describe(self) -> None:
        nothing = "No line contains these words." if self._filter.value else ""
        self.query_one("#detail", Static).update(Content(self._entry.detail if self._entry is not None else nothing))
        self.refresh_bindings()

    def on_option_list_option_selected(self) -> None:
        self.action_use()

    # Choosing

    def action_use(self) -> None:
        """Load it, if its files say that it can be."""
        if self._filter.has_focus:
            self._list.focus()
            return
        if (entry := self._entry) is None:
            return
        if entry.row is not None and not entry.usable:
            self._say(f"{entry.name} is not here, or only in part: D downloads it.", wrong=True)
            return
        self._consider(entry, use=True)

    def action_check(self) -> None:
        """Say whether it could be loaded, or could draft for what is loaded."""
        if (entry := self._entry) is None:
            return
        if entry.local is not None:
            self._consider(entry, use=False, drafting=True)
        elif entry.usable:
            self._consider(entry, use=False)
        else:
            self._say(f"{entry.name} is not here: its files are checked when they are downloaded.", wrong=True)

    def action_draft(self) -> None:
        """Let it draft for the model that is loaded."""
        if (entry := self._entry) is not None and entry.local is not None:
            self._consider(entry, use=True, drafting=True)
        else:
            self._say("A pair brings its own draft model: Enter uses both.", wrong=True)

    def action_no_draft(self) -> None:
        """Go on without the draft model."""
        if self._load.draft is None:
            self._say("No draft model is loaded.")
        else:
            self.dismiss(replace(self._load, draft=None))

    def _consider(self, entry: Entry, *, use: bool, drafting: bool = False) -> None:
        if self._shelf is None:
            return
        try:
            choice = entry.files(self._shelf.registry)
            if drafting:
                choice = Choice(Path(self._load.target), choice.target)
        except EdgeSpecError as error:
            self._say(error.message, error.hint, wrong=True)
            return
        self._say("Reading the headers ...")
        self._judge(choice, use)

    @work(thread=True, exclusive=True, group="judge")
    def _judge(self, choice: Choice, use: bool) -> None:
        if self._shelf is None:
            return
        try:
            opinion = judge(choice, self._shelf.registry)
        except EdgeSpecError as error:
            opinion = Opinion(False, (error.message, error.hint))
        self.post_message(Judged(choice, opinion, use))

    def on_judged(self, message: Judged) -> None:
        """Leave with it, or say why not; what is loaded stays then."""
        choice = message.choice
        if message.use and message.opinion.possible:
            draft = str(choice.draft) if choice.draft is not None else None
            self.dismiss(replace(self._load, target=str(choice.target), draft=draft))
            return
        names = one_line(choice.target.name) + (f" + {one_line(choice.draft.name)}" if choice.draft else "")
        verdict = "can be loaded." if message.opinion.possible else "cannot be used."
        self._say(f"{names} {verdict}", *message.opinion.sentences, wrong=not message.opinion.possible)
