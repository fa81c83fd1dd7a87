"""What to compare: a prompt, two to four modes, how often and how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, OptionList, Static, TextArea

from edgespec.contestants import PLAIN, Contestant
from edgespec.engine.messages import MAX_DRAFT_LENGTH, Loaded
from edgespec.prompts import OWN, Prompt, built_in_prompts
from edgespec.types import Mode
from edgespec_tui.text import one_line
from edgespec_tui.widgets.line_input import LineInput
from edgespec_tui.widgets.mode_list import ModeList

MOST = 4
"""Panes that can be read beside each other."""


@dataclass(frozen=True, slots=True)
class CompareChoice:
    """What was chosen."""

    prompt: Prompt
    contestants: tuple[Contestant, ...]
    repeats: int = 3
    max_tokens: int = 128


def offered(draft_length: int) -> tuple[Contestant, ...]:
    """Modes to choose from: the chat's draft length, and another one to see what length does."""
    k = min(max(draft_length, 1), MAX_DRAFT_LENGTH)
    other = min(2 * k, MAX_DRAFT_LENGTH) if k < MAX_DRAFT_LENGTH else k // 2
    lengths = [Contestant(mode, length) for mode in (Mode.LOOKUP, Mode.DRAFT) for length in (k, other)]
    return (PLAIN, *lengths, Contestant(Mode.AUTO))


def usual(loaded: Loaded, draft_length: int) -> tuple[Contestant, ...]:
    """One of every mode that can run."""
    found: dict[Mode, Contestant] = {}
    for contestant in offered(draft_length):
        if loaded.modes.get(contestant.mode) is None:
            found.setdefault(contestant.mode, contestant)
    return tuple(found.values())


class CompareSetup(ModalScreen[CompareChoice | None]):
    """Two lists and two numbers; F4 starts from anywhere."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f4,ctrl+s", "start", "Start", key_display="f4", priority=True, tooltip="Measure these modes"),
        Binding("tab", "app.focus_next", "Next field", key_display="tab"),
        Binding("escape", "dismiss", "Back", key_display="esc", tooltip="Measure nothing"),
    ]

    def __init__(self, loaded: Loaded, draft_length: int, choice: CompareChoice | None, question: str | None) -> None:
        super().__init__()
        self._loaded = loaded
        self._offered = offered(draft_length)
        chosen = choice.contestants if choice is not None else usual(loaded, draft_length)
        self._chosen = {contestant for contestant in chosen if contestant in self._offered}
        self._choice = choice
        asked = [Prompt("this-chat", "this chat's last message", OWN, question)] if question else []
        self._own = Prompt("own-text", "write your own text", OWN, "")
        self._prompts = [*asked, *built_in_prompts(), self._own]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="setup", can_focus=False):
            yield Static(Content("Each mode runs alone, in turns; then all are replayed together."))
            with Horizontal(id="lists"):
                with Vertical(id="prompt-side"):
                    yield Static(Content("Prompt"), classes="heading")
                    yield OptionList(*map(self._prompt_line, self._prompts), id="prompts", markup=False, compact=True)
                with Vertical(id="mode-side"):
                    yield Static(Content(f"Modes, up to {MOST}; space: on or off"), classes="heading")
                    yield ModeList(self._offered, self._chosen, self._loaded.modes)
                    for name, value, words in (
                        ("repeats", self._choice.repeats if self._choice else 3, "3 or more"),
                        ("tokens", self._choice.max_tokens if self._choice else 128, "at most a reply"),
                    ):
                        with Horizontal(classes="row"):
                            yield Static(Content(name.capitalize()), classes="name")
                            yield LineInput(str(value), id=name, compact=True, select_on_focus=True, type="integer")
                            yield Static(Content(words), classes="meaning")
            yield TextArea("", id="text", read_only=True, highlight_cursor_line=False, tab_behavior="focus")
            yield Static("", id="remark")
        yield Footer(show_command_palette=False, compact=True)

    def _prompt_line(self, prompt: Prompt) -> Content:
        return Content.assemble((f"{prompt.id:<12}", "$text-accent"), " ", one_line(prompt.title))

    def on_mount(self) -> None:
        prompts = self.query_one("#prompts", OptionList)
        ids = [prompt.id for prompt in self._prompts]
        wanted = self._choice.prompt.id if self._choice is not None else ids[0]
        if self._choice is not None and wanted == self._own.id:
            self._own = self._prompts[-1] = self._choice.prompt
        prompts.highlighted = ids.index(wanted) if wanted in ids else 0
        prompts.focus()

    @property
    def _prompt(self) -> Prompt:
        return self._prompts[self.query_one("#prompts", OptionList).highlighted or 0]

    def on_option_list_option_highlighted(self, message: OptionList.OptionHighlighted) -> None:
        if message.option_list.id != "prompts":
            return
        text = self.query_one("#text", TextArea)
        own = self._prompt.id == self._own.id
        text.load_text(self._prompt.text)
        text.read_only = not own
        text.border_title = Content("Your text: Tab goes there" if own else "What is asked")

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Enter on a prompt: start, or write it first."""
        if message.option_list.id == "prompts":
            if self._prompt.id == self._own.id:
                self.query_one("#text").focus()
            else:
                self.action_start()

    def on_input_submitted(self) -> None:
        self.action_start()

    def action_start(self) -> None:
        """Check what was chosen, and leave with it."""
        try:
            self.dismiss(self._read())
        except ValueError as error:
            self.query_one("#remark", Static).update(Content(f"! {error}"))

    def _read(self) -> CompareChoice:
        prompt = self._prompt
        if prompt.id == self._own.id:
            text = self.query_one("#text", TextArea).text.strip()
            if not text:
                self.query_one("#text").focus()
                raise ValueError("Write a prompt, or choose one from the list.")
            prompt = Prompt(self._own.id, "own text", OWN, text)
        contestants = self.query_one(ModeList).chosen
        if not 2 <= len(contestants) <= MOST:
            self.query_one("#modes").focus()
            raise ValueError(f"Choose plain and one to {MOST - 1} others; space switches a mode on or off.")
        return CompareChoice(prompt, contestants, self._number("repeats", 100), self._number("tokens", 100_000))

    def _number(self, name: str, most: int) -> int:
        field = self.query_one(f"#{name}", Input)
        if not field.value.isascii() or not field.value.isdigit() or not 1 <= int(field.value) <= most:
            field.focus()
            raise ValueError(f"{name.capitalize()} must be a number from 1 to {most:,}.")
        return int(field.value)
