"""One token of a reply with all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgespec.engine.messages import RoundDone
from edgespec.types import Judged, Origin
from edgespec_tui.text import harmless

REJECTED = "rejected"
LONG, SHORT = 24, 10
"""Longer texts are cut in a wide and in a narrow line, which have more to say."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a token is to be found: its round's index, and its own among the emitted tokens or those of the draft."""

    round: int
    index: int
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """What can be told of one token.

    Attributes:
        text: what it reads; "" for one that ends the reply or is only part of a character.
        origin: an Origin's value, or `rejected`.
        source: the drafter it came from, or that was wrong or right just before it; "" for a plain token.
        round: index of its round.
        position: its place in the reply from 0 on; that of a rejected one is where it would have stood.
        place, among: its place in the draft from 0 on, of so many; None for a token that was not drafted.
        judged: what the target thought of it; None if it was not asked.
        proposed: how probable the draft model found it; None if it did not make it.
        detailed: were details asked for with this reply?
    """

    text: str
    id: int
    origin: str
    source: str
    round: int
    position: int
    place: int | None
    among: int
    judged: Judged | None
    proposed: float | None
    detailed: bool


def find(rounds: Sequence[RoundDone], place: Place) -> Token | None:
    """The token at this place; None if the rounds do not have it."""
    position = 0
    for event in rounds:
        if event.round.index == place.round:
            return _token(event, place, position)
        position += len(event.round.tokens)
    return None


def _token(event: RoundDone, place: Place, position: int) -> Token | None:
    made, details, i = event.round, event.details, place.index
    drafted = made.draft.tokens
    if i >= len(drafted if place.rejected else made.tokens):
        return None
    accepted = not place.rejected and i < made.verdict.accepted
    from_draft = place.rejected or accepted
    opinions = () if details is None else details.drafted if place.rejected else details.emitted
    proposed = details.proposed if details is not None and from_draft else ()
    thrown_away = i - made.verdict.accepted
    texts, at = (event.rejected, thrown_away) if place.rejected else (event.texts, i)
    return Token(
        text=texts[at] if 0 <= at < len(texts) else "",
        id=drafted[i] if place.rejected else made.tokens[i],
        origin=REJECTED if place.rejected else str(made.origins[i]),
        source=made.draft.source if drafted else "",
        round=made.index,
        position=position + i,
        place=i if from_draft else None,
        among=len(drafted),
        judged=opinions[i] if i < len(opinions) else None,
        proposed=proposed[i] if i < len(proposed) else None,
        detailed=details is not None,
    )  # fmt: skip


# In words

LONG_NAMES = {
    Origin.ACCEPTED: "accepted draft", Origin.CORRECTED: "corrected", Origin.BONUS: "bonus", Origin.PLAIN: "plain",
    REJECTED: "rejected draft",
}  # fmt: skip
MAKERS = {"draft": "model"}


def in_words(token: Token) -> str:
    """All of it in a sentence for a wide line."""
    source = f" ({MAKERS.get(token.source, token.source)})" if token.place is not None and token.source else ""
    parts = [f"{quoted(token.text)}  id {token.id}", f"{LONG_NAMES[token.origin]}{source}"]
    if token.judged is not None:
        parts.append(f"target {percent(token.judged.probability)}, rank {token.judged.rank:,}")
    elif token.detailed:
        parts.append("the target did not look at it")
    else:
        parts.append(UNKNOWN)
    if token.proposed is not None:
        parts.append(f"draft model {percent(token.proposed)}")
    where = f", draft token {token.place + 1}/{token.among}" if token.place is not None else ""
    parts += [f"pass {token.round + 1:,}{where}", f"token {token.position + 1:,}"]
    return " · ".join(parts)


def in_short(token: Token) -> str:
    """The same for a narrow line."""
    parts = [f"{quoted(token.text, SHORT)} {token.id}", token.origin]
    if token.judged is not None:
        parts.append(f"target {percent(token.judged.probability)} #{token.judged.rank}")
    else:
        parts.append("not examined" if token.detailed else UNKNOWN)
    if token.proposed is not None:
        parts.append(f"draft {percent(token.proposed)}")
    parts.append(f"token {token.position + 1}, pass {token.round + 1}")
    return " · ".join(parts)


UNKNOWN = "probabilities come with the next reply"


def quoted(text: str, longest: int = LONG) -> str:
    """A token's text as it can be told: blanks and line ends visible, control characters by name."""
    if not text:
        return "(no text)"
    shown = text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")
    shown = "".join(char if harmless(char) else char.encode("unicode_escape").decode() for char in shown)
    return f'"{shown if len(shown) <= longest else shown[: longest - 1] + "…"}"'


def percent(probability: float) -> str:
    """A probability to a tenth of a per cent; one that is nearly certain or nearly impossible is not called so."""
    if 0 < probability < 0.001:
        return "<0.1%"
    return ">99.9%" if 0.999 < probability < 0.99995 else f"{probability:.1%}"
