"""What the host does for Load: check the files, load the models, warm them up, say what they can do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

from edgespec.chat import PromptBuilder
from edgespec.engine import messages as m
from edgespec.engine.devices import decide_placement
from edgespec.engine.kernels import choose_kernels, may_repack
from edgespec.engine.open_model import OpenModel
from edgespec.llama.library import library
from edgespec.llama.session import LlamaSession
from edgespec.models.pair import check_pair
from edgespec.models.shards import CheckedModel, check_file
from edgespec.types import LARGEST_DRAFT_SHARE, Mode

MOST_HEARD = 16
"""Tokens for which a draft model that catches up can say what it would have drafted: rows of its longest pass."""

NO_DRAFT_MODEL = "No draft model is loaded."
TARGET_CANNOT_GO_BACK = "This model's memory cannot go back, so nothing can be drafted for it."
DRAFT_CANNOT_GO_BACK = "The draft model's memory cannot go back far enough to take rejected tokens out again."


@dataclass(frozen=True, slots=True)
class Models:
    """A target, perhaps a draft model, and what was said about them."""

    target: OpenModel
    draft: OpenModel | None
    prompts: PromptBuilder
    loaded: m.Loaded
    options: m.LoadOptions

    def close(self) -> None:
        """Free everything."""
        if self.draft is not None:
            self.draft.close()
        self.target.close()


def load_models(options: m.LoadOptions) -> Models:
    """Load what `options` asks for. Raises the EdgeSpecError that says why not; nothing stays loaded then.

    Files and pair are checked in Python before native code sees them: seconds instead of minutes, a sentence instead
    of an abort.
    """
    started = perf_counter()
    target_file = check_file(options.target)
    draft_file = None
    if options.draft is not None:
        draft_file = check_file(options.draft)
        check_pair(target_file.header, draft_file.header)
    choose_kernels(options.kernels)
    placement = decide_placement(options, target_file, draft_file)
    options = placement.options
    repack = not options.safe_mode and may_repack(target_file.header, options.kernels)
    target = OpenModel.load(target_file, options, options.n_ctx, m.MAX_DRAFT_LENGTH, repack=repack)
    draft = None
    try:
        prompts = PromptBuilder(target.model.chat_template, target.model.vocab)
        if draft_file is not None:
            draft = _load_draft(draft_file, options, target.session)
        loaded = m.Loaded(
            target=target.info,
            draft=None if draft is None else draft.info,
            modes=modes(target.session, None if draft is None else draft.session),
            threads=target.session.threads,
            safe_mode=options.safe_mode,
            library=library().version,
            load_seconds=perf_counter() - started,
            notices=(*placement.notices, *_notices(target, draft)),
        )
    except BaseException:
        if draft is not None:
            draft.close()
        target.close()
        raise
    return Models(target, draft, prompts, loaded, options)


def _load_draft(file: CheckedModel, options: m.LoadOptions, target: LlamaSession) -> OpenModel:
    """A draft model needs no more context than its target, and drafts badly behind what it was trained for."""
    n_ctx = min(target.n_ctx, options.draft_n_ctx or target.n_ctx)
    n_ctx = min(n_ctx, file.header.context_length or n_ctx)
    own = replace(
        options,
        gpu_layers=options.gpu_layers if options.draft_gpu_layers is None else options.draft_gpu_layers,
        cache_type_k=options.draft_cache_type or options.cache_type_k,
        cache_type_v=options.draft_cache_type or options.cache_type_v,
    )
    return OpenModel.load(file, own, n_ctx, MOST_HEARD - 1, repack=not options.safe_mode)


def modes(target: LlamaSession, draft: LlamaSession | None) -> dict[Mode, str | None]:
    """Every mode, with None if it can run, or the reason why not. Auto always can: it may choose to draft nothing."""
    never = None if target.can_rewind else TARGET_CANNOT_GO_BACK
    without = NO_DRAFT_MODEL if draft is None else None
    if draft is not None and draft.max_rewind is not None:
        without = DRAFT_CANNOT_GO_BACK
    return {Mode.PLAIN: None, Mode.LOOKUP: never, Mode.DRAFT: never or without, Mode.AUTO: None}


def _notices(target: OpenModel, draft: OpenModel | None) -> list[str]:
    notices = []
    n_ctx, trained = target.session.n_ctx, target.model.n_ctx_train
    if 0 < trained < n_ctx:
        notices.append(
            f"The context of {n_ctx:,} tokens is longer than the {trained:,} this model was trained for: "
            "what it writes beyond them may make no sense."
        )
    if draft is None:
        return notices
    if draft.session.n_ctx < n_ctx:
        why = "was trained for" if draft.session.n_ctx == draft.model.n_ctx_train else "has a context of"
        notices.append(f"The draft model {why} {draft.session.n_ctx:,} tokens: behind them it drafts nothing.")
    share = draft.model.size_bytes / max(1, target.model.size_bytes)
    if share > LARGEST_DRAFT_SHARE:
        notices.append(
            f"The draft model has {share:.0%} of the target's size; drafting rarely pays above "
            f"{LARGEST_DRAFT_SHARE:.0%}. Compare with --mode plain."
        )
    return notices
