"""What a comparison measured: one line for each mode, and sentences on what the figures say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widgets import Static

from edgespec import report_words
from edgespec.comparison import Comparison
from edgespec_tui.columns import GAP, RANGES, fitting
from edgespec_tui.race import scores_of
from edgespec_tui.text import clean
from edgespec_tui.widgets.race_pane import name_of

GIVE_WAY = ("first", "passes", "α", RANGES, "accepted")


class Grid(Static):
    """The table, in as many columns as fit."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[tuple[str, ...]] = []

    def fill(self, lines: Sequence[tuple[str, ...]]) -> None:
        """Draw these lines; the first one is the head."""
        self._lines = list(lines)
        self.refresh(layout=True)

    def render(self) -> Content:
        return Content("\n").join([Content.styled(line, style) for line, style in self._drawn(self.size.width)])

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, len(self._lines))

    def _drawn(self, width: int) -> list[tuple[str, str]]:
        drawn = []
        for i, line in enumerate(fitting(self._lines, width, GIVE_WAY)):
            drawn.append(((" " * GAP).join(line), "$foreground-muted" if not i else ""))
        return drawn


class Results(VerticalScroll):
    """The table and what it says."""

    HELP = "tok/s: tokens per second, median and range over the repeats. Ratios compare runs of the same repeat."

    def compose(self) -> ComposeResult:
        yield Grid()
        yield Static("", id="findings")

    def show(self, comparison: Comparison) -> None:
        """Draw the figures of the comparison's prompt."""
        lines: list[tuple[str, ...]] = [report_words.COLUMNS]
        for score in scores_of(comparison):
            lines.append((name_of(score.contestant), *report_words.cells(score)[1:]))
        self.query_one(Grid).fill(lines)
        said = report_words.findings(comparison, comparison.prompts[0].id) + report_words.overall_findings(comparison)
        sentences = [f"· {clean(_renamed(sentence, comparison))}" for sentence in dict.fromkeys(said)]
        self.query_one("#findings", Static).update(Content("\n".join(sentences)))

    def clear(self) -> None:
        """Show nothing."""
        self.query_one(Grid).fill([])
        self.query_one("#findings", Static).update(Content(""))


def _renamed(sentence: str, comparison: Comparison) -> str:
    """Call the modes what the panes call them."""
    for contestant in comparison.contestants:
        if contestant.draft_length is not None:
            sentence = re.sub(rf"\b{re.escape(contestant.name)}\b", name_of(contestant), sentence)
    return sentence
