"""A field of one line whose keys keep their order, and the order itself, which the composer shares."""

from __future__ import annotations

from textual import events
from textual.widget import Widget
from textual.widgets import Input


async def run_own_binding(widget: Widget, event: events.Key) -> None:
    """Run what the widget itself binds to this key, at once, and let nobody else see it then.

    Left to Textual, a key with a binding travels up to the app first, and characters typed behind it overtake it.
    Priority bindings did that on purpose.
    """
    if event.is_printable:
        return
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, default_namespace=widget):
            event.stop()
            event.prevent_default()
            return


class LineInput(Input):
    """A field of one line."""

    async def _on_key(self, event: events.Key) -> None:
        await run_own_binding(self, event)  # Textual calls Input's own handler next, unless there was a binding
