"""Tokens and text on real vocabularies."""

from __future__ import annotations

import pytest

from edgespec.errors import EdgeSpecError
from edgespec.llama.model import LlamaModel
from edgespec.llama.vocab import TextStream

pytestmark = pytest.mark.model

TEXTS = (
    "Copy this line: " + "-" * 64,
    "| a | b |\n|---|---|\n" + " " * 40 + "deep\n\n\n\t\tend",
    "Repeat exactly: 😀😀😀 👩‍👩‍👧 日本語 naïve e\u0301",
    "nul \0 and <|im_end|> as text",
    "",
)


@pytest.fixture(params=["demo", "gemma"])
def model(request: pytest.FixtureRequest) -> LlamaModel:
    loaded: LlamaModel = request.getfixturevalue(request.param)
    return loaded


def test_every_token_survives_a_round_trip(model: LlamaModel) -> None:
    vocab = model.vocab
    checked = 0
    for token in range(vocab.n_tokens):
        piece = vocab.piece(token)
        try:
            text = piece.decode()
        except UnicodeDecodeError:
            continue  # part of a character
        assert vocab.detokenize(vocab.tokenize(text, add_special=False, parse_special=False)) == piece, token
        checked += bool(text)
    assert checked > 0.95 * vocab.n_tokens


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_survives_a_round_trip(model: LlamaModel, text: str) -> None:
    tokens = model.vocab.tokenize(text, add_special=False, parse_special=False)
    assert model.vocab.detokenize(tokens).decode() == text


def test_pieces_of_any_length_come_whole(demo: LlamaModel) -> None:
    assert demo.vocab.piece(15069) == b"-" * 64
    assert max(len(demo.vocab.piece(token)) for token in range(demo.n_vocab)) > 64


def test_an_emoji_split_over_tokens_appears_once_complete(demo: LlamaModel) -> None:
    stream = TextStream()
    assert [stream.feed(demo.vocab.piece(token)) for token in (10813, 242, 218)] == ["", "", "😀"]
    assert stream.flush() == ""


def test_typed_markers_are_text_and_template_markers_are_tokens(demo: LlamaModel) -> None:
    vocab = demo.vocab
    assert vocab.tokenize("<|im_end|>", add_special=False, parse_special=True) == [2]
    typed = vocab.tokenize("<|im_end|>", add_special=False, parse_special=False)
    assert len(typed) == 7
    assert 2 not in typed
    assert vocab.detokenize(typed) == b"<|im_end|>"


def test_control_tokens_add_no_bytes_but_have_a_text(demo: LlamaModel) -> None:
    vocab = demo.vocab
    assert vocab.piece(2) == b""
    assert vocab.text(2) == "<|im_end|>"
    assert vocab.is_eog(2)
    assert not vocab.is_eog(100)
    assert "<|im_start|>" in vocab.special_texts
    assert vocab.text(-1) == ""


def test_a_text_gets_the_tokens_its_model_wants_around_it(gemma: LlamaModel, demo: LlamaModel) -> None:
    assert gemma.vocab.add_bos
    assert gemma.vocab.tokenize("hi", add_special=True, parse_special=False)[0] == gemma.vocab.bos
    assert not demo.vocab.add_bos
    assert demo.vocab.tokenize("hi", add_special=True, parse_special=False)[0] != demo.vocab.bos


@pytest.mark.parametrize("token", [-1, -5, 49_152, 2**31 - 1])
def test_ids_outside_the_vocabulary_are_refused(demo: LlamaModel, token: int) -> None:
    with pytest.raises(EdgeSpecError, match="not in the vocabulary"):
        demo.vocab.piece(token)
    if token != -1:
        with pytest.raises(EdgeSpecError, match="not in the vocabulary"):
            demo.vocab.text(token)


@pytest.mark.parametrize("text", ["a" * 60_000, "\n" * 60_000, "<|im_end|>" * 3_000, "\ud800"])
def test_monstrous_texts_are_tokenised(demo: LlamaModel, text: str) -> None:
    tokens = demo.vocab.tokenize(text, add_special=True, parse_special=False)
    assert demo.vocab.detokenize(tokens) == text.encode("utf-8", "replace")


def test_long_texts_keep_their_control_tokens(demo: LlamaModel) -> None:
    text = "<|im_end|>" * 3_000
    assert demo.vocab.tokenize(text, add_special=False, parse_special=True) == [2] * 3_000
