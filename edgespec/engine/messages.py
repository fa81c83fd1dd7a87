"""What crosses the pipe between client and host: commands down, events up. See wire.py for how."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgespec import errors
from edgespec.decoding.auto_report import AutoReport
from edgespec.decoding.sampling import SamplingParams
from edgespec.decoding.stats import GenerationStats
from edgespec.types import AUTO_LAYERS, FinishReason, Mode, Prefilled, Prefilling, Round, RoundDetails

MAX_DRAFT_LENGTH = 32
"""Longest draft a round may have: the target context reserves this many rows of logits, plus one."""


# Commands


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Which models to load and how.

    Attributes:
        target: path of the target GGUF.
        draft: path of the draft model's GGUF, if any.
        n_ctx: context length in tokens; 0 takes the model's own, at most 8,192.
        gpu_layers: layers to offload; ALL_LAYERS, or AUTO_LAYERS for as many as fit, at the expense of the draft
            model's context, cache and place first.
        threads: 0 takes the number of physical cores.
        cache_type_k, cache_type_v: element type of the KV cache: f16, bf16, q8_0 or q4_0.
        flash_attention: auto, on or off.
        kernels: exact, so that passes of every width compute alike, or fast; see engine/kernels.py.
        safe_mode: load without repacked weights, for machines where those kernels crash.
        draft_n_ctx, draft_cache_type, draft_gpu_layers: the same for the draft model; 0, "" and None take the target's.
    """

    target: str
    draft: str | None = None
    n_ctx: int = 0
    n_batch: int = 512
    gpu_layers: int = AUTO_LAYERS
    threads: int = 0
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    flash_attention: str = "auto"
    kernels: str = "exact"
    safe_mode: bool = False
    draft_n_ctx: int = 0
    draft_cache_type: str = ""
    draft_gpu_layers: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat: role is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """How to answer. `mode` must be one that the loaded models can run."""

    mode: Mode = Mode.AUTO
    draft_length: int = 4
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    draft_sampling: bool = False
    """Draw drafts from the draft model's own law and verify by rejection, instead of drafting its likeliest tokens."""
    min_ngram: int = 3
    max_ngram: int = 16
    fresh: bool = False
    """Empty every cache first, so that the reply starts as cold as in a new process: for measuring."""
    details: bool = False
    """Tell with every round what the models thought of its tokens. The reply is the same, a little slower."""


@dataclass(frozen=True, slots=True)
class Load:
    options: LoadOptions


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer a chat (`messages`) or continue a text (`prompt`); exactly one of the two is given."""

    id: int
    options: GenerateOptions
    messages: tuple[Message, ...] = ()
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class Examine:
    """Say which two tokens the target finds likeliest behind a prompt, given as for Generate, and part of a reply."""

    id: int
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    reply: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Measure:
    """Forget what passes cost with these models, and time them anew for at most about this long."""

    id: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop command `id`; takes effect within one pass of the target."""

    id: int


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Free everything and end the process."""


Command = Load | Generate | Examine | Measure | Cancel | Shutdown


# Events


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known about one loaded model."""

    path: str
    name: str
    architecture: str
    n_params: int
    size_bytes: int
    n_vocab: int
    n_ctx: int
    n_ctx_train: int
    has_template: bool
    can_rewind: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """The models are ready.

    Attributes:
        modes: every mode, with None if it can run or one sentence on why not.
        notices: sentences the user should see once (safe mode, context beyond what the model was trained on).
    """

    target: ModelInfo
    draft: ModelInfo | None
    modes: dict[Mode, str | None]
    threads: int
    safe_mode: bool
    library: str
    load_seconds: float
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of one device: bytes that are taken, by whomever, and bytes there are."""

    name: str
    used_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    id: int
    progress: Prefilling


@dataclass(frozen=True, slots=True)
class PrefillDone:
    """The prompt is in the caches.

    Attributes:
        devices: memory of the devices beside the processor, as it is now; empty without any.
    """

    id: int
    prefilled: Prefilled
    devices: tuple[DeviceMemory, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundDone:
    """One round, with text ready to show.

    Attributes:
        texts: text each emitted token completes, "" while a character is unfinished; same length as `round.tokens`.
        rejected: text of the draft tokens that were thrown away.
        why: in mode auto, why this round did what it did; "" if for the same reason as the round before.
        details: what the models thought of the tokens, if the options ask for it.
    """

    id: int
    round: Round
    texts: tuple[str, ...]
    rejected: tuple[str, ...]
    why: str = ""
    details: RoundDetails | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about this reply that the user should see (a folded system role, no chat template)."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class GenerationDone:
    """The reply is over. `text` ends with whatever an unfinished character leaves behind.

    Attributes:
        auto: how mode auto decided; None in other modes.
    """

    id: int
    reason: FinishReason
    text: str
    tokens: tuple[int, ...]
    mode: Mode
    stats: GenerationStats
    auto: AutoReport | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that could come next, with its text and its bare logit."""

    token: int
    text: str
    logit: float


@dataclass(frozen=True, slots=True)
class Examined:
    """Answer to Examine: the two likeliest tokens, best first; none if it was cancelled."""

    id: int
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """Answer to Measure: how many passes were timed; 0 if it was cancelled, and then nothing was forgotten."""

    id: int
    passes: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A command failed; the engine is still there. `id` is None for a failed load."""

    id: int | None
    error: str
    message: str
    hint: str

    def to_error(self) -> errors.EdgeSpecError:
        """The exception that `error` names, to raise on this side of the pipe; EngineError if that is none of ours."""
        kind = getattr(errors, self.error, None)
        if isinstance(kind, type) and issubclass(kind, errors.EdgeSpecError):
            return kind(self.message, self.hint)
        return errors.EngineError(self.message, self.hint)


@dataclass(frozen=True, slots=True)
class EngineLost:
    """The engine process died. Made by the client, never sent.

    Attributes:
        signal: name of the signal that killed it, "" if it exited.
        log: last lines of the native log.
    """

    signal: str
    exit_code: int
    log: tuple[str, ...]


Event = (
    Loaded | PrefillProgress | PrefillDone | RoundDone | Notice | GenerationDone | Examined | Measured | Failed
    | EngineLost
)  # fmt: skip
