"""The vocabulary a GGUF carries, with the defaults llama.cpp fills in where the file is silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgespec.models.gguf_reader import Value

_KINDS = {
    "llama": "SentencePiece", "gpt2": "BPE", "gemma4": "BPE", "hybriddna": "BPE", "whitespace": "BPE",
    "bert": "WordPiece", "t5": "Unigram", "rwkv": "RWKV", "plamo2": "PLaMo-2", "test": "test",
}  # fmt: skip
_DEFAULT_BOS = {"llama": 1, "bert": 101, "gpt2": 11, "hybriddna": 11, "whitespace": 11, "plamo2": 1}
_DEFAULT_EOS = {"llama": 2, "gpt2": 11, "hybriddna": 11, "whitespace": 11, "t5": 1, "plamo2": 2}
_PRE_WITH_BOS = frozenset((
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken",
    "chameleon",
))  # fmt: skip
_PRE_WITHOUT_BOS_ID = frozenset(("chatglm-bpe", "glm4", "glm5"))
_PRE_ALWAYS_BOS = frozenset(("gemma4", "granite-embed-multi-311m"))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens and the rules around them.

    Attributes:
        model: the tokenizer's name in the file: gpt2, llama, gemma4.
        kind: what people call it: BPE, SentencePiece.
        pre: the pre-tokenizer of a BPE vocabulary.
        tokens: text of each token as stored, not decoded.
        types: llama.cpp's token types, empty where the file has none; 3 is control, 4 user-defined, 5 unused.
        bos, eos: ids, None where the vocabulary has no such token.
        add_bos, add_eos: whether a prompt gets them.
    """

    model: str
    kind: str
    pre: str
    tokens: tuple[bytes, ...]
    types: tuple[int, ...]
    bos: int | None
    eos: int | None
    add_bos: bool
    add_eos: bool

    def __len__(self) -> int:
        return len(self.tokens)


def read_vocabulary(metadata: Mapping[str, Value]) -> Vocabulary | None:
    """The vocabulary in a header's metadata, None if there is none."""
    model = metadata.get("tokenizer.ggml.model")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(model, str) or not isinstance(tokens, tuple):
        return None
    texts = tuple(token for token in tokens if isinstance(token, bytes))
    found = metadata.get("tokenizer.ggml.pre")
    pre = "gemma4" if model == "gemma4" else found if isinstance(found, str) else ""
    kind = _KINDS.get(model, model)
    default_bos = None if pre in _PRE_WITHOUT_BOS_ID and kind == "BPE" else _DEFAULT_BOS.get(model)
    types = metadata.get("tokenizer.ggml.token_type")
    return Vocabulary(
        model=model,
        kind=kind,
        pre=pre,
        tokens=texts,
        types=tuple(int(t) for t in types if isinstance(t, int)) if isinstance(types, tuple) else (),
        bos=_token_id(metadata, "bos", default_bos, len(texts)),
        eos=_token_id(metadata, "eos", _DEFAULT_EOS.get(model), len(texts)),
        add_bos=_adds_bos(metadata, model, kind, pre),
        add_eos=_flag(metadata, "tokenizer.ggml.add_eos_token", model == "t5"),
    )


def _adds_bos(metadata: Mapping[str, Value], model: str, kind: str, pre: str) -> bool:
    default = model in ("llama", "bert") or (kind == "BPE" and pre in _PRE_WITH_BOS)
    always = kind == "BPE" and pre in _PRE_ALWAYS_BOS
    return always or _flag(metadata, "tokenizer.ggml.add_bos_token", default)


def _flag(metadata: Mapping[str, Value], key: str, default: bool) -> bool:
    value = metadata.get(key)
    return value if isinstance(value, bool) else default


def _token_id(metadata: Mapping[str, Value], which: str, default: int | None, size: int) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{which}_token_id")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size:
        return value
    return default if default is not None and default < size else None
