"""Runs a chat template out of a model file: an untrusted program in a small language.

Jinja's immutable sandbox keeps a template away from Python's insides but lets it burn time and memory. What is bounded
here besides: the template's own length, `range` (Jinja's own limit of 100,000), lines run, seconds, the length of every
text or list built by an operator, a filter or a call, their sum, the size of whole numbers, and the rendered text.
Filters outside a list of harmless ones do not exist. What is left, copies made by slicing, is bounded by the seconds.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import wraps
from time import monotonic
from types import FrameType
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgespec.errors import TemplateError
from edgespec.guard import RAW_HINT

MAX_SOURCE = 256_000
MAX_TEXT = 8_000_000
MAX_TEXT_SUM = 64_000_000
MAX_LINES = 500_000
MAX_SECONDS = 10.0
MAX_NUMBER = 2**63
MAX_PADDING = 1_000
_FILE = "<chat template>"
_FILTERS = frozenset(
    (
        "abs", "attr", "batch", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float",
        "forceescape", "groupby", "indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max",
        "min", "reject", "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort",
        "string", "sum", "title", "trim", "unique", "upper",
    )
)  # fmt: skip
_PADDING = re.compile(r"\d{4}|\*")


class Refused(TemplateError):
    """The template itself said no, through `raise_exception`."""


class _Limit(Exception):
    """A template went over one of the bounds."""


class Template:
    """A compiled chat template."""

    def __init__(self, source: str) -> None:
        if len(source) > MAX_SOURCE:
            message = f"The chat template is {len(source):,} characters long; at most {MAX_SOURCE:,} are allowed."
            raise TemplateError(message, RAW_HINT)
        self._environment = _Environment()
        try:
            code = self._environment.compile(source, "chat", _FILE)
        except jinja2.TemplateSyntaxError as error:
            message = f"The chat template is broken in line {error.lineno}: {_one_line(error.message)}."
            raise TemplateError(message, RAW_HINT) from None
        except (RecursionError, MemoryError, ValueError, SyntaxError, OverflowError) as error:
            raise TemplateError(f"The chat template cannot be compiled ({type(error).__name__}).", RAW_HINT) from None
        self._template = jinja2.Template.from_code(self._environment, code, dict(self._environment.globals))

    def render(self, variables: Mapping[str, Any]) -> str:
        """The template's text. Raises Refused if the template says no, TemplateError if it breaks or runs away."""
        self._environment.spent = 0
        try:
            with _Budget():
                return self._collect(self._template.generate(dict(variables)))
        except Refused:
            raise
        except _Limit as limit:
            raise TemplateError(f"The chat template runs away: {limit}.", RAW_HINT) from None
        except Exception as error:  # the template is a program of someone else's: whatever it raises is its own failure
            raise TemplateError(f"The chat template fails: {_one_line(error)}.", RAW_HINT) from None

    @staticmethod
    def _collect(chunks: Iterable[str]) -> str:
        parts: list[str] = []
        length = 0
        for chunk in chunks:
            length += len(chunk)
            if length > MAX_TEXT:
                raise _Limit(f"it writes more than {MAX_TEXT:,} characters")
            parts.append(chunk)
        return "".join(parts)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        # Without the optimizer nothing of the template runs while it is compiled, outside the budget.
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            finalize=self._finalize,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        self.spent = 0
        filters: dict[str, Callable[..., Any]] = {name: self.filters[name] for name in _FILTERS}
        filters |= {"tojson": _tojson, "from_json": json.loads, "_concat": _concat}
        self.filters = {name: self._bounded(function) for name, function in filters.items()}
        self.globals = {name: self.globals[name] for name in ("range", "dict", "namespace")}
        self.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}

    def _finalize(self, value: Any) -> Any:
        """Called for everything that is written out."""
        self._room(_written(value))
        return value

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for concat in list(tree.find_all(nodes.Concat)):
            # `a ~ b` cannot be intercepted, so it becomes a filter, in place: [a, b] | _concat.
            parts = nodes.List(list(concat.nodes), lineno=concat.lineno)
            concat.nodes = [nodes.Filter(parts, "_concat", [], [], None, None, lineno=concat.lineno)]
        tree.set_environment(self)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * max(1, right) if operator == "**" else left.bit_length() + right.bit_length()
            if bits > 128:
                raise _Limit("its numbers grow too large")
        elif operator == "*":
            self._room(_length(left) * _number(right) + _length(right) * _number(left))
        elif operator == "%" and isinstance(left, str):
            self._check_format(left, (right,))
        return self._count(super().call_binop(context, operator, left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        __self._check_arguments(args, kwargs)
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            __self._room(sum(map(_written, (*args, *kwargs.values()))))
            __self._check_method(owner, getattr(__obj, "__name__", ""), args)
        return __self._count(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        formatter = super().wrap_str_format(value)
        if formatter is None:
            return None
        text: str = value.__self__

        def bounded(*args: Any, **kwargs: Any) -> str:
            self._check_format(text, (*args, *kwargs.values()))
            return formatter(*args, **kwargs)

        return bounded

    def _bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The filter, with its arguments and its result checked."""

        @wraps(function)
        def bounded(*args: Any, **kwargs: Any) -> Any:
            self._check_arguments(args, kwargs)
            self._room(sum(map(_written, (*args, *kwargs.values()))))
            texts = [argument for argument in args if isinstance(argument, str)]
            if function is jinja2.filters.do_replace and len(texts) >= 3:
                self._check_method(texts[0], "replace", tuple(texts[1:]))
            if function is jinja2.filters.do_join:
                args = self._checked_join(args, kwargs)
            return self._count(function(*args, **kwargs))

        return bounded

    def _check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for argument in (*args, *kwargs.values()):
            if isinstance(argument, int) and abs(argument) > MAX_NUMBER:
                raise _Limit("its numbers grow too large")

    def _check_method(self, owner: str, name: str, args: tuple[Any, ...]) -> None:
        if name == "replace" and len(args) >= 2 and isinstance(args[0], str):
            self._room(len(owner) + owner.count(args[0]) * _length(args[1]))
        elif name == "join" and args:
            self._room(len(owner) * _length(args[0]))
        elif name in ("center", "ljust", "rjust", "zfill", "expandtabs") and args and _number(args[0]) > MAX_PADDING:
            raise _Limit("it pads texts too far")

    def _checked_join(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of the join filter, its parts turned from an iterator into a list to be measured."""
        context, parts, *rest = args
        parts = list(parts)
        between = max(map(_written, (*rest, *kwargs.values())), default=0)
        self._room(_written(parts) + between * len(parts))
        return (context, parts, *rest)

    def _check_format(self, text: str, args: tuple[Any, ...]) -> None:
        if _PADDING.search(text):
            raise _Limit("it pads texts too far")
        longest = max(map(_written, args), default=0)
        self._room(len(text) + (text.count("%") + text.count("{")) * longest)

    def _room(self, length: int) -> None:
        if length > MAX_TEXT:
            raise _Limit(f"it builds a text of more than {MAX_TEXT:,} characters")

    def _count(self, result: Any) -> Any:
        length = _length(result)
        self._room(length)
        self.spent += length
        if self.spent > MAX_TEXT_SUM:
            raise _Limit(f"it builds more than {MAX_TEXT_SUM:,} characters")
        if isinstance(result, int) and abs(result) > MAX_NUMBER:
            raise _Limit("its numbers grow too large")
        return result


class _Generation(Extension):
    """Accepts `{% generation %}`, which training tools use to mark the assistant's words, and renders what is in it."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Budget:
    """Counts the lines a template runs, through Python's trace hook of this thread.

    A loop can be written in many ways, over ranges, texts, lists or recursion, but each of them runs compiled lines.
    """

    def __enter__(self) -> None:
        self._lines = 0
        self._deadline = monotonic() + MAX_SECONDS
        self._outer = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *exception: object) -> None:
        sys.settrace(self._outer)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        self._lines += 1
        if self._lines > MAX_LINES:
            raise _Limit(f"it runs more than {MAX_LINES:,} lines")
        if monotonic() > self._deadline:
            raise _Limit(f"it runs longer than {MAX_SECONDS:.0f} seconds")
        return self._trace if frame.f_code.co_filename == _FILE else None


def _concat(parts: list[Any]) -> str:
    return "".join(map(str, parts))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as model makers write it, not escaped for HTML. Private-use characters always stay, for placeholders."""
    if isinstance(indent, int) and indent > MAX_PADDING:
        raise _Limit("it pads texts too far")
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys)
    return re.sub(r"[^\x00-\x7f\ue000-\uf8ff]", lambda hit: json.dumps(hit[0])[1:-1], text) if ensure_ascii else text


def _raise_exception(message: object) -> NoReturn:
    raise Refused(f"The chat template refuses this conversation: {_one_line(message)}.", RAW_HINT)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def _written(value: Any) -> int:
    """About how long a value is once written out; stops counting beyond what is allowed.

    A short list may hold one long text a thousand times.
    """
    total = 0
    waiting = [value]
    while waiting and total <= MAX_TEXT:
        item = waiting.pop()
        total += max(1, _length(item))
        if isinstance(item, Mapping):
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
    return total


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _one_line(value: object) -> str:
    """A stranger's message, fit for one sentence."""
    text = "".join(c if c.isprintable() else " " for c in str(value)[:200])
    return " ".join(text.split()).rstrip(".") or type(value).__name__
