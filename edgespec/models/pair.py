"""Can one model draft for another? Decided from two headers, in the way llama.cpp decides it.

Both must give a token id the same meaning. llama.cpp tests the vocabulary's type, the rules for beginning and end
tokens, the sizes, and the texts from id 5 on; the ids before are specials that conversions name differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from edgespec.errors import PairError
from edgespec.models.header import GgufHeader
from edgespec.models.units import format_count, printable
from edgespec.models.vocabulary import Vocabulary

MAX_SIZE_DIFFERENCE = 128
FIRST_COMPARED_TOKEN = 5
LOOKUP_HINT = "Leave out the draft model: mode lookup needs none. Or take one of the target's own family."


def check_pair(target: GgufHeader, draft: GgufHeader) -> None:
    """Raises PairError naming the first difference if `draft` cannot draft for `target`.

    A size difference of up to 128 is accepted: it is padding, which the engine never proposes.
    """
    ours, theirs = _vocabulary(target, "target"), _vocabulary(draft, "draft model")
    if draft.is_head_only:
        _refuse(f"{printable(draft.path.name)} is a drafting head ({draft.head}), not a draft model.")
    if ours.kind != theirs.kind:
        _refuse(
            f"The vocabularies are of different types: {_described(ours)} in the target,"
            f" {_described(theirs)} in the draft model."
        )
    for difference in _rule_differences(ours, theirs):
        _refuse(difference)
    if abs(len(ours) - len(theirs)) > MAX_SIZE_DIFFERENCE:
        _refuse(
            f"The vocabularies differ by {format_count(abs(len(ours) - len(theirs)))} tokens"
            f" ({format_count(len(ours))} in the target, {format_count(len(theirs))} in the draft model);"
            f" up to {MAX_SIZE_DIFFERENCE} would be padding."
        )
    token = first_difference(ours, theirs)
    if token is not None:
        _refuse(
            f"Token {format_count(token)} is {_quoted(ours.tokens[token])} in the target and"
            f" {_quoted(theirs.tokens[token])} in the draft model."
        )


def first_difference(ours: Vocabulary, theirs: Vocabulary) -> int | None:
    """The first id from 5 on whose texts differ, None if they agree as far as both go."""
    common = min(len(ours), len(theirs))
    if ours.tokens[FIRST_COMPARED_TOKEN:common] == theirs.tokens[FIRST_COMPARED_TOKEN:common]:
        return None
    return next(i for i in range(FIRST_COMPARED_TOKEN, common) if ours.tokens[i] != theirs.tokens[i])


def _vocabulary(header: GgufHeader, role: str) -> Vocabulary:
    if header.vocabulary is None:
        _refuse(f"{printable(header.path.name)}, the {role}, carries no vocabulary.")
    return header.vocabulary


def _rule_differences(ours: Vocabulary, theirs: Vocabulary) -> Iterator[str]:
    rules = (
        ("beginning", "bos", ours.add_bos, theirs.add_bos, ours.bos, theirs.bos),
        ("end", "eos", ours.add_eos, theirs.add_eos, ours.eos, theirs.eos),
    )
    for name, key, our_flag, their_flag, our_id, their_id in rules:
        if our_flag != their_flag:
            adds = "the target" if our_flag else "the draft model"
            yield (
                f"Only {adds} adds a token for the {name} of a text (add_{key}_token is {str(our_flag).lower()} in the"
                f" target, {str(their_flag).lower()} in the draft model)."
            )
        elif our_flag and our_id != their_id:
            yield f"The {name} token is {_id(ours, our_id)} in the target, {_id(theirs, their_id)} in the draft model."


def _id(vocabulary: Vocabulary, token: int | None) -> str:
    return "missing" if token is None else f"{token} ({_quoted(vocabulary.tokens[token])})"


def _described(vocabulary: Vocabulary) -> str:
    return f"{vocabulary.kind} with {format_count(len(vocabulary))} tokens"


def _quoted(token: bytes) -> str:
    """Text safe to print: a token may hold line breaks, terminal escapes, or half a character."""
    text = token.decode("utf-8", "backslashreplace")
    return f"'{printable(text if len(text) <= 60 else text[:57] + '...')}'"


def _refuse(message: str) -> NoReturn:
    raise PairError(message, LOOKUP_HINT)
