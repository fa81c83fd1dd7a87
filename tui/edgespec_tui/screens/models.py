"""Models: what fits this machine, what is here, fetching it, and switching to it."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from edgespec.models.units import format_size
from edgespec_tui.downloads import Download, DownloadOver, DownloadPlanned, DownloadProgress
from edgespec_tui.screens.models_list import ModelsList
from edgespec_tui.widgets.download_bar import DownloadBar, Rate


class ModelsScreen(ModelsList):
    """Downloads what the list names, and says what the keys do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "use", "Use", key_display="⏎", priority=True, tooltip="Load it"),
        Binding("d", "download", "Download", tooltip="Fetch this pair; goes on where it was stopped"),
        Binding("t", "draft", "Draft with it", tooltip="Let this model draft for the one that is loaded"),
        Binding("n", "no_draft", "No draft", tooltip="Load what is loaded without its draft model"),
        Binding("c", "check", "Check", tooltip="Can it draft for the model that is loaded? For a pair: do both fit?"),
        Binding("y", "agree", "Yes, fetch", show=False, tooltip="Agree, and fetch"),
        Binding("f1", "app.help", "Help", tooltip="Keys, marks and figures explained"),
        Binding("escape", "back", "Back", key_display="esc", tooltip="Stop the download, or go back to the chat"),
    ]

    _download: Download | None = None
    _planned: DownloadPlanned | None = None
    _rate = Rate()

    def on_unmount(self) -> None:
        if self._download is not None:
            self._download.cancel()

    def action_download(self) -> None:
        """Ask what there is to fetch."""
        entry = self._entry
        if self._download is not None:
            self._say("One download at a time: Esc stops this one.", wrong=True)
        elif entry is None or entry.row is None or self._shelf is None:
            self._say("Choose a pair of the list to download.", wrong=True)
        elif entry.usable:
            self._say(f"{entry.name} is here already: Enter uses it.")
        else:
            self._planned = None
            self._download = Download(entry.row.pair, self._shelf.registry, self.post_message)
            self._download.plan()
            self._say(f"Asking about {entry.name} ... Esc stops.")

    def on_download_planned(self, message: DownloadPlanned) -> None:
        """Say what it is and wait for a yes."""
        plan = message.plan
        self._planned = message
        if plan.complete:
            self.action_agree()
            return
        amount = format_size(plan.to_fetch) if plan.to_fetch is not None else "a file of unknown size"
        held = sum(file.held for file in plan.files)
        here = f" ({format_size(held)} of it are here)" if held else ""
        terms = [f"It comes under {licence.title} {licence.url}".rstrip() + "." for licence in message.licences]
        agree = "Y agrees and fetches" if terms else "Y fetches"
        self._say(f"{plan.title}: {amount} to fetch{here}.", *plan.notices, *terms, f"{agree}, Esc does not.")

    def action_agree(self) -> None:
        """Fetch what was planned."""
        if self._planned is not None and self._download is not None:
            planned, self._planned = self._planned, None
            self._rate = Rate()
            self.query_one("#progress").display = True
            self._download.fetch(planned)
            self._say("Esc stops; D goes on later from there.")

    def on_download_progress(self, message: DownloadProgress) -> None:
        """Draw how far it is."""
        if self._download is not None:
            rate = self._rate.add(message.done)
            bar = self.query_one("#progress", DownloadBar)
            bar.show(self._download.pair.id, message.done, message.total, rate)
            if message.remark:
                self._say(message.remark)

    def on_download_over(self, message: DownloadOver) -> None:
        """Say how it ended, and look again at what is here."""
        self._download = self._planned = None
        self.query_one("#progress").display = False
        self._say(*message.sentences, wrong=message.failed)
        self._look()

    def action_back(self) -> None:
        """Stop the download; else go back."""
        if self._planned is not None:
            self._download = self._planned = None
            self._say("Nothing was fetched.")
        elif self._download is not None:
            self._download.cancel()
            self._say("Stopping ...")
        else:
            self.dismiss(None)
