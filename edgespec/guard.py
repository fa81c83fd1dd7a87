"""Text that people write inside text that steers the model: kept apart from template to tokens.

A chat template writes control markers such as `<|im_end|>` that must become control tokens; the same characters typed
by a person must stay text. Both end up in one rendered string, so before rendering every control text inside a message
is swapped for a placeholder: private-use characters around a random nonce. Afterwards the string is cut at the
placeholders; between them nothing of a person's text can be read as control, so those parts are tokenised with special
tokens, and the texts behind the placeholders without.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from edgespec.engine.messages import Message
from edgespec.errors import TemplateError

THINKING_MARKS = ("<think>", "</think>", "[THINK]", "[/THINK]")
"""Left alone in the assistant's own earlier words: templates look for them to leave old thinking out."""

RAW_HINT = "Try --raw to continue the plain text, or another file of this model."
_NONCE_LENGTH = 8
_INDEX_LENGTH = 3


class PromptVocabulary(Protocol):
    """What prompts need to know about tokens."""

    @property
    def bos(self) -> int:
        """The beginning-of-sequence token; negative if there is none."""

    @property
    def add_bos(self) -> bool:
        """Does the model expect that token in front of every prompt?"""

    @property
    def special_texts(self) -> Collection[str]:
        """Texts of control and user-defined tokens."""

    def text(self, token: int) -> str:
        """The text of a token as the vocabulary lists it."""

    def piece(self, token: int) -> bytes:
        """The bytes this token adds to the text."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """The tokens of a text."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of prompt text; `special` where control texts in it are meant as control tokens."""

    text: str
    special: bool


class Guard:
    """Swaps texts that must not become control tokens for placeholders, and knows what the placeholders hide."""

    def __init__(self, guarded: Iterable[str]) -> None:
        texts = sorted({text for text in guarded if text}, key=lambda text: (-len(text), text))
        self._whole = _any_of(texts)
        self._whole_but_thinking = _any_of(text for text in texts if text not in THINKING_MARKS)
        # A message must not complete a control text together with what the template writes next to it either.
        self._starts = {text[:n] for text in texts for n in range(1, len(text))}
        self._ends = {text[-n:] for text in texts for n in range(1, len(text))}
        self._longest = len(texts[0]) if texts else 0

    @staticmethod
    def nonce(messages: Sequence[Message]) -> str:
        """Private-use characters that occur in no message."""
        while True:
            nonce = "".join(chr(0xE000 + byte) for byte in secrets.token_bytes(_NONCE_LENGTH))
            if not any(nonce in message.content for message in messages):
                return nonce

    def hide(self, message: Message, nonce: str, texts: list[str]) -> Message:
        """The message with placeholders; what each of them stands for is appended to `texts`."""

        def placeholder(text: str) -> str:
            texts.append(text)
            number = len(texts) - 1
            return nonce + "".join(chr(0xE100 + (number >> shift & 0xFF)) for shift in (16, 8, 0))

        core = message.content.strip()
        lead, tail = message.content.split(core, 1) if core else (message.content, "")
        head = next((core[:n] for n in self._lengths(core) if core[:n] in self._ends), "")
        core = core[len(head) :]
        foot = next((core[-n:] for n in self._lengths(core) if core[-n:] in self._starts), "")
        core = core[: len(core) - len(foot)]
        pattern = self._whole_but_thinking if message.role == "assistant" else self._whole
        core = pattern.sub(lambda hit: placeholder(hit[0]), core)
        head, foot = (placeholder(edge) if edge else "" for edge in (head, foot))
        return Message(message.role, lead + head + core + foot + tail)

    def _lengths(self, text: str) -> range:
        return range(min(self._longest - 1, len(text)), 0, -1)


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, texts)) or r"(?!)")


def cut(text: str, nonce: str, texts: Sequence[str]) -> tuple[Segment, ...]:
    """Cut a rendered text at its placeholders. Raises TemplateError if the template took one apart."""
    parts = re.split(f"{nonce}([\ue100-\ue1ff]{{{_INDEX_LENGTH}}})", text)
    segments = []
    for i, part in enumerate(parts):
        if i % 2:
            number = sum((ord(c) - 0xE100) << shift for c, shift in zip(part, (16, 8, 0), strict=True))
            segments.append(Segment(texts[number], False))
        elif nonce[:4] in part or nonce[-4:] in part:
            raise TemplateError("The chat template takes messages apart.", RAW_HINT)
        elif part:
            segments.append(Segment(part, True))
    return tuple(segments)


def guarded_texts(vocabulary: PromptVocabulary, source: str = "") -> list[str]:
    """The special texts that a person's text must not produce.

    All control tokens, and of the user-defined ones those that the template uses as marks. The rest, such as the
    HTML tags of some vocabularies, are ordinary words to the model; blank ones must stay for templates to trim.
    """

    def is_control(text: str) -> bool:
        plain, special = (vocabulary.tokenize(text, add_special=False, parse_special=flag) for flag in (False, True))
        return plain != special

    texts = {text for text in vocabulary.special_texts if not is_blank(text)}
    return [text for text in texts if text in source or is_control(text)]


def is_blank(text: str) -> bool:
    """Nothing to read: empty, or only space and invisible characters."""
    return not any(c.isprintable() and not c.isspace() for c in text)


def tokenize_segment(segment: Segment, vocabulary: PromptVocabulary, *, first: bool) -> list[int]:
    """Tokens of one segment; `first` if the prompt begins with it."""

    def tokens(text: str) -> list[int]:
        return vocabulary.tokenize(text, add_special=False, parse_special=segment.special)

    if not segment.special and len(segment.text) > 1 and len(tokens(segment.text)) == 1:
        # A user-defined token is found whatever `parse_special` says, so its text is handed over in two halves.
        first_half = _continue(segment.text[:1], tokens, vocabulary, first)
        return first_half + _continue(segment.text[1:], tokens, vocabulary, False)
    return _continue(segment.text, tokens, vocabulary, first)


def _continue(text: str, tokens: Callable[[str], list[int]], vocabulary: PromptVocabulary, first: bool) -> list[int]:
    """Tokens of a text in the middle of a prompt, without the space some vocabularies put before every text."""
    result = tokens(text)
    if first or not result or not vocabulary.piece(result[0]).startswith(b" "):
        return result
    anchor = tokens("\n")
    anchored = tokens("\n" + text)
    return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else result
