"""Kinds of work, and what is usually guessed right in them: assumptions, for as long as nothing was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of work.

    Attributes:
        name: as `edgespec advise` takes it.
        what: what it is, in a few words.
        draft_alpha: chance that a draft model's token is right, greedy, with a good pair of one family.
        copy_share: share of the passes in which something earlier in the text can be copied.
        copy_alpha: chance that a copied token is right then.
        prompts: built-in prompts of this kind, to measure with.
    """

    name: str
    what: str
    draft_alpha: float
    copy_share: float
    copy_alpha: float
    prompts: tuple[str, ...]


WORKS = {
    work.name: work
    for work in (
        Work("chat", "questions and answers", 0.65, 0.10, 0.60, ("list", "arithmetic")),
        Work("code", "writing new code", 0.75, 0.20, 0.70, ("new-code",)),
        Work("edit", "changing a given text or code", 0.80, 0.60, 0.90, ("code-edit",)),
        Work("summary", "summarising a given text", 0.65, 0.15, 0.65, ("summary",)),
        Work("extraction", "JSON and facts out of a given text", 0.75, 0.35, 0.75, ("json",)),
        Work("creative", "stories and free writing", 0.50, 0.05, 0.50, ("story",)),
    )
}

WARM = 1.0
"""Up to this temperature drafts still have a fair chance."""
COOLING = 0.25
"""Part of the acceptance that is lost at temperature 1."""
COLLAPSE = 2.0
"""How fast the rest is lost above it: nothing is left half a degree further."""


def at_temperature(alpha: float, temperature: float) -> float:
    """An acceptance rate for greedy replies, as it may be at this temperature: an assumption too."""
    if temperature <= WARM:
        return alpha * (1 - COOLING * temperature)
    return alpha * (1 - COOLING) * max(0.0, 1 - COLLAPSE * (temperature - WARM))
