"""What a comparison measured: one line for each mode, and sentences on what the figures say."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widgets import Static

from edgespec import report_words
from edgespec.comparison import Comparison
from edgespec_tui.race import scores_of
from edgespec_tui.text import clean
from edgespec_tui.widgets.race_pane import name_of

GAP = 2
LEAST = ("first token", "passes", "α", "accepted/drafted")
"""Columns that give way, in this order, where the window is too narrow for all."""


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
        columns = fitting(self._lines, width)
        drawn = []
        for i, line in enumerate(self._lines):
            cells = [
                line[column].ljust(wide) if not column else line[column].rjust(wide) for column, wide in columns.items()
            ]
            drawn.append(((" " * GAP).join(cells), "$foreground-muted" if not i else ""))
        return drawn


def fitting(lines: Sequence[tuple[str, ...]], width: int) -> dict[int, int]:
    """Columns that fit into this width, each with its own."""
    heads = lines[0] if lines else ()
    columns = {i: max(len(line[i]) for line in lines) for i in range(len(heads))}
    for name in LEAST:
        if sum(columns.values()) + GAP * (len(columns) - 1) > width and name in heads:
            del columns[heads.index(name)]
    return columns


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
        sentences = [f"· {clean(sentence)}" for sentence in dict.fromkeys(said)]
        self.query_one("#findings", Static).update(Content("\n".join(sentences)))

    def clear(self) -> None:
        """Show nothing."""
        self.query_one(Grid).fill([])
        self.query_one("#findings", Static).update(Content(""))


