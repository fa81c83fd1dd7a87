"""The line under a reply: how it went, in one breath."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from edgespec.decoding.stats import GenerationStats
from edgespec_tui.figures import ENOUGH_DRAFTED
from edgespec_tui.text import one_line


class StatsLine(Static):
    """Mode, speed, speed-up, and what became of the drafts."""

    said = ""

    def show(self, mode: str, stats: GenerationStats, ending: str = "") -> None:
        """Draw the figures; `ending` says how the reply ended if that was not the model's own doing."""
        self.say(summary(mode, stats, ending))

    def say(self, text: str) -> None:
        """Say something else in its place."""
        self.said = one_line(text)
        self.update(Content(self.said))


def summary(mode: str, stats: GenerationStats, ending: str = "") -> str:
    """The line's text. A percentage needs enough drafted tokens to mean something."""
    parts = [mode]
    if (rate := stats.decode_tokens_per_second) is not None:
        parts.append(f"{rate:.1f} tok/s")
    if (speedup := stats.measured_speedup) is not None and stats.drafted:
        parts.append(f"{speedup:.2f}x plain")
    if stats.drafted:
        accepted = f"{stats.accepted}/{stats.drafted} accepted"
        if stats.drafted >= ENOUGH_DRAFTED and (share := stats.draft_acceptance_rate) is not None:
            accepted += f" ({share:.0%})"
        parts += [accepted, f"{stats.rounds} passes"]
        if (tau := stats.mean_acceptance_length) is not None:
            parts.append(f"τ {tau:.2f}")
    if ending:
        parts.append(ending)
    return " · ".join(parts)
