"""What a comparison tells while it runs: one small value for everything that happens, for terminal and app alike."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.comparison import Comparison, Run, Step
from edgespec.contestants import Contestant
from edgespec.engine.messages import RoundDone
from edgespec.errors import EdgeSpecError
from edgespec.prompts import Prompt
from edgespec.types import Prefilling


@dataclass(frozen=True, slots=True)
class CompareStarted:
    """What is going to run, after everything was checked."""

    prompts: tuple[Prompt, ...]
    contestants: tuple[Contestant, ...]
    repeats: int
    notices: tuple[str, ...]

    @property
    def runs(self) -> int:
        """Number of measured runs."""
        return len(self.prompts) * len(self.contestants) * self.repeats


@dataclass(frozen=True, slots=True)
class RunKey:
    """Which run: `number` counts measured runs from 1 and is 0 in a warm-up; `repeat` counts from 0."""

    prompt: Prompt
    contestant: Contestant
    repeat: int
    number: int

    @property
    def warm_up(self) -> bool:
        """Is this a run that does not count?"""
        return self.number == 0


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins; what follows until RunFinished is about it."""

    key: RunKey


@dataclass(frozen=True, slots=True)
class RunPrefill:
    """Prompt processing of the run under way."""

    key: RunKey
    progress: Prefilling


@dataclass(frozen=True, slots=True)
class RunRound:
    """A round of the run under way, for those who show it live; `step` is its place in the replay."""

    key: RunKey
    round: RoundDone
    step: Step


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run is over."""

    key: RunKey
    run: Run


@dataclass(frozen=True, slots=True)
class CompareNotice:
    """A sentence for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class CompareDone:
    """The end: everything measured so far. `error` says why it ended early, None if it did not or was cancelled."""

    comparison: Comparison
    error: EdgeSpecError | None = None


CompareEvent = CompareStarted | RunStarted | RunPrefill | RunRound | RunFinished | CompareNotice | CompareDone
