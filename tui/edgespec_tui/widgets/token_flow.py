"""The token view of a reply: its text as it came, every token marked by where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from edgespec.engine.messages import RoundDone
from edgespec.types import Origin
from edgespec_tui.flow import Flow
from edgespec_tui.text import clean, one_line
from edgespec_tui.tokens import REJECTED, Place

BONUS_DOT = "·"
CARET = "▌"
LONGEST_REJECTED = 24
"""Thrown-away text is cut here; it explains the reply and must not drown it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One part of the token view: a token that was emitted or thrown away, or text of which nothing is known.

    Attributes:
        style: an Origin's value, or `rejected`.
        text: what is drawn; empty for tokens without text, and for what was thrown away beyond the longest shown.
        whole: the same, not cut.
        place: where the token is to be found; None for mere text.
    """

    style: str
    text: str
    whole: str
    place: Place | None = None


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
        self, index: int, origins: Sequence[Origin], texts: Sequence[str], rejected: Sequence[str] = (), first: int = 0
    ) -> None:
        """Append a round's tokens: accepted drafts, what was thrown away, the target's own token.

        `first` is the place of the first of these tokens in the round.
        """
        for i, (origin, text) in enumerate(zip(origins, texts, strict=True), start=first):
            if origin is Origin.CORRECTED:
                for mark in thrown_away(rejected, index, i):
                    self._put(mark)
            drawn = _dotted(clean(text)) if origin is Origin.BONUS else clean(text)
            self._put(Mark(str(origin), drawn, drawn, Place(index, i)))

    def add_text(self, text: str) -> None:
        """Append text of which nothing is known."""
        self._put(Mark(Origin.PLAIN, clean(text), ""))

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

    def _put(self, mark: Mark) -> None:
        self._marks.append(mark)
        self._draw_mark(len(self._marks) - 1)

    def _draw_mark(self, key: int) -> None:
        """Append what is drawn of a mark to the lines."""
        if text := self._marks[key].text:
            self._flow.append(text, key)

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
        segments = [Segment(text, self._style_of(key)) for text, key in self._flow.line(y)]
        if self._streaming and y == self._flow.height - 1:
            segments.append(Segment(CARET, base))
        strip = Strip(segments)
        if (selection := self.text_selection) is not None and (span := selection.get_span(y)) is not None:
            strip = self._select(strip, *span)
        return strip.crop_extend(0, self.size.width, base).apply_offsets(0, y)

    def _style_of(self, key: int) -> Style:
        return self.get_visual_style(f"token--{self._marks[key].style}").rich_style

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


def thrown_away(texts: Sequence[str], index: int, first: int) -> Iterator[Mark]:
    """Marks of draft tokens that were thrown away, the first of which had this place in its draft.

    Together they read `~text~`, the blanks in front outside; what is drawn is cut where it gets long.
    """
    pieces = [one_line(text) for text in texts]
    whole_text = "".join(pieces)
    cut_at = LONGEST_REJECTED - 1 if len(whole_text) > LONGEST_REJECTED else len(whole_text)
    seen, opened = 0, False
    for i, piece in enumerate(pieces):
        word, last = piece.lstrip(), i == len(pieces) - 1
        front = "~" if not opened and (word or last) else ""
        opened = opened or bool(word)
        drawn = f"{piece[: len(piece) - len(word)]}{front}{word}"
        whole = f"{drawn}~" if last else drawn
        if not whole_text.strip() or seen > cut_at:
            text = ""
        elif seen + len(piece) <= cut_at:
            text = whole
        else:
            text = f"{drawn[: cut_at - seen + len(front)]}…~"
        seen += len(piece) if seen + len(piece) <= cut_at else LONGEST_REJECTED
        yield Mark(REJECTED, text, whole, Place(index, first + i, rejected=True))
