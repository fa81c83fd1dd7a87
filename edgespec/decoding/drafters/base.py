"""The seam between the loop and whatever proposes tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edgespec.types import Draft, Verdict


class Drafter(Protocol):
    """Proposes the next tokens of a context that grows.

    The loop calls `begin` once a reply, then `propose` and `observe` in turn, one pair a round, and `finish` at the
    end, also after a cancel or an error. `context` is always the whole of it, prompt and reply so far, the last
    token included although the target has not evaluated it yet.

    How drafters that are not here yet fit, without another method:

    - **MTP, EAGLE-3, Medusa** read the target's hidden states. Those are overwritten by the target's next pass, prompt
      chunks included, so a per-round argument would come too late for the prompt. Instead the target session offers a
      `HiddenStates` view (rows of chosen layers, for the tokens of its latest pass) and calls back after every pass,
      prefill included. Such a drafter is built with that view, copies the rows it must keep in the callback, and in
      `observe` learns from `verdict.accepted` which of the latest rows stay. Its own cache catches up on accepted
      rows only, merged with the first step of the next `propose`.
    - **Trees** (Medusa, EAGLE-2, SpecInfer): a `Draft` gains an optional tuple of parent indices beside `tokens`; a
      chain is the tree whose parents are 0, 1, 2, ... The session turns it into sequence ids, `verify` walks it, and
      the verdict gains the accepted path. `propose`, `observe` and the loop's steps stay as they are.
    - **Lookahead** keeps its n-gram pool here and lets its Jacobi window ride along as a tree.
    """

    @property
    def name(self) -> str:
        """Short name, shown to users and recorded in `Draft.source`."""

    def begin(self, context: Sequence[int]) -> None:
        """A reply starts. Raises Interrupted if cancelled while catching up on a long context."""

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Propose at most `limit` tokens (limit >= 1) to follow `context`; an empty draft is a fine answer."""

    def observe(self, verdict: Verdict) -> None:
        """Learn what became of the latest proposal. Called in every round, also when nothing was proposed."""

    def finish(self, length: int) -> None:
        """The reply is over and only the first `length` tokens of the context remain: forget the rest."""

    def close(self) -> None:
        """Free what the drafter holds."""
