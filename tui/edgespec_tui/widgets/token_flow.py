"""The token view of a reply: its text as it came, every token marked by where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from edgespec.engine.messages import RoundDone
from edgespec.types import Origin
from edgespec_tui.flow import Flow
from edgespec_tui.text import clean, one_line

REJECTED = "rejected"
BONUS_DOT = "·"
CARET = "▌"
LONGEST_REJECTED = 24
"""Thrown-away text is cut here; it explains the reply and must not drown it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One part of the token view: an emitted token, or the drafts a round threw away."""

    style: str
    round: int


class TokenFlow(Widget, can_focus=False):
    """Text that grows at its end. Extending it costs the same however long it is."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"token--{name}" for name in (*Origin, REJECTED)}

    def __init__(self) -> None:
        super().__init__()
        self._flow = Flow(80)
        self._marks: list[Mark] = []
        self._streaming = False
        self._strips: dict[int, Strip] = {}

    def add_round(self, event: RoundDone) -> None:
        """Append what one round brought."""
        self.add_tokens(event.round.index, event.round.origins, event.texts, event.rejected)

    def add_tokens(
        self, index: int, origins: Sequence[Origin], texts: Sequence[str], rejected: Sequence[str] = ()
    ) -> None:
        """Append a round's tokens: accepted drafts, what was thrown away, the target's own token."""
        for origin, text in zip(origins, texts, strict=True):
            if origin is Origin.CORRECTED:
                self._add_rejected(rejected, index)
            self._put(_dotted(clean(text)) if origin is Origin.BONUS else clean(text), origin, index)

    def add_text(self, text: str) -> None:
        """Append text of which nothing is known."""
        self._put(clean(text), Origin.PLAIN, 0)

    def set_text(self, text: str) -> None:
        """Show this and nothing else."""
        self._flow = Flow(self._flow.width)
        self._marks.clear()
        self._strips.clear()
        self.add_text(text)
        self.refresh(layout=True)

    def set_streaming(self, streaming: bool) -> None:
        """Show or hide the caret at the end."""
        self._streaming = streaming
        self._refresh_from(self._flow.height - 1)

    def draw(self, height_before: int) -> None:
        """Show what was added since the view had `height_before` lines."""
        self._strips.pop(height_before - 1, None)
        if self._flow.height != height_before:
            self.refresh(layout=True)
        self._refresh_from(height_before - 1)

    @property
    def lines(self) -> int:
        """Number of lines now."""
        return self._flow.height

    def _add_rejected(self, rejected: Sequence[str], index: int) -> None:
        text = one_line("".join(rejected))
        if len(text) > LONGEST_REJECTED:
            text = text[: LONGEST_REJECTED - 1] + "…"
        if word := text.lstrip():
            self._put(f"{text[: -len(word)]}~{word}~", REJECTED, index)

    def _put(self, text: str, style: str, index: int) -> None:
        if text:
            self._marks.append(Mark(str(style), index))
            self._flow.append(text, len(self._marks) - 1)

    def _refresh_from(self, line: int) -> None:
        width, height = self.size
        if height > line:
            self.refresh(Region(0, max(line, 0), width, height - max(line, 0)))

    # What Textual asks for

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if width != self._flow.width:
            self._flow.resize(width)
            self._strips.clear()
        return self._flow.height

    def render_line(self, y: int) -> Strip:
        if (strip := self._strips.get(y)) is None:
            strip = self._draw_line(y)
            if y < self._flow.height - 1:
                self._strips[y] = strip
        return strip

    def _draw_line(self, y: int) -> Strip:
        base = self.visual_style.rich_style
        if y >= self._flow.height:
            return Strip.blank(self.size.width, base)
        segments = [
            Segment(text, self.get_visual_style(f"token--{self._marks[key].style}").rich_style)
            for text, key in self._flow.line(y)
        ]
        if self._streaming and y == self._flow.height - 1:
            segments.append(Segment(CARET, base))
        strip = Strip(segments)
        if (selection := self.text_selection) is not None and (span := selection.get_span(y)) is not None:
            strip = self._select(strip, *span)
        return strip.crop_extend(0, self.size.width, base).apply_offsets(0, y)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selection.extract(self._flow.text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self._strips.clear()
        self.refresh()

    def _select(self, strip: Strip, start: int, end: int) -> Strip:
        end = strip.cell_length if end == -1 else end
        chosen = self.screen.get_component_rich_style("screen--selection")
        before, inside, after = strip.crop(0, start), strip.crop(start, end), strip.crop(end, None)
        return Strip.join([before, inside.apply_style(chosen), after])


def _dotted(text: str) -> str:
    """Set the bonus dot behind the token's visible part."""
    visible = text.rstrip("\n")
    return f"{visible}{BONUS_DOT}{text[len(visible) :]}" if text else text
