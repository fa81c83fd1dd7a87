"""A loaded model with its one session."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.engine import messages as m
from edgespec.llama.model import LlamaModel
from edgespec.llama.session import LlamaSession
from edgespec.models.shards import CheckedModel

DEFAULT_CONTEXT = 8192
"""Most tokens of context if the user names none: what most chats need, and memory that most machines have."""

CPU_OPERATIONS_PER_PASS = 75 * 10**9
SHORTEST_CHUNK = 64
"""Shorter passes read the weights too often for the work they do."""


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model with its one session."""

    model: LlamaModel
    session: LlamaSession

    @classmethod
    def load(cls, file: CheckedModel, options: m.LoadOptions, n_ctx: int, max_draft: int, *, repack: bool) -> OpenModel:
        """Load weights, make a context and warm it up, which is where kernels that do not fit this processor die.

        `n_ctx` 0 takes the model's own, at most DEFAULT_CONTEXT. Raises ModelLoadError or SettingsError.
        """
        model = LlamaModel.load(file.path, gpu_layers=options.gpu_layers, use_extra_bufts=repack)
        try:
            session = LlamaSession(
                model,
                n_ctx=n_ctx or min(model.n_ctx_train or DEFAULT_CONTEXT, DEFAULT_CONTEXT),
                n_batch=chunk_length(model.n_params, options.n_batch, model.gpu_layers),
                max_draft=max_draft,
                threads=options.threads,
                type_k=options.cache_type_k,
                type_v=options.cache_type_v,
                flash_attention=options.flash_attention,
            )
            session.warm_up()
        except BaseException:
            model.close()
            raise
        return cls(model, session)

    @property
    def info(self) -> m.ModelInfo:
        model, session = self.model, self.session
        return m.ModelInfo(
            path=str(model.path),
            name=model.name,
            architecture=model.architecture,
            n_params=model.n_params,
            size_bytes=model.size_bytes,
            n_vocab=model.n_vocab,
            n_ctx=session.n_ctx,
            n_ctx_train=model.n_ctx_train,
            has_template=bool(model.chat_template),
            can_rewind=session.can_rewind,
        )

    def close(self) -> None:
        """Free weights and context."""
        self.model.close()


def chunk_length(n_params: int, n_batch: int, gpu_layers: int) -> int:
    """Prompt tokens for one pass: `n_batch`, but on a CPU no more than it computes in about half a second.

    A cancel waits for the pass that is running. `gpu_layers` must be what a device holds, not what was asked for: all
    are asked for by default. Depends on the model's size only, not on measured time: the length of the passes moves
    the last bits of the logits, and a seed must give the same reply after every start.
    """
    if gpu_layers:
        return n_batch
    tokens = CPU_OPERATIONS_PER_PASS // max(1, 2 * n_params)
    return min(n_batch, max(SHORTEST_CHUNK, 1 << max(0, tokens.bit_length() - 1)))
