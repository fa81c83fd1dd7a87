"""The box to write in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import TextArea

from edgespec_tui.text import count, harmless
from edgespec_tui.widgets.line_input import run_own_binding

LONG = 2_000
"""From this many characters on the box says how much it holds."""


class Composer(TextArea):
    """Several lines of plain text. Enter sends; up and down at the edges walk through what was sent before."""

    HELP = "Write your message. **Enter** sends it, **Ctrl+J** (or Shift+Enter) starts a new line."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", key_display="⏎", priority=True, tooltip="Send the message"),
        # Not in the footer, which is full at 80 columns: the box says it on its own edge while it holds a text.
        Binding("ctrl+u", "empty", "Empty", show=False, tooltip="Empty the box; Ctrl+Z brings the text back"),
        Binding("ctrl+j,shift+enter,alt+enter", "newline", "New line", show=False, priority=True),
    ]

    @dataclass
    class Submitted(Message):
        """Enter was pressed."""

        text: str

    def __init__(self) -> None:
        super().__init__(
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            placeholder="Write a message. Enter sends, Ctrl+J starts a new line.",
        )
        for key in ("f6", "f7"):  # a text area selects with them; here they belong to the screen
            self._bindings.key_to_bindings.pop(key, None)
        self._sent: list[str] = []
        self._back = 0
        self._hint = self._hinted = ""
        self._filled = False

    async def _on_key(self, event: events.Key) -> None:
        await run_own_binding(self, event)

    def remember(self, text: str) -> None:
        """Keep a sent message for the up key, and empty the box."""
        self._sent.append(text)
        self._back = 0
        self.load_text("")

    def restore(self, text: str) -> None:
        """Put a text back that could not be sent, unless something else was written meanwhile."""
        if not self.text.strip():
            self._fill(harmless(text))  # a saved chat may come from anywhere

    def hint(self, text: str) -> None:
        """Show a short remark on the box's edge until the text changes."""
        self._hint, self._hinted = text, self.text
        self._label()

    def action_submit(self) -> None:
        # A priority binding overtakes the keys that still wait in this widget's queue: take a place behind them.
        self.call_later(self._submit)

    def _submit(self) -> None:
        self.post_message(self.Submitted(self.text))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """An empty box needs no emptying."""
        return bool(self.text) if action == "empty" else super().check_action(action, parameters)

    def action_empty(self) -> None:
        """Take all of the text out, so that undo brings it back."""
        self.clear()
        self.hint("emptied: Ctrl+Z brings it back")

    def action_newline(self) -> None:
        self.call_later(self._newline)

    def _newline(self) -> None:
        self._replace_via_keyboard("\n", *self.selection)

    def action_cursor_up(self, select: bool = False) -> None:
        at_top = self.cursor_location[0] == 0 and (not self.text or self._back > 0)
        if at_top and not select and self._back < len(self._sent):
            self._walk(self._back + 1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        at_bottom = self.cursor_location[0] == self.document.line_count - 1
        if at_bottom and not select and self._back > 0:
            self._walk(self._back - 1)
        else:
            super().action_cursor_down(select)

    def _walk(self, back: int) -> None:
        self._back = back
        self._fill(self._sent[-back] if back else "")

    def _fill(self, text: str) -> None:
        self.load_text(text)
        self.move_cursor(self.document.end)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if result := self._replace_via_keyboard(harmless(event.text), *self.selection):
            self.move_cursor(result.end_location)

    def on_text_area_changed(self) -> None:
        if self.text != self._hinted:
            self._hint = ""
        self._label()
        if bool(self.text) != self._filled:
            self._filled = bool(self.text)
            self.refresh_bindings()

    def _label(self) -> None:
        label, n = self._hint, len(self.text)
        if not label and n:
            length = self.document.end[0] + 1
            held = f"{count(length, 'line')}, {count(n, 'character')}, about {count(n // 4, 'token')}"
            label = f"{held} · Ctrl+U empties" if n >= LONG else "Ctrl+U empties"
        self.border_subtitle = Content.styled(label, "" if self._hint else "$foreground-muted")
