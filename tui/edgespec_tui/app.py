"""The terminal app: a chat that shows where every token came from and what speculation gains here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from time import monotonic
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input, TextArea

from edgespec.engine.messages import GenerateOptions, LoadOptions
from edgespec.errors import ModelLoadError
from edgespec_tui.downloads import DownloadMessage, DownloadOver, DownloadPlanned, DownloadProgress, Downloads
from edgespec_tui.runner import OpenEngine, Runner, open_engine
from edgespec_tui.screens.chat import ChatScreen
from edgespec_tui.screens.compare_measuring import CompareMeasuring
from edgespec_tui.screens.help import HelpScreen
from edgespec_tui.screens.models import ModelsScreen
from edgespec_tui.text import clean
from edgespec_tui.widgets.status_bar import StatusBar

QUIT_SECONDS = 2.0
"""Ctrl+C has to be pressed again within this time to quit: once is too easily done by mistake."""

LOOK_SECONDS = 2.0
"""How often to see whether the terminal is still there. Where no signal tells that it was closed (a container, nohup),
the app would go on for ever, with the models in memory and one core busy reading nothing."""


def has_terminal() -> bool:
    """Is there a terminal behind the standard input?"""
    try:
        os.get_terminal_size(0)
    except OSError:
        return False
    return True


class EdgeSpecApp(App[None]):
    """Screens and the runner; the engine's state stays in the engine."""

    TITLE = "EdgeSpec"
    CSS_PATH = "edgespec.tcss"
    ENABLE_COMMAND_PALETTE = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Copy, stop or quit", show=False, priority=True),
        Binding("ctrl+p", "command_palette", "More", priority=True, tooltip="All commands"),
        Binding("ctrl+q", "quit", "Quit", priority=True, tooltip="Leave; the engine ends too"),
    ]

    def __init__(
        self,
        load: LoadOptions,
        generate: GenerateOptions,
        *,
        system: str | None = None,
        notices: tuple[str, ...] = (),
        seeded: bool = False,
        allow_fallback: bool = False,
        opener: OpenEngine = open_engine,
    ) -> None:
        super().__init__()
        self._chat = ChatScreen(
            load, generate, system=system, notices=notices, seeded=seeded, allow_fallback=allow_fallback
        )
        self._interrupted = -QUIT_SECONDS
        self.runner = Runner(self._chat.post_message, opener)
        self.downloads = Downloads(self.post_message)

    @property
    def unused(self) -> str:
        """Why no model was ever loaded; "" if one was."""
        return self._chat.never_loaded

    def get_default_screen(self) -> Screen[None]:
        return self._chat

    def on_mount(self) -> None:
        if not self.is_headless and has_terminal():
            self.set_interval(LOOK_SECONDS, self._leave_without_terminal)

    def _leave_without_terminal(self) -> None:
        if not has_terminal():
            self.exit()

    def on_unmount(self) -> None:
        self.downloads.stop()
        self.runner.close()

    # A download, wherever the user is

    def on_download_planned(self, message: DownloadPlanned) -> None:
        """It waits for a yes."""
        self._show_download(message)

    def on_download_progress(self, message: DownloadProgress) -> None:
        """It moves on."""
        self._show_download(message)

    def on_download_over(self, message: DownloadOver) -> None:
        """It ended."""
        self._show_download(message)

    def _show_download(self, message: DownloadMessage) -> None:
        """The models screen says all of it; elsewhere there is a mark, and a note where it needs or got an end."""
        name = self.downloads.name
        self.downloads.take(message)
        self._chat.query_one(StatusBar).show_download(self.downloads.mark)
        shown = [screen for screen in self.screen_stack if isinstance(screen, ModelsScreen)]
        for screen in shown:
            screen.show_download(message)
        if shown or isinstance(message, DownloadProgress):
            return
        if isinstance(message, DownloadOver):
            text = " ".join(message.sentences)
            self.notify(clean(text), severity="error" if message.failed else "information", markup=False)
        else:
            self.notify(f"{name} waits for a yes: F6.", markup=False)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action that has a key, and Textual's own commands."""
        yield from super().get_system_commands(screen)
        for active in screen.active_bindings.values():
            binding = active.binding
            if binding.tooltip and binding.action != "command_palette" and active.enabled and binding.description:
                yield SystemCommand(
                    f"{binding.description} ({self.get_key_display(binding)})",
                    binding.tooltip or binding.description,
                    partial(self.run_action, binding.action, active.node),
                )

    def action_help(self) -> None:
        """Explain keys, marks and figures."""
        self.push_screen(HelpScreen())

    def action_interrupt(self) -> None:
        """Copy what is selected; else stop what the engine does; else quit, if pressed twice."""
        focused = self.focused
        measuring = next((on for on in self.screen_stack if isinstance(on, CompareMeasuring) and on.measuring), None)
        if isinstance(focused, TextArea | Input) and focused.selected_text:
            self.copy_to_clipboard(focused.selected_text)
        elif selected := self.screen.get_selected_text():
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
        elif self._chat.replying:
            self._chat.action_stop()
        elif measuring is not None:
            measuring.stop_measuring()
        elif monotonic() - self._interrupted < QUIT_SECONDS:
            self.exit()
        else:
            self._interrupted = monotonic()
            self.notify("Press Ctrl+C again to quit.", timeout=QUIT_SECONDS, markup=False)


def run_app(
    load: LoadOptions,
    generate: GenerateOptions,
    *,
    system: str | None = None,
    notices: tuple[str, ...] = (),
    seeded: bool = False,
    allow_fallback: bool = False,
) -> int:
    """Run the app until it is left; returns the exit code. Raises ModelLoadError, then, if no model was ever loaded.

    Args:
        load: models to load.
        generate: how to answer, until the user changes it.
        system: system text of new chats.
        notices: sentences that the caller wants said at the start, such as a fallback it chose.
        seeded: did the user give the seed? If not, every reply gets a new one.
        allow_fallback: may a draft model that is refused be left out?
    """
    app = EdgeSpecApp(load, generate, system=system, notices=notices, seeded=seeded, allow_fallback=allow_fallback)
    app.run()
    if app.unused and not app.return_code:
        raise ModelLoadError(app.unused)
    return app.return_code or 0
