"""Text out of token pieces, one by one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edgespec.llama.vocab import TextStream


def test_a_character_spread_over_pieces_appears_with_its_last_one() -> None:
    stream = TextStream()
    assert [stream.feed(piece) for piece in (b"\xf0\x9f", b"\x98", b"\x80!")] == ["", "", "😀!"]
    assert stream.flush() == ""


def test_an_unfinished_character_is_replaced_at_the_end() -> None:
    stream = TextStream()
    assert stream.feed(b"ok \xf0\x9f") == "ok "
    assert stream.flush() == "\ufffd"
    assert stream.feed(b"new") == "new"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert TextStream().feed(b"a\xffb") == "a\ufffdb"


@given(st.text(), st.lists(st.integers(0, 200)))
def test_any_way_of_cutting_gives_the_same_text(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "replace")
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    stream = TextStream()
    pieces = [stream.feed(data[a:b]) for a, b in pairwise(edges)]
    assert "".join(pieces) + stream.flush() == data.decode()
