"""Text to tokens and back, byte for byte."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from edgespec.errors import EdgeSpecError
from edgespec.llama.library import Library
from edgespec.llama.longtext import safe_parts

if TYPE_CHECKING:
    from edgespec.llama.model import LlamaModel

ATTR_UNKNOWN = 1 << 0
ATTR_CONTROL = 1 << 3
ATTR_USER_DEFINED = 1 << 4
_TYPE_BPE = 2


class LlamaVocab:
    """The vocabulary of one model; usable while the model is open.

    Attributes:
        n_tokens: number of token ids, 0 to n_tokens - 1.
        bos, eos: ids of the tokens that begin and end a text, -1 where there is none.
        add_bos, add_eos: does this model want them around a text?
    """

    def __init__(self, library: Library, model: LlamaModel) -> None:
        self._lib = library
        self._model = model
        handle = library.llama_model_get_vocab(model.handle)
        self._handle: int = handle
        self.n_tokens: int = library.llama_vocab_n_tokens(handle)
        self.bos: int = library.llama_vocab_bos(handle)
        self.eos: int = library.llama_vocab_eos(handle)
        self.add_bos: bool = library.llama_vocab_get_add_bos(handle)
        self.add_eos: bool = library.llama_vocab_get_add_eos(handle)
        self._regex_splits: bool = library.llama_vocab_type(handle) == _TYPE_BPE
        self._pieces: dict[int, bytes] = {}
        self._buffer = np.zeros(256, dtype=np.uint8)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Tokens of this text.

        Args:
            add_special: put the tokens around it that the model wants (BOS, EOS).
            parse_special: read texts like `<|im_end|>` as control tokens; without it they are plain characters,
                which is what text typed by a user must be.
        """
        self._check_open()
        parts = safe_parts(text, self._special_pattern if parse_special else None) if self._regex_splits else [text]
        if len(parts) == 1:
            return self._tokenize(text, add_special, parse_special)
        tokens = [token for part in parts for token in self._tokenize(part, False, parse_special)]
        before = [self.bos] if add_special and self.add_bos else []
        return [*before, *tokens, *([self.eos] if add_special and self.add_eos else [])]

    def _tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        while True:
            tokens = np.empty(room, dtype=np.int32)
            count: int = self._lib.llama_tokenize(
                self._handle, data, len(data), tokens.ctypes.data, room, add_special, parse_special
            )
            if count >= 0:
                return [int(token) for token in tokens[:count].tolist()]
            if -count <= room:  # not a request for more room
                raise EdgeSpecError(f"llama.cpp cannot tokenise a text of {len(data):,} bytes.", "Shorten the text.")
            room = -count

    def piece(self, token: int) -> bytes:
        """The bytes this token adds to a text: any number of them, also half a character; none for control tokens."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._read_piece(token)
        return piece

    def detokenize(self, tokens: Iterable[int]) -> bytes:
        """The bytes of these tokens in a row."""
        return b"".join(map(self.piece, tokens))

    def is_eog(self, token: int) -> bool:
        """Does this token end the reply?"""
        return token in self.eog_tokens

    @cached_property
    def eog_tokens(self) -> frozenset[int]:
        """Every token that ends a reply."""
        self._check_open()
        is_eog, handle = self._lib.llama_vocab_is_eog, self._handle
        return frozenset(token for token in range(self.n_tokens) if is_eog(handle, token))

    @cached_property
    def special_texts(self) -> frozenset[str]:
        """Texts of the control and user-defined tokens: what `parse_special` looks for."""
        self._check_open()
        attr, handle = self._lib.llama_vocab_get_attr, self._handle
        special = ATTR_CONTROL | ATTR_USER_DEFINED
        return frozenset(self.text(token) for token in range(self.n_tokens) if attr(handle, token) & special)

    @cached_property
    def _special_pattern(self) -> re.Pattern[str]:
        texts = sorted(filter(None, self.special_texts), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    def text(self, token: int) -> str:
        """The token as the vocabulary writes it (a name for control tokens); "" for -1."""
        if token == -1:
            return ""
        self._check(token)
        return str(self._lib.llama_vocab_get_text(self._handle, token).decode("utf-8", "replace"))

    def _read_piece(self, token: int) -> bytes:
        self._check(token)
        while True:
            buffer = self._buffer
            size: int = self._lib.llama_token_to_piece(self._handle, token, buffer.ctypes.data, buffer.size, 0, False)
            if size >= 0:
                return buffer[:size].tobytes()
            self._buffer = np.zeros(-size, dtype=np.uint8)

    def _check(self, token: int) -> None:
        """llama.cpp ends the process for an id it does not have."""
        self._check_open()
        if not 0 <= token < self.n_tokens:
            raise EdgeSpecError(f"Token {token} is not in the vocabulary of {self.n_tokens:,} tokens.")

    def _check_open(self) -> None:
        if self._model.closed:
            raise EdgeSpecError("The model is closed.", "Load it again.")


class TextStream:
    """Text out of pieces: each call gives the characters that its piece completes.

    One character may be spread over several tokens; its bytes are held back until the last has come. Bytes that can
    never become a character turn into U+FFFD.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> str:
        """The text this piece completes; "" in the middle of a character."""
        return self._decoder.decode(piece)

    def flush(self) -> str:
        """What an unfinished character leaves behind at the end. The stream is then as new."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
