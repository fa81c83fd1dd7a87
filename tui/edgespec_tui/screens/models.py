"""Models: what fits this machine, what is here, fetching it, taking it off the disk, and switching to it."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.message import Message

from edgespec.errors import EdgeSpecError
from edgespec.models.units import format_size
from edgespec_tui.downloads import DownloadMessage, DownloadOver, DownloadPlanned, DownloadProgress, Downloads
from edgespec_tui.removal import Removal, carry_out, plan
from edgespec_tui.screens.inspect import InspectScreen
from edgespec_tui.screens.models_list import ModelsList
from edgespec_tui.widgets.download_bar import DownloadBar


class RemovalPlanned(Message):
    """What would go, or why nothing does."""

    def __init__(self, removal: Removal | None, problem: str = "") -> None:
        super().__init__()
        self.removal = removal
        self.problem = problem


class Removed(Message):
    """It is gone, or why not."""

    def __init__(self, sentence: str, failed: bool = False) -> None:
        super().__init__()
        self.sentence = sentence
        self.failed = failed


class ModelsScreen(ModelsList):
    """Downloads and removes what the list names, and says what the keys do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "use", "Use", key_display="⏎", priority=True, tooltip="Load it"),
        Binding("y", "agree", "Yes", tooltip="Do what was asked about"),
        Binding("d", "download", "Download", tooltip="Fetch this pair; goes on where it was stopped"),
        Binding("s", "stop", "Stop", tooltip="Stop the download; D goes on with it later"),
        Binding("t", "draft", "Draft with it", tooltip="Let this model draft for the one that is loaded"),
        Binding("n", "no_draft", "No draft", tooltip="Load what is loaded without its draft model"),
        Binding("c", "check", "Check", tooltip="Can it draft for the model that is loaded? For a pair: do both fit?"),
        Binding("i", "inspect", "Inspect", tooltip="What the file's header says, and whether it fits here"),
        Binding("x", "remove", "Remove", tooltip="Take it off this disk"),
        Binding("slash", "filter", "Filter", key_display="/", tooltip="Show only what contains these words"),
        Binding("down", "leave_filter", "To the list", show=False),
        Binding("f1", "app.help", "Help", tooltip="Keys, marks and figures explained"),
        Binding("escape", "back", "Back", key_display="esc", tooltip="Back to the chat; a download goes on"),
    ]

    _removal: Removal | None = None

    @property
    def _downloads(self) -> Downloads:
        return self._app.downloads

    def on_mount(self) -> None:
        self._show_bar()
        if self._downloads.planned is not None:
            self._ask(self._downloads.planned)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what can be done with the line that is chosen."""
        entry = self._entry
        match action:
            case "agree":
                return self._removal is not None or self._downloads.planned is not None
            case "stop":
                return self._downloads.progress is not None
            case "download":
                return entry is not None and entry.row is not None and not entry.usable
            case "draft":
                return entry is not None and entry.local is not None and entry.usable
            case "no_draft":
                return self._load.draft is not None
            case "remove":
                return entry is not None and entry.removable
            case "leave_filter":
                return self._filter.has_focus
            case _:
                return True

    # Downloading

    def action_download(self) -> None:
        """Ask what there is to fetch."""
        entry = self._entry
        if self._downloads.current is not None:
            self._say("One download at a time: S stops this one.", wrong=True)
        elif entry is not None and entry.row is not None and self._shelf is not None:
            self._removal = None
            self._downloads.plan(entry.row.pair, self._shelf.registry)
            self._say(f"Asking about {entry.name} ...")

    def show_download(self, message: DownloadMessage) -> None:
        """Draw what became of the download; the app has noted it."""
        match message:
            case DownloadPlanned():
                self._ask(message)
            case DownloadProgress(remark=remark):
                if remark:
                    self._say(remark)
            case DownloadOver(sentences=sentences, failed=failed):
                self._say(*sentences, wrong=failed)
                self._look()
        self._show_bar()

    def _show_bar(self) -> None:
        bar = self.query_one("#progress", DownloadBar)
        progress = self._downloads.progress
        if bar.display != (progress is not None):
            bar.display = progress is not None
            self.refresh_bindings()
        if progress is not None:
            bar.show(self._downloads.name, progress.done, progress.total, self._downloads.rate)

    def _ask(self, planned: DownloadPlanned) -> None:
        """Say what it is and wait for a yes."""
        if planned.plan.complete:
            self.action_agree()
            return
        found = planned.plan
        amount = format_size(found.to_fetch) if found.to_fetch is not None else "a file of unknown size"
        held = sum(file.held for file in found.files)
        here = f" ({format_size(held)} of it are here)" if held else ""
        terms = [f"It comes under {licence.title} {licence.url}".rstrip() + "." for licence in planned.licences]
        agree = "Y agrees and fetches" if terms else "Y fetches"
        self._say(f"{found.title}: {amount} to fetch{here}.", *found.notices, *terms, f"{agree}, Esc does not.")
        self.refresh_bindings()

    def action_agree(self) -> None:
        """Do what was asked about."""
        if (removal := self._removal) is not None:
            self._removal = None
            self._say(f"Removing {removal.name} ...")
            self._carry_out(removal)
        elif self._downloads.agree():
            self._say("It goes on when you leave this screen. S stops; D goes on later from there.")
            self._show_bar()
        self.refresh_bindings()

    def action_stop(self) -> None:
        """Stop the download."""
        self._downloads.stop()
        self._say("Stopping ...")

    # Removing

    def action_remove(self) -> None:
        """Say what would go, and wait for a yes."""
        entry = self._entry
        if entry is None or self._shelf is None:
            return
        if self._downloads.current is not None:
            self._say("A download is under way: S stops it.", wrong=True)
            return
        self._say(f"Looking what belongs to {entry.name} ...")
        self._plan_removal(entry.removal_name)

    @work(thread=True, exclusive=True, group="removal")
    def _plan_removal(self, name: str) -> None:
        if self._shelf is None:
            return
        try:
            used = [path for path in (self._load.target, self._load.draft) if path is not None]
            self.post_message(RemovalPlanned(plan(name, self._shelf.registry, used)))
        except EdgeSpecError as error:
            self.post_message(RemovalPlanned(None, f"{error.message} {error.hint}"))

    def on_removal_planned(self, message: RemovalPlanned) -> None:
        """Ask."""
        self._removal = message.removal
        if message.removal is None:
            self._say(message.problem, wrong=True)
        else:
            self._say(*message.removal.sentences, "Y removes, Esc does not.", wrong=True)
        self.refresh_bindings()

    @work(thread=True, exclusive=True, group="removal")
    def _carry_out(self, removal: Removal) -> None:
        try:
            carry_out(removal)
            self.post_message(Removed(f"{removal.name} is removed; {format_size(removal.plan.freed)} are free again."))
        except (EdgeSpecError, OSError) as error:
            self.post_message(Removed(f"{removal.name} is not removed: {error}", failed=True))

    def on_removed(self, message: Removed) -> None:
        """Say so, and look again at what is here."""
        self._say(message.sentence, wrong=message.failed)
        self._look()

    # Looking closer

    def action_inspect(self) -> None:
        """Show what the header says."""
        if (entry := self._entry) is not None and self._shelf is not None:
            self.app.push_screen(InspectScreen(entry, self._shelf))

    def action_filter(self) -> None:
        """Write words that a line must contain."""
        self._filter.display = True
        self._filter.focus()

    def action_leave_filter(self) -> None:
        """Go from the words to the list."""
        self._list.focus()

    def action_back(self) -> None:
        """Say no to what is asked, take the filter away, or go back."""
        if self._removal is not None:
            self._removal = None
            self._say("Nothing was removed.")
        elif self._downloads.planned is not None:
            self._downloads.decline()
            self._say("Nothing was fetched.")
        elif self._filter.display:
            self._filter.value = ""
            self._filter.display = False
            self._list.focus()
        else:
            self.dismiss(None)
        self.refresh_bindings()
