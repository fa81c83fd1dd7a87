"""A reply pass by pass: what was drafted, what was kept, what the target said itself, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, OptionList, Static

from edgespec.engine.messages import RoundDone
from edgespec.types import Origin
from edgespec_tui.text import count, one_line

STYLES = {
    Origin.ACCEPTED: "underline $text-success",
    Origin.CORRECTED: "bold $text-warning",
    Origin.BONUS: "$text-accent",
    Origin.PLAIN: "",
}
THROWN_AWAY = "strike dim $text-error"
Part = str | tuple[str, str]


class RoundsScreen(ModalScreen[None]):
    """One line a pass; below, the tokens of the pass that the cursor is on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,down", "nothing", "Other pass", key_display="↑↓"),
        Binding("escape,ctrl+g,q", "dismiss", "Back", key_display="esc"),
    ]

    def __init__(self, rounds: Sequence[RoundDone]) -> None:
        super().__init__()
        self._rounds = list(rounds)

    def compose(self) -> ComposeResult:
        with Vertical(id="rounds"):
            tokens = sum(len(event.round.tokens) for event in self._rounds)
            head = f"{count(tokens, 'token')} in {count(len(self._rounds), 'pass').replace('passs', 'passes')}"
            yield Static(Content(f"{head}; | parts tokens, ~ marks what was thrown away"), classes="heading")
            yield OptionList(*map(_line, self._rounds), markup=False, compact=True)
            yield Static("", id="detail")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        self.query_one(OptionList).highlighted = 0

    def action_nothing(self) -> None:
        """Only there to be read: the list takes the keys."""

    def on_option_list_option_highlighted(self, message: OptionList.OptionHighlighted) -> None:
        """Tell the pass's tokens one by one."""
        self.query_one("#detail", Static).update(_detail(self._rounds[message.option_index]))


def _line(event: RoundDone) -> Content:
    made = event.round
    parts: list[Part] = [(f"{made.index + 1:>4} ", "$foreground-muted"), f"+{len(made.tokens)}  "]
    for i, (origin, text) in enumerate(zip(made.origins, event.texts, strict=True)):
        if i:
            parts.append(("|", "$foreground-muted"))
        if origin is Origin.CORRECTED and event.rejected:
            parts += [(f"~{one_line(''.join(event.rejected))}~", THROWN_AWAY), ("|", "$foreground-muted")]
        dot = "·" if origin is Origin.BONUS else ""
        parts.append((one_line(text) + dot, STYLES[origin]))
    return Content.assemble(*parts)


def _detail(event: RoundDone) -> Content:
    made = event.round
    drafted = f"{made.draft.source} drafted {len(made.draft.tokens)}" if made.draft.tokens else "nothing was drafted"
    accepted = f", {made.verdict.accepted} accepted" if made.draft.tokens else ""
    times = f"draft {1000 * made.draft_seconds:.1f} ms, pass {1000 * made.verify_seconds:.1f} ms"
    parts: list[Part] = [(f"Pass {made.index + 1}: {drafted}{accepted}; {times}\n", "bold")]
    for token, origin, text in zip(made.tokens, made.origins, event.texts, strict=True):
        name = one_line(text) if text else "(part of a character, or the end)"
        parts += [f"  {token:>7}  ", (f"{origin:<10}", STYLES[origin]), f"  {name!r}\n"]
    for token, text in zip(made.draft.tokens[made.verdict.accepted :], event.rejected, strict=False):
        parts += [f"  {token:>7}  ", (f"{'rejected':<10}", THROWN_AWAY), f"  {one_line(text)!r}\n"]
    return Content.assemble(*parts)
