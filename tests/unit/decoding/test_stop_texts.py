"""Stop texts: found however they are cut into tokens and rounds, and never shown in part."""

from __future__ import annotations

import pytest
from decoding_fakes import FakeSession, FakeVocabulary, ScriptedDrafter, generate, scripted_logits
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgespec.decoding.stop import StopTexts
from edgespec.types import FinishReason, Origin

PIECES = [b".", b"", b"DE", b"F", b"GH", b"IJ", b"x", b"ABCDE", b"\xf0\x9f", b"\x98\x80", b"\n"]
DOT, NOTHING, DE, F, GH, IJ, X, ABCDE, HALF, HALF2, NEWLINE = range(len(PIECES))
N = len(PIECES)


def run(script, stop, *, k=0, **options):
    target = FakeSession(scripted_logits(script, 2, N), N)
    drafter = ScriptedDrafter(lambda context, limit: script[len(context) - 2 :][:limit])
    options.setdefault("max_tokens", len(script))
    reply = generate(target, drafter, prompt=[0, 0], k=k, stop=stop, vocabulary=FakeVocabulary(PIECES), **options)
    if reply.tokens:
        assert list(target.tokens) == reply.cached
        assert drafter.finished == [2 + len(reply.tokens)]
    return reply


@pytest.mark.parametrize("k", [0, 1, 2, 3, 8])
def test_a_stop_text_spread_over_tokens_is_not_shown_in_part(k):
    reply = run([X, DE, F, GH, IJ, X, X], [b"DEFGHIJ"], k=k)
    assert (reply.text, reply.tokens, reply.reason) == (b"x", [X], FinishReason.STOP)


@pytest.mark.parametrize("k", [0, 1, 3, 8])
def test_text_that_merely_begins_like_the_stop_is_released_when_it_turns_out_different(k):
    reply = run([X, DE, F, GH, X, X], [b"DEFGHIJ"], k=k)
    assert (reply.text, reply.reason) == (b"xDEFGHxx", FinishReason.LENGTH)


@pytest.mark.parametrize("k", [0, 1, 3, 8])
def test_text_that_begins_like_the_stop_is_released_at_the_end_of_the_reply(k):
    reply = run([X, DE, F, GH], [b"DEFGHIJ"], k=k)
    assert (reply.text, reply.reason) == (b"xDEFGH", FinishReason.LENGTH)


def test_text_that_was_held_back_is_released_by_a_cancel():
    calls = []
    reply = run([X, DE, F, GH, IJ], [b"DEFGHIJ"], cancelled=lambda: calls.append(0) or len(calls) > 4)
    assert (reply.text, reply.reason) == (b"xDEF", FinishReason.CANCELLED)


def test_a_token_that_the_stop_text_cuts_keeps_the_bytes_before_it():
    reply = run([X, ABCDE, F, X], [b"CDEF"], k=0)
    assert (reply.text, reply.tokens) == (b"xAB", [X, ABCDE])
    assert reply.rounds[-1].pieces == (b"AB",)


def test_a_round_cut_by_a_stop_loses_what_lies_behind_it_from_draft_and_verdict_too():
    reply = run([X, DE, F, GH, IJ, DOT, X, X], [b"FGH"], k=6)
    (only,) = reply.rounds
    assert only.tokens == only.draft.tokens == (X, DE)
    assert (only.verdict.accepted, only.origins) == (2, (Origin.ACCEPTED, Origin.ACCEPTED))
    assert (reply.stats.drafted, reply.stats.accepted, reply.stats.emitted_tokens) == (2, 2, 2)
    assert reply.stats.alpha == 1


def test_a_stop_text_that_ends_with_the_rounds_last_token_cuts_only_its_piece():
    reply = run([X, DE, ABCDE, X], [b"CDE"], k=2)
    (only,) = reply.rounds
    assert only.pieces == (b"x", b"DE", b"AB")
    assert only.origins == (Origin.ACCEPTED, Origin.ACCEPTED, Origin.BONUS)


def test_rounds_wholly_behind_the_stop_are_dropped_and_an_earlier_control_token_stays():
    reply = run([X, NOTHING, DE, F, X], [b"DEF"], k=0)
    assert reply.tokens == [X, NOTHING]


def test_a_reply_that_begins_with_a_stop_text_is_empty():
    reply = run([DE, F, X], [b"DEF"])
    assert (reply.rounds, reply.reason, reply.stats.rounds) == ([], FinishReason.STOP, 0)


def test_a_stop_text_may_begin_inside_a_character():
    assert run([X, HALF, HALF2, X], ["😀".encode()], k=0).text == b"x"


def test_a_stop_text_never_found_changes_nothing():
    script = [X, DE, F, GH, IJ, DOT, NEWLINE, X]
    assert run(script, [b"zzz", b"q"], k=3).text == run(script, []).text


@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_the_text_that_is_complete_first_wins_in_every_mode(k):
    # "EF" is complete before "DEFGH", although that one begins earlier.
    assert run([X, DE, F, GH, X], [b"DEFGH", b"EF"], k=k).text == b"xD"
    # Of two that end together, the longer one.
    assert run([X, DE, F, GH, X], [b"EF", b"DEF"], k=k).text == b"x"


def test_an_empty_stop_text_is_refused():
    with pytest.raises(ValueError, match="empty"):
        run([X], [b""])


@settings(max_examples=400, deadline=None)
@given(
    st.text("ab", max_size=60).map(str.encode),
    st.lists(st.text("ab", min_size=3, max_size=7).map(str.encode), min_size=1, max_size=2),
    st.lists(st.integers(1, 5), min_size=60, max_size=60),
)
@example(b"aaab", [b"aab"], [1] * 60)
@example(b"abababac", [b"ababac"], [3] * 60)
def test_search_agrees_with_looking_at_every_prefix(data, stops, cuts):
    expected = next(
        (end - max(len(stop) for stop in stops if data[:end].endswith(stop)))
        for end in range(len(data) + 1)
        if end == len(data) or any(data[:end].endswith(stop) for stop in stops)
    ) if any(stop in data for stop in stops) else None  # fmt: skip
    texts = StopTexts(stops)
    position = 0
    for size in cuts:
        found = texts.feed(data[position : position + size])
        position += size
        if found is not None:
            break
        seen = data[:position]
        assert texts.held == max(n for stop in stops for n in range(len(stop)) if n == 0 or seen.endswith(stop[:n]))
    assert found == expected
