"""The side panel: how fast, how much faster than plain, why, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

from textual.content import Content
from textual.widgets import Static

from edgespec.decoding.stats import GenerationStats
from edgespec.engine.messages import DeviceMemory
from edgespec_tui.figures import ENOUGH_DRAFTED, Pace
from edgespec_tui.text import count, one_line, size
from edgespec_tui.totals import Totals
from edgespec_tui.widgets.token_flow import BONUS_DOT

BAR = 17
WIDTH = 36
"""Cells of a line where the panel is narrowest."""
Part = str | tuple[str, str]
HEADING = "bold $text-primary"
MUTED = "$foreground-muted"


@dataclass(frozen=True, slots=True)
class Figures:
    """What the panel shows; None where there is nothing yet.

    Attributes:
        why: sentences on why it is as fast as it is.
        memory: bytes in use, and of the whole machine.
        devices: the same of each device beside the processor.
    """

    stats: GenerationStats | None = None
    pace: Pace | None = None
    why: tuple[str, ...] = ()
    totals: Totals = Totals()  # noqa: RUF009 - frozen
    memory: tuple[int, int] | None = None
    devices: tuple[DeviceMemory, ...] = ()


class StatsPanel(Static):
    """Figures of the reply in progress or of the last one. Every number keeps its place while it changes."""

    def __init__(self) -> None:
        super().__init__()
        self._figures = Figures()

    def on_mount(self) -> None:
        self.show(self._figures)

    def on_resize(self) -> None:
        self.show(self._figures)

    def show(self, figures: Figures) -> None:
        """Draw the figures."""
        self._figures = figures
        self.update(Content.assemble(*self._fitting(_sections(figures))), layout=False)

    def _fitting(self, sections: list[tuple[int, list[Part]]]) -> list[Part]:
        """As many sections as the panel has lines for; those of the highest number go first."""
        room = self.size.height or 100
        while len(sections) > 1 and sum(_lines(parts) for _, parts in sections) > room:
            sections.remove(max(sections, key=lambda section: section[0]))
        return [part for _, parts in sections for part in parts]


def _sections(figures: Figures) -> list[tuple[int, list[Part]]]:
    """The panel from top to bottom, each section with how readily it gives way."""
    if (stats := figures.stats) is None:
        start: list[Part] = [
            ("THIS REPLY\n", HEADING),
            ("  Speed and drafts appear here\n  with the first reply.\n", MUTED),
        ]
        return [(0, start), (1, _legend())]
    return [
        (0, _speed(stats, figures.pace)),
        (1, _drafts(stats)),
        (3, _rounds(stats)),
        (5, _time(stats)),
        (2, _why(figures.why)),
        (7, _chat(figures.totals)),
        (6, _memory(figures.memory, figures.devices)),
        (4, _legend()),
    ]


def _lines(parts: list[Part], width: int = WIDTH) -> int:
    """How many lines they take; text that is not broken by hand wraps."""
    text = "".join(part if isinstance(part, str) else part[0] for part in parts)
    return sum(max(1, -(-len(line) // width)) for line in text.split("\n")[:-1])


def _chat(totals: Totals) -> list[Part]:
    if totals.replies < 2:
        return []
    accepted = f"  {totals.accepted}/{totals.drafted} accepted" if totals.drafted else ""
    return [
        ("\nTHIS CHAT\n", HEADING),
        f"  {count(totals.replies, 'reply').replace('replys', 'replies')}, {count(totals.tokens, 'token')}\n",
        f"  {_number(totals.rate, 1)} tok/s average{accepted}\n",
    ]


def _memory(memory: tuple[int, int] | None, devices: tuple[DeviceMemory, ...]) -> list[Part]:
    if memory is None:
        return []
    rows = [("", *memory), *((each.name, each.used_bytes, each.total_bytes) for each in devices)]
    lines = [f"  {size(used)} of {size(whole)}{f'  {one_line(name)}' if name else ''}\n" for name, used, whole in rows]
    return [("\nMEMORY\n", HEADING), *lines]


def _why(sentences: tuple[str, ...]) -> list[Part]:
    if not sentences:
        return []
    lines = [line for sentence in sentences for line in wrap(sentence, WIDTH - 2)]
    return [("\nWHY\n", HEADING), *((f"  {line}\n", "italic") for line in lines)]


def _speed(stats: GenerationStats, pace: Pace | None) -> list[Part]:
    average = stats.decode_tokens_per_second
    now = (pace.now if pace is not None else None) or average
    speedup = stats.measured_speedup
    if not stats.drafted:  # nothing was guessed, so nothing can have been gained
        known, meaning = f"{'-':>7}", " nothing drafted, plain speed\n"
    elif speedup is None:
        known, meaning = f"{'measuring':>11}", " the speed-up\n"
    else:
        known, meaning = f"{speedup:>6.2f}x", " the speed of plain\n"
    return [
        ("THIS REPLY\n", HEADING),
        (f"{_number(now, 1):>7}", "bold"), " tok/s now ", (f"{_number(average, 1):>7} average\n", MUTED),
        (known, "bold"), meaning,
        (f"  {_sparkline(list(pace.history) if pace is not None else [])}\n", "$text-success"),
    ]  # fmt: skip


def _drafts(stats: GenerationStats) -> list[Part]:
    enough = stats.drafted >= ENOUGH_DRAFTED
    share = f"{stats.draft_acceptance_rate:.0%}" if enough and stats.draft_acceptance_rate is not None else "-"
    alpha = stats.alpha if enough else None
    return [
        ("\nDRAFTS\n", HEADING),
        f"  drafted {stats.drafted:>6}  accepted   {stats.accepted:>6}\n",
        f"  passes  {stats.rounds:>6}  acceptance {share:>6}\n",
        f"  τ       {_number(stats.mean_acceptance_length, 2):>6}  α          {_number(alpha, 2):>6}\n",
    ]


def _rounds(stats: GenerationStats, most: int = 6) -> list[Part]:
    histogram = list(stats.acceptance_histogram)
    if len(histogram) > most + 1:
        histogram = [*histogram[:most], sum(histogram[most:])]
    top = max(histogram, default=0) or 1
    parts: list[Part] = [("\nACCEPTED PER PASS\n", HEADING)]
    for accepted, passes in enumerate(histogram or [0]):
        label = f"{accepted}+" if accepted == most else f"{accepted} "
        parts += [f"  {label} ", (f"{'█' * round(passes / top * BAR):<{BAR}}", "$text-accent"), f" {passes:>5}\n"]
    if stats.drafted >= ENOUGH_DRAFTED and stats.acceptance_by_position:
        kept = " ".join(f"{rate:.2f}".lstrip("0") for rate in stats.acceptance_by_position[:4])
        parts += [("  by position ", MUTED), f"{kept}\n"]
    return parts


def _time(stats: GenerationStats) -> list[Part]:
    spans = {"draft": stats.draft_seconds, "verify": stats.verify_seconds, "other": stats.overhead_seconds}
    total = sum(spans.values())
    shares = [f"{name} {seconds / total if total else 0.0:>3.0%}" for name, seconds in spans.items()]
    return [("\nTIME\n", HEADING), f"  {'  '.join(shares)}\n"]


def _legend() -> list[Part]:
    return [
        ("\nTOKENS\n", HEADING),
        "  ", ("accepted draft", "underline $text-success"), "   ", ("corrected", "bold $text-warning"), "\n",
        "  ", (f"bonus{BONUS_DOT}", "$text-accent"), "           ", ("~thrown away~", "strike dim $text-error"), "\n",
    ]  # fmt: skip


def _sparkline(rates: list[float]) -> str:
    """Bars from zero to the highest, so that a steady rate looks steady."""
    top = max(rates, default=0.0) or 1.0
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(rate / top * 7.99))] for rate in rates)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
