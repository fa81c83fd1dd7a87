"""Conversations, and how they become tokens: the chat template and what it refuses, one BOS, a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from edgespec.engine.messages import Message
from edgespec.errors import ContextFullError, TemplateError
from edgespec.guard import (
    RAW_HINT,
    Guard,
    PromptVocabulary,
    Segment,
    cut,
    guarded_texts,
    is_blank,
    tokenize_segment,
)

ROLES = ("system", "user", "assistant")
SYSTEM_FOLDED = "This model's chat template has no system role: the system text was put in front of your first message."
TURNS_MERGED = "This model's chat template wants turns that alternate: consecutive messages of one role were joined."
NO_TEMPLATE = "This model has no chat template (a base model): it continues your text instead of answering it."


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
        self._guard = Guard(guarded)

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
                return RenderedPrompt(cut(self._attempt(guarded), nonce, texts), notices)
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
            errors.append(TemplateError("The chat template leaves out what you wrote.", RAW_HINT))
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
            tokens += tokenize_segment(segment, vocabulary, first=not tokens)
    bos = vocabulary.bos
    if bos < 0:
        return tokens
    written = next((i for i, token in enumerate(tokens) if token != bos), len(tokens))
    return [bos] * min(1, written + vocabulary.add_bos) + tokens[written:]


def check_budget(n_prompt: int, n_ctx: int, max_tokens: int | None = None, n_ctx_train: int = 0) -> None:
    """Raise ContextFullError unless the prompt leaves room for at least one token of reply.

    A reply that may grow to `max_tokens` need not fit: it ends with reason `context`. The hint makes room for it,
    unless that is more than the model was trained for (`n_ctx_train`, 0 if nobody knows).
    """
    if n_prompt < n_ctx:
        return
    room = -(-(n_prompt + (max_tokens or 256)) // 256) * 256
    hint = f"Use --ctx {room}, shorten the text, or start a new chat."
    if 0 < n_ctx_train < room:
        hint = f"Shorten the text, or start a new chat: this model was trained for {n_ctx_train:,} tokens."
    raise ContextFullError(
        f"The prompt needs {n_prompt:,} tokens and at least one for the reply, but the context holds {n_ctx:,}.", hint
    )


def refuse_blank(text: str) -> None:
    """Raise TemplateError for a message without words: models answer it with noise, or llama.cpp aborts."""
    if is_blank(text):
        raise TemplateError("The message is empty.", "Write something, or pass a file with words in it.")


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


def _token_text(vocabulary: PromptVocabulary, name: str) -> str:
    token: int = getattr(vocabulary, name, -1)
    return vocabulary.text(token) if token >= 0 else ""


def _plain(content: str) -> str:
    return content


def _typed(content: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": content}]
