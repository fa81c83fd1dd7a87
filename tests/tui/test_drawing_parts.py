"""The parts that draw without a screen: wrapping, cleaning, splitting, pacing, counting."""

from __future__ import annotations

import pytest
from edgespec_tui.blocks import BlockSplitter
from edgespec_tui.figures import LiveFigures
from edgespec_tui.flow import Flow
from edgespec_tui.pacer import Pacer
from edgespec_tui.text import clean, harmless, one_line
from edgespec_tui.widgets.stats_line import summary
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from scripted_engine import CODE, words

PARTS = st.lists(st.text(alphabet="ab \n😀日e\u0301", max_size=8), max_size=30)


def lines(flow: Flow) -> list[str]:
    return flow.text.split("\n")


@given(PARTS, st.integers(2, 20))
def test_wrapping_keeps_every_visible_character_and_no_line_is_too_wide(parts: list[str], width: int) -> None:
    flow = Flow(width)
    for key, part in enumerate(parts):
        flow.append(part, key)
    squeezed = "".join(parts).replace(" ", "").replace("\n", "")
    assert flow.text.replace(" ", "").replace("\n", "") == squeezed
    assert all(cell_len(line) <= width for line in lines(flow))


@given(PARTS, st.integers(2, 20), st.integers(2, 20))
def test_wrapping_again_to_another_width_is_as_if_it_had_been_the_first(
    parts: list[str], before: int, after: int
) -> None:
    resized, fresh = Flow(before), Flow(after)
    for key, part in enumerate(parts):
        resized.append(part, key)
        fresh.append(part, key)
    resized.resize(after)
    assert resized.text == fresh.text


def test_a_word_moves_to_the_next_line_whole() -> None:
    flow = Flow(10)
    for key, part in enumerate(["one", " two", " thr", "ee"]):
        flow.append(part, key)
    assert lines(flow) == ["one two ", "three"]
    assert flow.line(1) == (("thr", 2), ("ee", 3))


def test_indentation_is_no_place_to_break() -> None:
    flow = Flow(8)
    flow.append("    abcdefgh", 0)
    assert lines(flow) == ["    abcd", "efgh"]


@pytest.mark.parametrize(
    ("dirty", "cleaned"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]unfinished and more", "unfinished and more"),
        ("\x9b31mred", "red"),
        ("a\x00b\x07c\x7f\x85", "abc"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("\tx", "    x"),
        ("\u202eabc\u2066", "abc"),
        ("[/INST] [red]", "[/INST] [red]"),
        ("é 日本 😀", "é 日本 😀"),
    ],
)
def test_escapes_and_controls_are_stripped_and_the_rest_is_kept(dirty: str, cleaned: str) -> None:
    assert clean(dirty) == cleaned


@given(st.text())
def test_cleaned_text_holds_no_control_character_but_newlines(text: str) -> None:
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in clean(text).replace("\n", ""))


def test_tabs_that_people_paste_are_kept_and_one_line_is_one_line() -> None:
    assert harmless("a\tb") == "a\tb"
    assert one_line("a\nb") == "a⏎b"


@given(st.lists(st.sampled_from(["text\n", "\n", "```\n", "```py\n", "~~~\n", "x", " "])))
def test_blocks_and_the_rest_add_up_to_the_text(pieces: list[str]) -> None:
    splitter = BlockSplitter()
    complete = "".join([splitter.feed(piece) for piece in pieces])
    assert complete + splitter.rest == "".join(pieces)


def test_a_block_is_complete_behind_a_blank_line_outside_a_fence() -> None:
    splitter = BlockSplitter()
    assert splitter.feed("One\n\nTwo") == "One\n\n"
    assert splitter.feed("\n\n```py\na\n\nb\n") == "Two\n\n"
    assert splitter.feed("```\n") == ""
    assert splitter.feed("\nend") == "```py\na\n\nb\n```\n\n"
    assert splitter.rest == "end"


def test_the_pacer_slows_down_where_drawing_is_dear_and_recovers() -> None:
    now = used = 0.0
    pacer = Pacer(share=0.1, clock=lambda: now, used=lambda: used)
    assert pacer.wait() == 0
    for _ in range(10):
        now += pacer.interval
        used += 0.1
        pacer.drawn()
    assert pacer.interval == pytest.approx(1.0, rel=0.01) and pacer.wait() > 0.9
    for _ in range(20):
        now += pacer.interval
        used += 0.001
        pacer.drawn()
    assert pacer.interval == pytest.approx(1 / 8, rel=0.01)


def test_live_figures_are_those_of_the_engine() -> None:
    figures = LiveFigures(plain_step_seconds=0.05)
    for event in CODE:
        figures.observe(event.round)
    stats = figures.stats
    assert (stats.drafted, stats.accepted, stats.rounds) == (23, 18, 9)
    assert stats.measured_speedup == pytest.approx(stats.emitted_tokens * 0.05 / stats.decode_seconds)
    assert figures.pace.now is not None and len(figures.pace.history) == 1


def test_there_is_no_percentage_below_twenty_drafted_tokens() -> None:
    figures = LiveFigures()
    for event in CODE[:5]:
        figures.observe(event.round)
    assert figures.stats.drafted < 20 and "%" not in summary("lookup k=4", figures.stats)
    for event in CODE[5:]:
        figures.observe(event.round)
    assert "(78%)" in summary("lookup k=4", figures.stats)


def test_the_pace_follows_the_last_two_seconds() -> None:
    figures = LiveFigures()
    for event in words("x " * 100):
        figures.observe(event.round)
    assert figures.pace.now == pytest.approx(1 / 0.061, rel=0.01)
    assert len(figures.pace.history) == 12
