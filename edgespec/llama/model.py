"""A GGUF in memory."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Protocol, Self
from weakref import WeakSet

from edgespec.errors import ModelLoadError
from edgespec.llama.library import Library, library
from edgespec.llama.vocab import LlamaVocab


class _Closable(Protocol):
    def close(self) -> None: ...


class LlamaModel:
    """One loaded model: its weights, vocabulary and facts. Sessions share it; closing it closes them first.

    Attributes:
        path: the file it was loaded from.
        handle: llama.cpp's pointer, 0 once closed.
        vocab: its vocabulary.
        gpu_layers: layers asked onto an accelerator, 0 where there is none.
        n_ctx_train: context length it was trained for.
        n_swa: width of the sliding window, 0 without one.
        size_bytes: size of its tensors.
        chat_template: Jinja source, None for a base model.
    """

    def __init__(self, lib: Library, handle: int, path: Path, *, vocab_only: bool, gpu_layers: int = 0) -> None:
        self.library = self._lib = lib
        self.handle = handle
        self.path = path
        self.vocab_only = vocab_only
        self.gpu_layers = gpu_layers if lib.supports_gpu_offload else 0
        self.sessions: WeakSet[_Closable] = WeakSet()
        self.vocab = LlamaVocab(lib, self)
        self.n_vocab = self.vocab.n_tokens
        self.architecture = self.meta("general.architecture") or "unknown"
        self.name = self.meta("general.name") or path.stem
        self.n_ctx_train: int = lib.llama_model_n_ctx_train(handle)
        self.n_params: int = lib.llama_model_n_params(handle)
        self.size_bytes: int = lib.llama_model_size(handle)
        self.n_swa: int = lib.llama_model_n_swa(handle)
        self.is_recurrent: bool = lib.llama_model_is_recurrent(handle)
        self.is_hybrid: bool = lib.llama_model_is_hybrid(handle)
        template: bytes | None = lib.llama_model_chat_template(handle, None)
        self.chat_template = None if template is None else template.decode("utf-8", "replace")

    @classmethod
    def load(
        cls, path: str | Path, *, gpu_layers: int = 0, use_extra_bufts: bool = True, vocab_only: bool = False
    ) -> Self:
        """Load a GGUF. Raises ModelLoadError with what llama.cpp's log says, also for models that cannot chat.

        Args:
            gpu_layers: layers to put on an accelerator; -1 for all.
            use_extra_bufts: repack weights for faster kernels; False is safe mode, for machines whose processor
                announces instructions that it cannot execute.
            vocab_only: read vocabulary and metadata, no weights.
        """
        lib = library()
        path = Path(path)
        if not path.is_file():
            raise ModelLoadError(f"There is no model file {path}.", "Check the path.")
        params = lib.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        params.use_extra_bufts = use_extra_bufts
        params.vocab_only = vocab_only
        lib.log.take_errors()  # of earlier calls
        handle = lib.llama_model_load_from_file(os.fsencode(path), params)
        if not handle:
            reason = lib.explain("it does not say why")
            raise ModelLoadError(f"llama.cpp cannot load {path.name}: {reason}.", _load_hint(reason, gpu_layers))
        model = cls(lib, handle, path, vocab_only=vocab_only, gpu_layers=gpu_layers)
        if not vocab_only and (problem := _why_unsuitable(lib, model)):
            model.close()
            raise ModelLoadError(f"{path.name} {problem}.", "Choose a model that generates text from left to right.")
        return model

    @property
    def closed(self) -> bool:
        """Has the model been freed?"""
        return not self.handle

    def meta(self, key: str) -> str | None:
        """A scalar of the file's metadata as text, None if it is not there."""
        size = self._lib.llama_model_meta_val_str(self.handle, key.encode(), None, 0)
        if size < 0:
            return None
        buffer = ctypes.create_string_buffer(size + 1)
        self._lib.llama_model_meta_val_str(self.handle, key.encode(), ctypes.addressof(buffer), size + 1)
        return buffer.value.decode("utf-8", "replace")

    def close(self) -> None:
        """Free the weights, after the sessions that use them."""
        for session in tuple(self.sessions):
            session.close()
        handle, self.handle = self.handle, 0
        if handle:
            self._lib.llama_model_free(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "handle", 0):
            self.close()


def _why_unsuitable(lib: Library, model: LlamaModel) -> str | None:
    """Why this model cannot continue a text token by token, or None. The words follow the file's name."""
    arch = model.architecture
    if model.n_vocab <= 0:
        return "carries no vocabulary"
    if lib.llama_model_is_diffusion(model.handle):
        return f"is a diffusion model ({arch}), which does not write from left to right"
    if arch in ("eagle3", "dflash"):
        return f"is a drafting head ({arch}) that only works on top of its own target"
    if lib.llama_model_has_encoder(model.handle) or not lib.llama_model_has_decoder(model.handle):
        return f"is an encoder model ({arch}), not a text generator"
    causal, pooling = model.meta(f"{arch}.attention.causal"), model.meta(f"{arch}.pooling_type")
    if causal in ("false", "0") or pooling not in (None, "0", "4294967295"):
        return f"is an embedding or reranking model ({arch}), not a text generator"
    return None


def _load_hint(reason: str, gpu_layers: int) -> str:
    lower = reason.lower()
    if "unknown model architecture" in lower:
        return "This file needs a newer llama-cpp-python, or is not a language model."
    if "alloc" in lower or "memory" in lower:
        return "Put fewer layers on the accelerator (--gpu-layers)." if gpu_layers else "Choose a smaller model."
    return "Check the file with `edgespec doctor`, or download it again."
