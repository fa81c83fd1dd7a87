"""Conversations, and how they become tokens: chat template, guarded user text, one BOS, a budget.

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
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Protocol

from edgespec.engine.messages import Message
from edgespec.errors import ContextFullError, TemplateError

ROLES = ("system", "user", "assistant")
THINKING_MARKS = ("<think>", "</think>", "[THINK]", "[/THINK]")
"""Left alone in the assistant's own earlier words: templates look for them to leave old thinking out."""

SYSTEM_FOLDED = "This model's chat template has no system role: the system text was put in front of your first message."
TURNS_MERGED = "This model's chat template wants turns that alternate: consecutive messages of one role were joined."
NO_TEMPLATE = "This model has no chat template (a base model): it continues your text instead of answering it."

_RAW_HINT = "Try --raw to continue the plain text, or another file of this model."
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


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A conversation as text, and the sentences the user should read about it."""

    segments: tuple[Segment, ...]
    notices: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of a chat so far, as a value: every change gives a new one."""

    system: str | None = None
    turns: tuple[Message, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """All turns, the system text first if there is any."""
        system = (Message("system", self.system),) if self.system and not is_blank(self.system) else ()
        return system + self.turns

    def add_user(self, text: str) -> Conversation:
        refuse_blank(text)
        return replace(self, turns=(*self.turns, Message("user", text)))

    def add_assistant(self, text: str) -> Conversation:
        """Add the reply; a blank one, cancelled before its first word, leaves no turn behind."""
        return self if is_blank(text) else replace(self, turns=(*self.turns, Message("assistant", text)))

    def undo(self) -> Conversation:
        """Without the last user turn and what followed it."""
        last = max((i for i, turn in enumerate(self.turns) if turn.role == "user"), default=0)
        return replace(self, turns=self.turns[:last])

    def with_system(self, text: str | None) -> Conversation:
        return replace(self, system=text)


class ChatTemplate:
    """A model's chat template.

    Args:
        source: the template out of the GGUF.
        bos, eos: texts of those tokens, "" if there are none.
        guarded: texts that must not be taken for control tokens inside messages; see `guarded_texts`.
    """

    def __init__(self, source: str, bos: str, eos: str, guarded: Iterable[str] = ()) -> None:
        from edgespec.sandbox import Template  # jinja2 costs every command that has no model to load

        self._template = Template(source)
        self._tokens = {"bos_token": bos, "eos_token": eos}
        self._guard = _Guard(guarded)

    def render(self, messages: Sequence[Message]) -> RenderedPrompt:
        """The conversation as text up to where the assistant speaks.

        What a template refuses is offered again in shapes it may like, with a notice: the system text folded into the
        first user turn, consecutive turns of one role joined. Raises TemplateError if it likes none.
        """
        _check_messages(messages)
        nonce = self._guard.nonce(messages)
        errors: list[TemplateError] = []
        for shaped, notices in _shapes(messages):
            texts: list[str] = []
            guarded = [self._guard.hide(message, nonce, texts) for message in shaped]
            try:
                return RenderedPrompt(_cut(self._attempt(guarded), nonce, texts), notices)
            except TemplateError as error:
                errors.append(error)
        raise errors[0]

    def _attempt(self, messages: Sequence[Message]) -> str:
        """Render one shape. A text that a template drops without a word counts as refused."""
        wanted = [messages[-1].content.strip(), *(m.content.strip() for m in messages if m.role == "system")]
        errors: list[TemplateError] = []
        for content, extra in ((_plain, {"tools": None}), (_plain, {}), (_typed, {"tools": None})):
            turns = [{"role": message.role, "content": content(message.content)} for message in messages]
            variables: dict[str, Any] = {"messages": turns, "add_generation_prompt": True, **self._tokens, **extra}
            try:
                text = self._template.render(variables)
            except TemplateError as error:
                errors.append(error)
                continue
            if all(part in text for part in wanted):
                return text
            errors.append(TemplateError("The chat template leaves out what you wrote.", _RAW_HINT))
        raise errors[0]


class PromptBuilder:
    """Turns conversations and plain texts into tokens for one model.

    A broken template is an error of every chat, not of loading: plain texts can be continued without it.

    Args:
        source: the model's chat template, None or blank for a base model.
        vocabulary: the model's.
    """

    def __init__(self, source: str | None, vocabulary: PromptVocabulary) -> None:
        self._vocabulary = vocabulary
        self._template: ChatTemplate | None = None
        self._error: TemplateError | None = None
        if source and not is_blank(source):
            bos, eos = (_token_text(vocabulary, name) for name in ("bos", "eos"))
            try:
                self._template = ChatTemplate(source, bos, eos, guarded_texts(vocabulary, source))
            except TemplateError as error:
                self._error = error

    def chat(self, messages: Sequence[Message]) -> tuple[list[int], tuple[str, ...]]:
        """Tokens of a conversation up to where the assistant speaks, and notices for the user."""
        if self._error is not None:
            raise TemplateError(self._error.message, self._error.hint)
        if self._template is None:
            _check_messages(messages)
            rendered = RenderedPrompt((Segment("\n\n".join(m.content for m in messages), False),), (NO_TEMPLATE,))
        else:
            rendered = self._template.render(messages)
        return tokenize(rendered, self._vocabulary), rendered.notices

    def complete(self, text: str) -> list[int]:
        """Tokens of a text that the model is to continue; control texts in it are meant as control tokens."""
        refuse_blank(text)
        return tokenize(RenderedPrompt((Segment(text, True),)), self._vocabulary)


def tokenize(rendered: RenderedPrompt, vocabulary: PromptVocabulary) -> list[int]:
    """Tokens of a rendered prompt, with exactly one BOS if the template writes it or the model expects it."""
    tokens: list[int] = []
    for segment in rendered.segments:
        if segment.text:
            tokens += _tokenize_segment(segment, vocabulary, first=not tokens)
    bos = vocabulary.bos
    if bos < 0:
        return tokens
    written = next((i for i, token in enumerate(tokens) if token != bos), len(tokens))
    return [bos] * min(1, written + vocabulary.add_bos) + tokens[written:]


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


def check_budget(n_prompt: int, n_ctx: int, max_tokens: int | None = None) -> None:
    """Raise ContextFullError unless the prompt leaves room for at least one token of reply.

    A reply that may grow to `max_tokens` need not fit: it ends with reason `context`. The hint makes room for it.
    """
    if n_prompt < n_ctx:
        return
    room = -(-(n_prompt + (max_tokens or 256)) // 256) * 256
    raise ContextFullError(
        f"The prompt needs {n_prompt:,} tokens and at least one for the reply, but the context holds {n_ctx:,}.",
        f"Use --ctx {room}, shorten the text, or start a new chat.",
    )


def is_blank(text: str) -> bool:
    """Nothing to read: empty, or only space and invisible characters."""
    return not any(c.isprintable() and not c.isspace() for c in text)


def refuse_blank(text: str) -> None:
    """Raise TemplateError for a message without words: models answer it with noise, or llama.cpp aborts."""
    if is_blank(text):
        raise TemplateError("The message is empty.", "Write something, or pass a file with words in it.")


class _Guard:
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


def _cut(text: str, nonce: str, texts: Sequence[str]) -> tuple[Segment, ...]:
    """Cut a rendered text at its placeholders. Raises TemplateError if the template took one apart."""
    parts = re.split(f"{nonce}([\ue100-\ue1ff]{{{_INDEX_LENGTH}}})", text)
    segments = []
    for i, part in enumerate(parts):
        if i % 2:
            number = sum((ord(c) - 0xE100) << shift for c, shift in zip(part, (16, 8, 0), strict=True))
            segments.append(Segment(texts[number], False))
        elif nonce[:4] in part or nonce[-4:] in part:
            raise TemplateError("The chat template takes messages apart.", _RAW_HINT)
        elif part:
            segments.append(Segment(part, True))
    return tuple(segments)


def _shapes(messages: Sequence[Message]) -> Iterable[tuple[Sequence[Message], tuple[str, ...]]]:
    """The conversation as it is, then in the shapes a strict template may accept."""
    yield messages, ()
    merged, folded = _merge(messages), _fold(messages)
    if len(merged) < len(messages):
        yield merged, (TURNS_MERGED,)
    if any(message.role == "system" for message in messages):
        yield folded, (SYSTEM_FOLDED,)
        both = _merge(folded)
        if len(both) < len(folded):
            yield both, (SYSTEM_FOLDED, TURNS_MERGED)


def _fold(messages: Sequence[Message]) -> list[Message]:
    """The system text in front of the first user turn, or as one if there is none."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    turns = [message for message in messages if message.role != "system"]
    first = next((i for i, turn in enumerate(turns) if turn.role == "user"), None)
    if first is None:
        return [Message("user", system), *turns]
    turns[first] = Message("user", f"{system}\n\n{turns[first].content}")
    return turns


def _merge(messages: Sequence[Message]) -> list[Message]:
    """Consecutive messages of one role as one."""
    groups = groupby(messages, key=lambda message: message.role)
    return [Message(role, "\n\n".join(message.content for message in group)) for role, group in groups]


def _check_messages(messages: Sequence[Message]) -> None:
    if not messages:
        raise TemplateError("There is no message to answer.", "Write something first.")
    for message in messages:
        if message.role not in ROLES:
            raise TemplateError(f"A message has the role {message.role!r}; known are {', '.join(ROLES)}.")
    refuse_blank(messages[-1].content)


def _tokenize_segment(segment: Segment, vocabulary: PromptVocabulary, *, first: bool) -> list[int]:
    def tokens(text: str) -> list[int]:
        return vocabulary.tokenize(text, add_special=False, parse_special=segment.special)

    if not segment.special and len(segment.text) > 1 and len(tokens(segment.text)) == 1:
        # A user-defined token is found whatever `parse_special` says, so its text is handed over in two halves.
        first_half = _continue(segment.text[:1], tokens, vocabulary, first)
        return first_half + _continue(segment.text[1:], tokens, vocabulary, False)
    return _continue(segment.text, tokens, vocabulary, first)


def _continue(
    text: str, tokens: Callable[[str], list[int]], vocabulary: PromptVocabulary, first: bool
) -> list[int]:
    """Tokens of a text in the middle of a prompt, without the space some vocabularies put before every text."""
    result = tokens(text)
    if first or not result or not vocabulary.piece(result[0]).startswith(b" "):
        return result
    anchor = tokens("\n")
    anchored = tokens("\n" + text)
    return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else result


def _token_text(vocabulary: PromptVocabulary, name: str) -> str:
    token: int = getattr(vocabulary, name, -1)
    return vocabulary.text(token) if token >= 0 else ""


def _plain(content: str) -> str:
    return content


def _typed(content: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": content}]
