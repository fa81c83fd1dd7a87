"""What a user can set, where it is read from, and what it may be.

Four places, the first that names a value wins: flag, environment (`EDGESPEC_TEMPERATURE`), settings file, default.
The rules below are the only ones: the command line makes its options from them too.
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from edgespec.errors import SettingsError
from edgespec.types import ALL_LAYERS, AUTO_LAYERS

PREFIX = "EDGESPEC_"
CACHE_TYPES = ("f16", "bf16", "q8_0", "q4_0")
_MODEL_KEYS = ("model", "pair")


@dataclass(frozen=True, slots=True)
class Rule:
    """What one setting may be.

    Attributes:
        summary: one clause for `--help`.
        shape: how a value is written, for `--help` and for messages: `N`, `PATH`, `plain|lookup`.
        check: turns what a TOML file holds into the setting; raises ValueError with the rest of "NAME must be ...".
        read: turns a text (flag or environment) into what a TOML file would hold; raises ValueError.
    """

    summary: str
    shape: str
    check: Callable[[Any], Any]
    read: Callable[[str], Any] = str


def _text(summary: str, shape: str = "TEXT") -> Any:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError("a text")
        return value

    return field(default=None, metadata={"rule": Rule(summary, shape, check)})


def _texts(summary: str) -> Any:
    def check(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(part, str) and part for part in value):
            raise ValueError("a list of texts, none of them empty")
        return tuple(value)

    return field(default=(), metadata={"rule": Rule(summary, "TEXT", check, lambda text: [text])})


def _number(default: int | None, summary: str, low: int, high: int | None = None) -> Any:
    span = f"a whole number from {low} to {high}" if high is not None else f"a whole number, {low} or more"

    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
            raise ValueError(span)
        return value

    shape = f"{low}..{high}" if high is not None and high <= 1024 else "N"
    return field(default=default, metadata={"rule": Rule(summary, shape, check, _reads(int, span))})


def _decimal(default: float, summary: str, low: float, high: float, *, above: bool = False) -> Any:
    span = f"a number {'above' if above else 'from'} {low:g} {'and at most' if above else 'to'} {high:g}"

    def check(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise ValueError(span)
        if value < low or value > high or (above and value == low):
            raise ValueError(span)
        return float(value)

    shape = f"{low:g}..{high:g}"
    return field(default=default, metadata={"rule": Rule(summary, shape, check, _reads(float, span))})


def _choice(default: str | None, summary: str, *choices: str) -> Any:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"{', '.join(choices[:-1])} or {choices[-1]}")
        return str(value)

    return field(default=default, metadata={"rule": Rule(summary, "|".join(choices), check)})


def _switch(summary: str) -> Any:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}

    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError("true or false")
        return value

    def read(text: str) -> Any:
        return words.get(text.strip().lower(), text)

    return field(default=False, metadata={"rule": Rule(summary, "true|false", check, read)})


def _layers(default: int | None, summary: str, **words: int) -> Any:
    span = f"a whole number, 0 or more, or {' or '.join(words)}"

    def check(value: Any) -> int:
        if isinstance(value, str) and value in words:
            return words[value]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 10_000:
            raise ValueError(span)
        return value

    def read(text: str) -> Any:
        return text if text in words else _reads(int, span)(text)

    return field(default=default, metadata={"rule": Rule(summary, "|".join(("N", *words)), check, read)})


def _reads(kind: Callable[[str], Any], span: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(span) from None

    return read


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, with its default."""

    model: str | None = _text("Model that answers: a GGUF file, user/repo:QUANT, a pair's id, or demo.", "MODEL")
    draft: str | None = _text("Small model that drafts for it, named in the same ways.", "MODEL")
    pair: str | None = _text("Model and draft model at once, by the pair's id; see `edgespec models`.", "ID")
    mode: str | None = _choice(
        None, "How drafts are made. Default: auto, which drafts as far as it pays.", "plain", "lookup", "draft", "auto"
    )
    draft_length: int = _number(4, "Most tokens to draft in a round, in modes lookup and draft.", 0, 32)
    ctx: int = _number(0, "Context length in tokens. 0: the model's own, at most 8,192.", 0, 2**24)
    gpu_layers: int = _layers(
        AUTO_LAYERS, "Layers to put on a GPU, if there is one. Default: auto, as many as fit.", all=ALL_LAYERS,
        auto=AUTO_LAYERS,
    )  # fmt: skip
    threads: int = _number(0, "Threads to compute with. 0: one for each physical core.", 0, 1024)
    temperature: float = _decimal(0.0, "0 takes the likeliest token each time; more is more varied.", 0, 100)
    top_k: int = _number(0, "Sample among the K likeliest tokens. 0: all.", 0, 2**31 - 1)
    top_p: float = _decimal(
        1.0, "Sample among the likeliest tokens that have this much probability. 1: all.", 0, 1, above=True
    )
    min_p: float = _decimal(0.0, "Leave out tokens below this share of the likeliest one's probability. 0: none.", 0, 1)
    repeat_penalty: float = _decimal(1.0, "Make recent tokens less likely. 1: off.", 0, 100, above=True)
    seed: int | None = _number(None, "Of the random numbers. Default: a new one for each reply.", 0, 2**32 - 2)
    max_tokens: int | None = _number(None, "Longest reply. Default: until the model stops or the context is full.", 1)
    stop: tuple[str, ...] = _texts("End the reply where this text appears. May be given several times.")
    system: str | None = _text("System text: how the model is to behave.")
    cache_type_k: str = _choice("f16", "Type of the cached keys.", *CACHE_TYPES)
    cache_type_v: str = _choice(
        "f16",
        "Type of the cached values; q8_0 and q4_0 need flash attention. On a CPU bf16 gives every mode the same text "
        "at any length, but reads prompts slower.",
        *CACHE_TYPES,
    )
    flash_attention: str = _choice("auto", "Use flash attention.", "auto", "on", "off")
    kernels: str = _choice(
        "exact", "CPU kernels that give every mode the same text, or the fastest ones, which may not.", "exact", "fast"
    )
    draft_ctx: int = _number(0, "Context length of the draft model. 0: as the model that answers.", 0, 2**24)
    draft_cache_type: str | None = _choice(
        None, "Type of the draft model's cached keys and values. Default: as the model that answers.", *CACHE_TYPES
    )
    draft_gpu_layers: int | None = _layers(
        None, "Layers of the draft model to put on a GPU. Default: chosen with --gpu-layers.", all=ALL_LAYERS
    )
    draft_sampling: bool = _switch("Draw drafts at random from the draft model, instead of its likeliest tokens.")
    min_ngram: int = _number(3, "Lookup: fewest tokens that must match. Auto measures what that is worth.", 1, 64)
    max_ngram: int = _number(16, "Lookup: most tokens that are compared.", 1, 64)
    safe_mode: bool = _switch("Load without repacked weights, for machines where those kernels crash.")
    allow_fallback: bool = _switch("If the mode or draft model cannot be used, say so and go on without.")


RULES: dict[str, Rule] = {item.name: item.metadata["rule"] for item in fields(Settings)}


@dataclass(frozen=True, slots=True)
class _Source:
    """One place that settings come from: its values by key, and how to name a key of it in a message."""

    values: Mapping[str, Any]
    name_of: Callable[[str], str]


def settings_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's settings file: `EDGESPEC_CONFIG`, or `config.toml` in the user's configuration folder."""
    if environ.get(PREFIX + "CONFIG"):
        return Path(environ[PREFIX + "CONFIG"]).expanduser()
    import platformdirs

    return platformdirs.user_config_path("edgespec") / "config.toml"


def load_settings(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings after precedence. `flags` holds checked values by key, None for flags that were not given.

    Raises SettingsError naming the file or variable and the key.
    """
    given = {key: value for key, value in (flags or {}).items() if value is not None and key in RULES}
    sources = (
        _Source(given, lambda key: "--" + key.replace("_", "-")),
        _from_environment(environ),
        _from_file(settings_path(environ), required=bool(environ.get(PREFIX + "CONFIG"))),
    )
    values: dict[str, Any] = {}
    for source in sources:
        # Whoever names another model does not want the draft model of the old one.
        models_named = any(key in values for key in _MODEL_KEYS)
        for key, value in source.values.items():
            if key not in values and not (models_named and key in (*_MODEL_KEYS, "draft")):
                values[key] = value
        if all(key in source.values for key in _MODEL_KEYS):
            raise SettingsError(
                f"{source.name_of('model')} and {source.name_of('pair')} are both given.", "Name the model or the pair."
            )
    settings = Settings(**values)
    if settings.min_ngram > settings.max_ngram:
        raise SettingsError(
            f"--min-ngram {settings.min_ngram} is more than --max-ngram {settings.max_ngram}.", "Swap or change them."
        )
    return settings


def _from_environment(environ: Mapping[str, str]) -> _Source:
    values: dict[str, Any] = {}
    for key, rule in RULES.items():
        text = environ.get(PREFIX + key.upper(), "")
        if text:
            try:
                values[key] = rule.check(rule.read(text))
            except ValueError as error:
                raise SettingsError(
                    f"The environment variable {PREFIX}{key.upper()} must be {error}, not {text!r}.",
                    "Change or unset it.",
                ) from None
    return _Source(values, lambda key: PREFIX + key.upper())


def _from_file(path: Path, *, required: bool) -> _Source:
    table = _read_toml(path, required=required)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in RULES:
            near = difflib.get_close_matches(key.replace("-", "_"), RULES, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(RULES)}."
            raise SettingsError(f"{path}: unknown key {key!r}.", hint)
        try:
            values[key] = RULES[key].check(value)
        except ValueError as error:
            raise SettingsError(f"{path}: {key!r} must be {error}, not {value!r}.", "Correct the file.") from None
    return _Source(values, lambda key: f"{path}: {key!r}")


def _read_toml(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not required:
            return {}
        raise SettingsError(f"There is no settings file {path}.", f"Create it, or unset {PREFIX}CONFIG.") from None
    except OSError as error:
        raise SettingsError(f"The settings file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"The settings file {path} is not UTF-8 text.", "Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The settings file {path} is not valid TOML: {error}.", "Correct the file.") from None
