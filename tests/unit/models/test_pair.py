"""Which draft model may draft for which target, and the sentence where it may not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_gguf_bytes import TinyGguf, model

from edgespec.errors import PairError
from edgespec.models.gguf import GgufHeader, check_file, read_header
from edgespec.models.pair import check_pair

TOKENS = [f"t{i}" for i in range(300)]


@pytest.fixture
def header(tmp_path: Path):  # type: ignore[no-untyped-def]
    def make(tiny: TinyGguf, name: str = "m.gguf") -> GgufHeader:
        (tmp_path / name).write_bytes(tiny.bytes())
        return read_header(tmp_path / name)

    return make


def refused(target: GgufHeader, draft: GgufHeader) -> str:
    with pytest.raises(PairError) as caught:
        check_pair(target, draft)
    assert "mode lookup" in caught.value.hint
    return caught.value.message


def test_a_model_may_draft_for_itself(header) -> None:  # type: ignore[no-untyped-def]
    same = header(model(TOKENS))
    check_pair(same, same)


@pytest.mark.model
def test_two_real_models_of_different_kinds_are_refused_with_types_and_sizes(
    demo_model: Path, gemma_model: Path
) -> None:
    message = refused(check_file(demo_model).header, check_file(gemma_model).header)
    assert "BPE with 49,152 tokens in the target" in message
    assert "SentencePiece with 262,144 tokens in the draft model" in message


@pytest.mark.parametrize("extra", [1, 64, 128])
def test_padding_up_to_128_tokens_is_accepted_on_either_side(header, extra: int) -> None:  # type: ignore[no-untyped-def]
    small = header(model(TOKENS))
    large = header(model([*TOKENS, *(f"[PAD{i}]" for i in range(extra))]))
    check_pair(small, large)
    check_pair(large, small)


def test_129_tokens_more_are_refused_with_the_numbers(header) -> None:  # type: ignore[no-untyped-def]
    small, large = header(model(TOKENS)), header(model([*TOKENS, *map(str, range(129))]))
    message = refused(large, small)
    assert "differ by 129 tokens (429 in the target, 300 in the draft model)" in message


def test_a_single_other_token_is_named_with_both_texts(header) -> None:  # type: ignore[no-untyped-def]
    other = list(TOKENS)
    other[139] = "not\nthis"
    message = refused(header(model(TOKENS)), header(model(other)))
    assert message == "Token 139 is 't139' in the target and 'not\\nthis' in the draft model."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"\x1b[31mred", "'\\x1b[31mred'"),
        (b"\xf0\x9f", "'\\xf0\\x9f'"),
        ("模型", "'模型'"),
        (b"", "''"),
        ("a" * 99, "aaa...'"),
    ],
)
def test_texts_of_tokens_are_safe_to_print(header, text: str | bytes, shown: str) -> None:  # type: ignore[no-untyped-def]
    other: list[str | bytes] = list(TOKENS)
    other[7] = text
    message = refused(header(model(TOKENS)), header(model([t.encode() if isinstance(t, str) else t for t in other])))
    assert shown in message


def test_the_first_five_tokens_may_differ(header) -> None:  # type: ignore[no-untyped-def]
    check_pair(header(model(TOKENS)), header(model(["a", "b", "c", "d", "e", *TOKENS[5:]])))
    assert "Token 5 " in refused(header(model(TOKENS)), header(model(["a", "b", "c", "d", "e", "f", *TOKENS[6:]])))


def test_a_beginning_token_on_one_side_only_is_named_with_its_field(header) -> None:  # type: ignore[no-untyped-def]
    yes, no = (header(model(TOKENS, tokenizer__ggml__add_bos_token=flag)) for flag in (True, False))
    assert "Only the target adds a token for the beginning of a text (add_bos_token" in refused(yes, no)
    assert "Only the draft model" in refused(no, yes)


def test_beginning_tokens_count_only_where_they_are_added(header) -> None:  # type: ignore[no-untyped-def]
    for flag in (True, False):
        one = header(model(TOKENS, tokenizer__ggml__add_bos_token=flag))
        two = header(model(TOKENS, tokenizer__ggml__add_bos_token=flag, tokenizer__ggml__bos_token_id=9))
        if flag:
            assert "The beginning token is 1 ('t1') in the target, 9 ('t9') in the draft model" in refused(one, two)
        else:
            check_pair(one, two)


def test_end_tokens_follow_the_same_rules(header) -> None:  # type: ignore[no-untyped-def]
    yes, no = (header(model(TOKENS, tokenizer__ggml__add_eos_token=flag)) for flag in (True, False))
    assert "add_eos_token" in refused(yes, no)
    other = header(model(TOKENS, tokenizer__ggml__add_eos_token=True, tokenizer__ggml__eos_token_id=8))
    assert "The end token is 2 ('t2') in the target, 8 ('t8')" in refused(yes, other)


def test_a_file_without_vocabulary_or_that_is_only_a_head_is_refused(header) -> None:  # type: ignore[no-untyped-def]
    target = header(model(TOKENS))
    assert "bare.gguf, the draft model, carries no vocabulary" in refused(target, header(TinyGguf(), "bare.gguf"))
    head = header(model(TOKENS, architecture="eagle3"), "head.gguf")
    assert "head.gguf is a drafting head (draft-eagle3)" in refused(target, head)


VOCABULARIES = {
    "llama": ("SentencePiece", 1, 2, True, False),
    "gpt2": ("BPE", 1, 2, False, False),
    "gemma4": ("BPE", 1, 2, True, False),
    "t5": ("Unigram", 1, 2, False, True),
    "bert": ("WordPiece", 1, 2, True, False),
}


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_what_a_file_leaves_unsaid_is_filled_in_as_llama_cpp_does(header, kind: str) -> None:  # type: ignore[no-untyped-def]
    vocabulary = header(model(TOKENS, kind=kind)).vocabulary
    assert vocabulary is not None
    found = (vocabulary.kind, vocabulary.bos, vocabulary.eos, vocabulary.add_bos, vocabulary.add_eos)
    assert found == VOCABULARIES[kind]


@pytest.mark.parametrize(("pre", "adds"), [("llama-bpe", True), ("tekken", True), ("qwen2", False), ("smollm", False)])
def test_some_pre_tokenizers_bring_a_beginning_token(header, pre: str, adds: bool) -> None:  # type: ignore[no-untyped-def]
    vocabulary = header(model(TOKENS, tokenizer__ggml__pre=pre)).vocabulary
    assert vocabulary is not None
    assert vocabulary.add_bos is adds


@pytest.mark.model
def test_the_rules_agree_with_llama_cpp_on_real_files(demo_model: Path, gemma_model: Path) -> None:
    import llama_cpp

    for path in (demo_model, gemma_model):
        ours = check_file(path).header.vocabulary
        assert ours is not None
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        loaded = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        vocab = llama_cpp.llama_model_get_vocab(loaded)
        assert len(ours) == llama_cpp.llama_vocab_n_tokens(vocab)
        assert (ours.add_bos, ours.add_eos) == (
            bool(llama_cpp.llama_vocab_get_add_bos(vocab)), bool(llama_cpp.llama_vocab_get_add_eos(vocab)),
        )  # fmt: skip
        assert (ours.bos, ours.eos) == (llama_cpp.llama_vocab_bos(vocab), llama_cpp.llama_vocab_eos(vocab))
        for token in (0, 5, 300, len(ours) - 1):
            assert ours.tokens[token] == llama_cpp.llama_vocab_get_text(vocab, token)
        llama_cpp.llama_model_free(loaded)
