"""What reaches the terminal: model text without power over it, marks, figures without false precision."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from fake_host import done_event, draft_round, empty_stats, plain_round
from hypothesis import given
from hypothesis import strategies as st

from edgespec.cli.output import ReplyPrinter, summary
from edgespec.terminal import printable
from edgespec.types import FinishReason, Mode


class Screen(io.StringIO):
    def __init__(self, terminal: bool = True) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture(autouse=True)
def colour_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://e.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;YQ==\x07", ""),
        ("over\rwritten\x08\x7f", "overwritten"),
        ("\x9b31mx", "31mx"),
        ("a\u202eb", "ab"),
        ("[/INST] [red] 😀 é", "[/INST] [red] 😀 é"),
    ],
)
def test_nothing_in_a_text_steers_the_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_no_control_character_survives_but_newline_and_tab(text: str) -> None:
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in printable(text))


def printed(*events: Any, screen: Screen, marks: bool = False, end: str | None = None) -> str:
    printer = ReplyPrinter(screen, marks=marks)
    for event in events:
        printer.round(event)
    printer.finish(end)
    return screen.getvalue()


def test_a_terminal_gets_clean_text_and_a_pipe_gets_all_of_it() -> None:
    event = plain_round(0, "\x1b[31ma\rb")
    assert printed(event, screen=Screen()) == "ab\n"
    assert printed(event, screen=Screen(terminal=False)) == "\x1b[31ma\rb\n"


def test_an_escape_sequence_in_two_pieces_is_harmless() -> None:
    assert "\x1b" not in printed(plain_round(0, "\x1b"), plain_round(1, "[31m"), screen=Screen())


def test_tokens_are_marked_by_more_than_colour() -> None:
    text = printed(draft_round(0, ["a"], [], "b"), draft_round(1, [], ["x"], "c"), screen=Screen(), marks=True)
    assert text == "\x1b[4;32ma\x1b[0m\x1b[3;36mb\x1b[0m\x1b[1;33mc\x1b[0m\n"


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_marks_are_off_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    assert printed(draft_round(0, ["a"], [], "b"), screen=Screen(), marks=True) == "ab\n"


def test_marks_are_off_in_a_pipe() -> None:
    assert printed(draft_round(0, ["a"], [], "b"), screen=Screen(terminal=False), marks=True) == "ab\n"


def test_what_an_unfinished_character_leaves_is_written_at_the_end() -> None:
    assert printed(plain_round(0, "a"), screen=Screen(), end="a\ufffd") == "a\ufffd\n"


def test_a_reply_without_text_prints_nothing() -> None:
    assert printed(screen=Screen(), end="") == ""


def test_the_line_of_figures_has_no_percentage_below_20_drafted_tokens() -> None:
    few = replace(empty_stats(), emitted_tokens=12, rounds=8, drafted=19, accepted=4, mean_acceptance_length=1.5)
    many = replace(few, drafted=20)
    assert "%" not in summary(done_event("", stats=few, mode=Mode.LOOKUP))
    assert summary(done_event("", stats=many, mode=Mode.LOOKUP)) == (
        "lookup: 12 tokens in 8 passes · 20 drafted, 4 accepted (20%) · τ 1.50"
    )


@pytest.mark.parametrize(
    ("mode", "speedup", "drafted", "ending"),
    [
        (Mode.DRAFT, 0.6, 40, "0.60x plain: drafting lost time, try mode auto"),
        (Mode.LOOKUP, 0.94, 40, "0.94x plain: drafting lost time, try mode auto"),
        (Mode.DRAFT, 0.97, 40, "0.97x plain"),
        (Mode.DRAFT, 1.5, 40, "1.50x plain"),
        (Mode.DRAFT, 0.6, 4, "0.60x plain"),
        (Mode.AUTO, 0.6, 40, "0.60x plain"),
    ],
)
def test_a_reply_that_drafts_made_slower_says_so_and_what_to_do(
    mode: Mode, speedup: float, drafted: int, ending: str
) -> None:
    stats = replace(empty_stats(), emitted_tokens=40, rounds=20, drafted=drafted, accepted=4, measured_speedup=speedup)
    assert summary(done_event("", stats=stats, mode=mode)).endswith(f"· {ending}")


def test_the_line_of_figures_says_what_is_known_and_how_the_reply_ended() -> None:
    stats = replace(empty_stats(), emitted_tokens=9, rounds=9, decode_tokens_per_second=12.34)
    line = summary(done_event("", FinishReason.CANCELLED, stats=stats))
    assert line == "plain: 12.3 tokens/s, 9 tokens in 9 passes · cancelled"
