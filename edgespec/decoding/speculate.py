"""The loop: draft, verify in one target pass, keep what agrees, go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.length import LengthPolicy
from edgespec.decoding.sampling import Sampler
from edgespec.decoding.session import Interrupted, Session, Vocabulary, common_prefix, prefill, rewind
from edgespec.decoding.stop import StopTexts
from edgespec.decoding.verify import verify
from edgespec.types import Draft, Finished, FinishReason, Prefilled, Prefilling, Round

if TYPE_CHECKING:
    import numpy as np

Event = Prefilling | Prefilled | Round | Finished


def speculate(
    target: Session,
    drafter: Drafter,
    sampler: Sampler,
    prompt: Sequence[int],
    *,
    length: LengthPolicy,
    vocabulary: Vocabulary,
    rng: np.random.Generator,
    max_tokens: int | None = None,
    stop: Sequence[bytes] = (),
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Continue `prompt`, yielding one Round per target pass and at last Finished.

    Between rounds the target's cache holds all of the context but its last token. The same holds when the generator
    ends, is closed, or raises: nothing behind a stop text, an end-of-generation token or a cancel stays in a cache.
    """
    context = list(prompt)
    emitted = 0
    ...
