"""Fields of one line."""

from __future__ import annotations

from edgespec_tui.widgets.line_input import LineInput
from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Input


class _OneField(App[None]):
    sent = ""

    def compose(self) -> ComposeResult:
        yield LineInput("old")

    def on_input_submitted(self, message: Input.Submitted) -> None:
        self.sent = message.value


async def test_keys_in_a_burst_keep_their_order() -> None:
    app = _OneField()
    async with app.run_test() as pilot:
        for key, character in (("ctrl+u", None), ("n", "n"), ("x", "x"), ("backspace", "\x7f"), ("o", "o")):
            app.post_message(events.Key(key, character))
        app.post_message(events.Key("enter", "\r"))
        await pilot.pause()
        assert app.query_one(LineInput).value == "no" == app.sent
