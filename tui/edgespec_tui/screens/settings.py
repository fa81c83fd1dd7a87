"""How replies are made: system text, sampling, length. Used from the next reply on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static, TextArea

from edgespec.engine.messages import GenerateOptions
from edgespec.settings import RULES
from edgespec_tui.widgets.line_input import LineInput

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed")
LENGTHS = ("max_tokens", "draft_length")
OPTIONAL = ("seed", "max_tokens")
"""Fields that may be left empty."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the screen changes.

    Attributes:
        options: sampling and lengths.
        system: system text; None for none.
        seeded: is the seed fixed, or a new one drawn for each reply?
    """

    options: GenerateOptions
    system: str | None
    seeded: bool


class SettingsScreen(ModalScreen[Choices | None]):
    """A form; values that cannot be are refused beside their field."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "save", "Use", key_display="⏎", tooltip="Use these from the next reply on"),
        Binding("ctrl+s,f9", "save", "Use", priority=True, tooltip="Use these from the next reply on"),
        Binding("escape", "dismiss", "Back", key_display="esc", tooltip="Change nothing"),
    ]

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self._choices = choices

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="settings"):
            yield Static(Content("System text"), classes="heading")
            yield TextArea(self._choices.system or "", id="system", tab_behavior="focus", highlight_cursor_line=False)
            for title, names in (("Sampling", SAMPLING), ("Length", LENGTHS)):
                yield Static(Content(title), classes="heading")
                for name in names:
                    yield from self._field(name)
        yield Footer(show_command_palette=False, compact=True)

    def _field(self, name: str) -> ComposeResult:
        with Horizontal(classes="row"):
            yield Static(Content(name.replace("_", " ")), classes="name")
            yield LineInput(self._value(name), id=name, compact=True, select_on_focus=True)
            yield Static(Content(RULES[name].summary), id=f"{name}-note", classes="meaning")

    def _value(self, name: str) -> str:
        options = self._choices.options
        value = getattr(options.sampling if name in SAMPLING else options, name)
        if value is None or (name == "seed" and not self._choices.seeded):
            return ""
        return f"{value:g}" if isinstance(value, float) else str(value)

    def on_mount(self) -> None:
        self.query_one("#temperature").focus()

    def on_input_submitted(self) -> None:
        self.action_save()

    def action_save(self) -> None:
        """Check every field, and leave if all are right."""
        values: dict[str, Any] = {}
        wrong: list[str] = []
        for name in (*SAMPLING, *LENGTHS):
            note = self.query_one(f"#{name}-note", Static)
            try:
                values[name] = self._read(name)
                note.update(Content(RULES[name].summary))
            except ValueError as error:
                wrong.append(name)
                note.update(Content(f"must be {error}"))
            note.set_class(name in wrong, "-wrong")
        if wrong:
            self.query_one(f"#{wrong[0]}").focus()
            return
        self.dismiss(self._chosen(values))

    def _read(self, name: str) -> Any:
        text = self.query_one(f"#{name}", Input).value.strip()
        if not text and name in OPTIONAL:
            return None
        return RULES[name].check(RULES[name].read(text))

    def _chosen(self, values: dict[str, Any]) -> Choices:
        sampling = {name: values[name] for name in SAMPLING if values[name] is not None}
        lengths = {name: values[name] for name in LENGTHS}
        options = self._choices.options
        return Choices(
            replace(options, sampling=replace(options.sampling, **sampling), **lengths),
            self.query_one("#system", TextArea).text.strip() or None,
            values["seed"] is not None,
        )
