"""The curves as an SVG file, to look at in a browser or to put into a page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from edgespec.curves import ALPHAS, Line, Panel

COLOURS = ("#0072b2", "#d55e00", "#007a5a")
"""One for each acceptance rate, apart for colour-blind eyes too; the end of each curve also says its rate."""
WIDTH, HEIGHT = 984, 430
PANEL_WIDTH, PANEL_HEIGHT = 380, 270
LEFT, TOP = 56, 76
GAP = 480
STYLE = (
    "text{font:13px sans-serif;fill:#333}.title{font-size:16px;font-weight:bold}.head{font-size:14px;font-weight:bold}"
    ".grid{stroke:#ddd}.axis{stroke:#555}.plain{stroke:#888;stroke-dasharray:2 3}"
    "polyline{fill:none;stroke-width:2.2}.ideal{stroke-dasharray:6 4;stroke-width:1.4}"
)


def to_svg(panels: tuple[Panel, ...], title: str, note: str) -> str:
    """A whole SVG document."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text class="title" x="{LEFT}" y="28">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({LEFT + GAP * number} {TOP})">')
        parts.extend(_panel(panel))
        parts.append("</g>")
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 14}">{escape(note)}</text>')
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _panel(panel: Panel) -> Iterator[str]:
    longest = len(panel.lines[0].values) - 1
    yield f'<text class="head" x="0" y="-14">{escape(panel.title)}</text>'
    step = 1 if panel.top <= 6 else 2
    for value in range(0, int(panel.top) + 1, step):
        y = _y(value, panel.top)
        yield f'<line class="grid" x1="0" y1="{y}" x2="{PANEL_WIDTH}" y2="{y}"/>'
        yield f'<text x="-8" y="{y + 4}" text-anchor="end">{value}</text>'
    for length in range(longest + 1):
        yield f'<text x="{_x(length, longest)}" y="{PANEL_HEIGHT + 20}" text-anchor="middle">{length}</text>'
    yield f'<text x="{PANEL_WIDTH / 2}" y="{PANEL_HEIGHT + 42}" text-anchor="middle">draft length</text>'
    y = _y(1, panel.top)
    yield f'<line class="plain" x1="0" y1="{y}" x2="{PANEL_WIDTH}" y2="{y}"/>'
    yield f'<line class="axis" x1="0" y1="{PANEL_HEIGHT}" x2="{PANEL_WIDTH}" y2="{PANEL_HEIGHT}"/>'
    for line in panel.lines:
        yield _curve(line, panel.top, longest)
    yield from _labels(panel, longest)


def _curve(line: Line, top: float, longest: int) -> str:
    points = " ".join(f"{_x(length, longest)},{_y(value, top)}" for length, value in enumerate(line.values))
    kind = ' class="ideal"' if line.ideal else ""
    return f'<polyline{kind} stroke="{COLOURS[ALPHAS.index(line.alpha)]}" points="{points}"/>'


def _labels(panel: Panel, longest: int) -> Iterator[str]:
    """The rate at the end of each curve, moved apart where two would overlap."""
    lowest = PANEL_HEIGHT + 20.0
    for line in sorted(panel.lines, key=lambda line: line.values[-1]):
        y = min(_y(line.values[-1], panel.top) + 4, lowest - 13)
        lowest = y
        colour = COLOURS[ALPHAS.index(line.alpha)]
        yield f'<text x="{PANEL_WIDTH + 5}" y="{y:.1f}" style="fill:{colour}">α {line.alpha:g}</text>'


def _x(length: int, longest: int) -> float:
    return round(PANEL_WIDTH * length / longest, 1)


def _y(value: float, top: float) -> float:
    return round(PANEL_HEIGHT * (1 - value / top), 1)
