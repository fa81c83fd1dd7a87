"""Every way to decode that scripts/bench_peers.py compares: its name, its program, and the flags that make it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

EDGESPEC = "EdgeSpec"
SERVER = "llama-server"
SIMPLE = "llama-speculative-simple"
LOOKUP = "llama-lookup"
PYTHON = "llama-cpp-python"

PLAIN = "edgespec:plain"
AUTO = "edgespec:auto"
SERVER_NONE = "server:none"

DRAFT_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8)
CORE_DRAFT_LENGTHS = (2, 3, 4, 7)
CORE_LOOKUP_LENGTHS = (3, 7)


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to decode.

    Attributes:
        name: program and method in short, unique.
        method: how drafts are made; the same word for the same method wherever programs share it.
        length: longest draft of a round; None where there is none or the program decides.
        flags: what makes this setting, on the program's command line or, for libraries, as name=value.
        needs_draft: does it load the draft model?
        fresh: a process keeps what it saw in one reply and drafts from it in the next, so each reply gets a new one.
        core: part of the default selection.
    """

    name: str
    program: str
    method: str
    length: int | None = None
    flags: tuple[str, ...] = ()
    needs_draft: bool = False
    fresh: bool = False
    core: bool = True


def all_settings() -> list[Setting]:
    """In the order of the tables."""
    return [*_edgespec(), *_server(), *_command_lines(), *_python()]


def _edgespec() -> Iterable[Setting]:
    yield Setting(PLAIN, EDGESPEC, "none")
    yield Setting(AUTO, EDGESPEC, "auto", needs_draft=True)
    for k in DRAFT_LENGTHS:
        core = k in CORE_LOOKUP_LENGTHS
        yield Setting(f"edgespec:lookup:k{k}", EDGESPEC, "lookup", k, (f"draft_length={k}",), core=core)
    for k in DRAFT_LENGTHS:
        core = k in CORE_DRAFT_LENGTHS
        yield Setting(f"edgespec:draft:k{k}", EDGESPEC, "draft", k, (f"draft_length={k}",), True, core=core)


def _server() -> Iterable[Setting]:
    yield Setting(SERVER_NONE, SERVER, "none", flags=("--spec-type", "none"))
    for k in DRAFT_LENGTHS:
        flags = ("--spec-type", "draft-simple", "--spec-draft-n-max", str(k))
        yield Setting(f"server:draft-simple:k{k}", SERVER, "draft", k, flags, True, core=k in CORE_DRAFT_LENGTHS)
    for kind, fresh in (("ngram-simple", False), ("ngram-map-k", True)):
        for n, m, core in ((12, 48, True), (3, 7, True), (3, 3, False), (4, 16, False)):
            flags = ("--spec-type", kind, f"--spec-{kind}-size-n", str(n), f"--spec-{kind}-size-m", str(m))
            yield Setting(f"server:{kind}:n{n}-m{m}", SERVER, "lookup", m, flags, fresh=fresh, core=core)
    for match, low, high, core in ((24, 48, 64, True), (4, 1, 7, True), (8, 2, 16, False)):
        flags = (
            "--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", str(match),
            "--spec-ngram-mod-n-min", str(low), "--spec-ngram-mod-n-max", str(high),
        )  # fmt: skip
        yield Setting(f"server:ngram-mod:n{match}-m{high}", SERVER, "lookup", high, flags, fresh=True, core=core)


def _command_lines() -> Iterable[Setting]:
    for k in CORE_DRAFT_LENGTHS:
        flags = ("--spec-type", "draft-simple", "--spec-draft-n-max", str(k))
        yield Setting(f"simple:draft-simple:k{k}", SIMPLE, "draft", k, flags, True, True, core=k == 3)
    for k in CORE_LOOKUP_LENGTHS:
        yield Setting(f"lookup:k{k}", LOOKUP, "lookup", k, ("--spec-draft-n-max", str(k)), fresh=True)


def _python() -> Iterable[Setting]:
    for n, k, core in ((2, 10, True), (3, 7, True), (3, 3, False)):
        flags = (f"max_ngram_size={n}", f"num_pred_tokens={k}")
        yield Setting(f"python:lookup:n{n}-k{k}", PYTHON, "lookup", k, flags, core=core)


def choose(settings: Sequence[Setting], patterns: Sequence[str], *, everything: bool, draft: bool) -> list[Setting]:
    """The settings to measure: those whose names match a pattern; without patterns the core ones, or everything.

    Without a draft model those that need one are left out; `auto` stays, it does without. Raises ValueError for a
    pattern that matches nothing.
    """
    for pattern in patterns:
        if not any(fnmatchcase(setting.name, pattern) for setting in settings):
            raise ValueError(f"{pattern} matches no setting")

    def wanted(setting: Setting) -> bool:
        if patterns:
            return any(fnmatchcase(setting.name, pattern) for pattern in patterns)
        return everything or setting.core

    return [s for s in settings if wanted(s) and (draft or not s.needs_draft or s.name == AUTO)]


def turn(settings: Sequence[Setting], repeat: int, prompt: int) -> list[Setting]:
    """The order for one repeat of one prompt: another one goes first each time, and every other time backwards."""
    if not settings:
        return []
    at = (repeat * 7 + prompt * 11) % len(settings)
    rotated = [*settings[at:], *settings[:at]]
    return rotated[::-1] if (repeat + prompt) % 2 else rotated
