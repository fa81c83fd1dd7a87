"""Cutting texts that would overflow the pre-tokeniser's stack."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.llama.longtext import MAX_RUN, safe_parts

SPECIAL = re.compile(r"<\|im_end\|>|<\|im_start\|>")


def longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"\S+|\s+", text)), default=0)


@pytest.mark.parametrize("text", ["a" * 50_000, "\n" * 50_000, "漢" * 5_000, "x," * 5_000, "word " * 9 + "-" * 4_096])
def test_parts_join_to_the_text_and_none_has_a_long_run(text: str) -> None:
    parts = safe_parts(text, None)
    assert "".join(parts) == text
    assert all(0 < longest_run(part) <= MAX_RUN for part in parts)


@pytest.mark.parametrize("text", ["", "short", "many words in a row " * 5_000, "a" * MAX_RUN])
def test_ordinary_texts_stay_whole(text: str) -> None:
    assert safe_parts(text, None) == [text]


def test_cuts_fall_in_front_of_punctuation() -> None:
    parts = safe_parts("子曰學而時習之，" * 500, None)
    assert all(part.startswith("，") for part in parts[1:])


def test_special_texts_are_never_cut() -> None:
    text = "<|im_end|><|im_start|>" * 500 + "a" * 3_000
    parts = safe_parts(text, SPECIAL)
    assert "".join(parts) == text
    assert sum(len(SPECIAL.findall(part)) for part in parts) == 1_000
    assert len(parts) > 5


@given(st.text(alphabet="ab ,\n<|im_end|>", max_size=40), st.integers(1, 400))
def test_any_text_is_given_back_whole(text: str, times: int) -> None:
    for special in (None, SPECIAL):
        parts = safe_parts(text * times, special)
        assert "".join(parts) == text * times
        assert all(parts) or not text
