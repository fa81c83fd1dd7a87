"""Measure what passes cost here: once for a set of models, in a second or two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter

from edgespec.decoding.cost import CostModel
from edgespec.decoding.session import Session

WIDTHS = (1, 4, 2, 3, 5, 8, 6, 16, 12, 9, 7)
"""The most telling ones first, for models so slow that time is over soon."""
TARGET_SECONDS = 1.2
DRAFT_SECONDS = 0.3
MOST_REPEATS = 5
REFERENCE_GOES = 4
"""Goes at width 1, if there is time, of which the fastest counts: all others are compared with it, and one disturbance
would make every draft look cheap."""
PROMPT_WIDTH = 16
"""Tokens that the draft model reads at once to tell what catching up costs."""
TOKEN = 0
"""Any token costs the same."""


def calibrate(
    costs: CostModel,
    target: Session,
    draft: Session | None,
    cancelled: Callable[[], bool],
    seconds: float = TARGET_SECONDS,
) -> bool:
    """Add what target passes and draft steps cost, behind whatever the caches hold; False if cancelled or impossible.

    The target takes about `seconds`. The caches are left as they were. What a pass of a new width costs at first (a
    graph is built) is not counted: each is timed at its second go. Every width is timed in turn, then all of them
    again, so that a disturbance does not hit one of them alone. Behind width 1 come those that were never measured:
    with a slow model there is no time for all.
    """
    known = dict(costs.curve.points())
    widths = sorted((w for w in WIDTHS if w <= target.max_batch), key=lambda w: (w != 1, w in known))
    sweeps = _time_widths(target, widths, seconds, cancelled)
    if not sweeps:
        return False
    step = prompt_token = None
    if draft is not None:
        steps = _time_widths(draft, [1], DRAFT_SECONDS, cancelled)
        if not steps:
            return False
        step = median(sweep[1] for sweep in steps)
        if not cancelled():
            prompt_token = _time_prompt(draft, min(PROMPT_WIDTH, draft.chunk), step)
    costs.at(target.length)
    costs.calibrate(sweeps, step, prompt_token)
    return True


def _time_widths(
    session: Session, widths: Sequence[int], budget: float, cancelled: Callable[[], bool]
) -> list[dict[int, float]]:
    """Seconds by width, sweep after sweep as time allows, the last one perhaps not whole. Empty if cancelled."""
    base = session.length
    sweeps: list[dict[int, float]] = []
    if not _can_take_back(session, base, max(widths)):
        return sweeps
    started = perf_counter()
    for _ in range(MOST_REPEATS):
        sweeps.append({})
        for width in widths:
            if cancelled():
                return []
            _pass(session, base, width)
            goes = [_pass(session, base, width)]
            while width == 1 and len(goes) < REFERENCE_GOES and sum(goes) < budget / 8:
                goes.append(_pass(session, base, width))
            sweeps[-1][width] = min(goes)
            if perf_counter() - started > budget:
                return sweeps
    return sweeps


def _pass(session: Session, base: int, width: int) -> float:
    """Seconds of a pass of this width, taken back afterwards."""
    started = perf_counter()
    session.decode([TOKEN] * width)
    seconds = perf_counter() - started
    session.truncate(base)
    return seconds


def _time_prompt(session: Session, width: int, step: float) -> float | None:
    """Seconds a token of reading `width` tokens at once, closed by a step so that nothing is still under way.

    `step` is what the step takes alone. None if there is no room, or the machine is so slow that one go used up the
    time: what is assumed then is no worse than one disturbed measurement.
    """
    base = session.length
    if not _can_take_back(session, base, width + 1):
        return None
    seconds: list[float] = []
    begun = perf_counter()
    while len(seconds) < 3 and (not seconds or perf_counter() - begun < DRAFT_SECONDS):
        started = perf_counter()
        session.prefill([TOKEN] * width)
        session.decode([TOKEN])
        seconds.append(perf_counter() - started)
        session.truncate(base)
    if len(seconds) == 1:
        return None
    return max(0.0, median(seconds[1:]) - step) / width or None


def _can_take_back(session: Session, base: int, width: int) -> bool:
    """Is there room, and is a cache that is not empty one that can be cut?"""
    return base + width <= session.n_ctx and (base == 0 or getattr(session, "max_rewind", None) is None)
