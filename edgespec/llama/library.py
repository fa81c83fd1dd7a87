"""llama.cpp's shared library: own prototypes, its log, its version, what it can do.

Only the low-level binding's library handle and parameter structs are used. Functions are looked up by index, which
yields fresh objects, so that setting prototypes here does not disturb the binding's own.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from ctypes import (
    POINTER,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgespec.errors import EdgeSpecError
from edgespec.llama.logs import LEVEL_ERROR, LogRing


class LibraryError(EdgeSpecError):
    """llama-cpp-python is missing, broken, or not a version we know."""


class Batch(ctypes.Structure):
    """llama_batch, with plain addresses: they are set once to numpy memory."""

    _fields_ = (
        ("n_tokens", c_int32),
        ("token", c_void_p),
        ("embd", c_void_p),
        ("pos", c_void_p),
        ("n_seq_id", c_void_p),
        ("seq_id", c_void_p),
        ("logits", c_void_p),
    )


class TokenDataArray(ctypes.Structure):
    """llama_token_data_array. Samplers may move `data`, shrink `size` and permute the elements."""

    _fields_ = (("data", c_void_p), ("size", c_size_t), ("selected", c_int64), ("sorted", c_bool))


LOG_CALLBACK = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
ABORT_CALLBACK = ctypes.CFUNCTYPE(None, c_char_p)

_P = c_void_p
_PROTOTYPES: dict[str, tuple[Any, ...]] = {  # name: (result, *arguments)
    "llama_log_set": (None, LOG_CALLBACK, _P),
    "llama_backend_init": (None,),
    "llama_version": (c_char_p,),
    "llama_print_system_info": (c_char_p,),
    "llama_supports_gpu_offload": (c_bool,),
    # models
    "llama_model_free": (None, _P),
    "llama_model_get_vocab": (_P, _P),
    "llama_model_n_ctx_train": (c_int32, _P),
    "llama_model_n_embd": (c_int32, _P),
    "llama_model_n_layer": (c_int32, _P),
    "llama_model_n_head": (c_int32, _P),
    "llama_model_n_head_kv": (c_int32, _P),
    "llama_model_n_swa": (c_int32, _P),
    "llama_model_n_params": (c_uint64, _P),
    "llama_model_size": (c_uint64, _P),
    "llama_model_chat_template": (c_char_p, _P, c_char_p),
    "llama_model_meta_val_str": (c_int32, _P, c_char_p, _P, c_size_t),
    "llama_model_has_encoder": (c_bool, _P),
    "llama_model_has_decoder": (c_bool, _P),
    "llama_model_is_recurrent": (c_bool, _P),
    "llama_model_is_hybrid": (c_bool, _P),
    "llama_model_is_diffusion": (c_bool, _P),
    # contexts
    "llama_free": (None, _P),
    "llama_n_ctx": (c_uint32, _P),
    "llama_n_batch": (c_uint32, _P),
    "llama_n_ubatch": (c_uint32, _P),
    "llama_n_rs_seq": (c_uint32, _P),
    "llama_get_memory": (_P, _P),
    "llama_decode": (c_int32, _P, Batch),
    "llama_get_logits": (_P, _P),
    "llama_synchronize": (None, _P),
    "llama_memory_clear": (None, _P, c_bool),
    "llama_memory_seq_rm": (c_bool, _P, c_int32, c_int32, c_int32),
    "llama_memory_seq_pos_min": (c_int32, _P, c_int32),
    "llama_memory_seq_pos_max": (c_int32, _P, c_int32),
    # vocabularies
    "llama_vocab_n_tokens": (c_int32, _P),
    "llama_vocab_type": (c_int, _P),
    "llama_vocab_get_text": (c_char_p, _P, c_int32),
    "llama_vocab_get_attr": (c_int, _P, c_int32),
    "llama_vocab_is_eog": (c_bool, _P, c_int32),
    "llama_vocab_bos": (c_int32, _P),
    "llama_vocab_eos": (c_int32, _P),
    "llama_vocab_get_add_bos": (c_bool, _P),
    "llama_vocab_get_add_eos": (c_bool, _P),
    "llama_tokenize": (c_int32, _P, c_char_p, c_int32, _P, c_int32, c_bool, c_bool),
    "llama_token_to_piece": (c_int32, _P, c_int32, _P, c_int32, c_int32, c_bool),
    # samplers
    "llama_sampler_chain_add": (None, _P, _P),
    "llama_sampler_accept": (None, _P, c_int32),
    "llama_sampler_apply": (None, _P, POINTER(TokenDataArray)),
    "llama_sampler_clone": (_P, _P),
    "llama_sampler_free": (None, _P),
    "llama_sampler_init_greedy": (_P,),
    "llama_sampler_init_dist": (_P, c_uint32),
    "llama_sampler_init_top_k": (_P, c_int32),
    "llama_sampler_init_top_p": (_P, c_float, c_size_t),
    "llama_sampler_init_min_p": (_P, c_float, c_size_t),
    "llama_sampler_init_temp": (_P, c_float),
    "llama_sampler_init_penalties": (_P, c_int32, c_int32, c_float, c_float, c_float),
    # ggml, found through libllama's dependencies
    "ggml_set_abort_callback": (_P, ABORT_CALLBACK),
    "ggml_backend_load_all_from_path": (None, c_char_p),
    "ggml_backend_dev_count": (c_size_t,),
    "ggml_backend_dev_get": (_P, c_size_t),
    "ggml_backend_dev_name": (c_char_p, _P),
    "ggml_backend_dev_description": (c_char_p, _P),
    "ggml_backend_dev_memory": (None, _P, POINTER(c_size_t), POINTER(c_size_t)),
    "ggml_backend_dev_type": (c_int, _P),
    "ggml_backend_dev_backend_reg": (_P, _P),
    "ggml_backend_reg_name": (c_char_p, _P),
}

_EXTENSIONS: dict[str, tuple[str, ...]] = {
    # Functions of an internal C++ header: name, then the mangled names by Itanium and by Microsoft rules.
    "llama_set_embeddings_nextn": (
        "_Z26llama_set_embeddings_nextnP13llama_contextbb",
        "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
    ),
    "llama_set_nextn_layer_offset": (
        "_Z28llama_set_nextn_layer_offsetP13llama_contexti",
        "?llama_set_nextn_layer_offset@@YAXPEAUllama_context@@H@Z",
    ),
    "llama_get_embeddings_nextn": (
        "_Z26llama_get_embeddings_nextnP13llama_context",
        "?llama_get_embeddings_nextn@@YAPEAMPEAUllama_context@@@Z",
    ),
    "llama_get_embeddings_nextn_ith": (
        "_Z30llama_get_embeddings_nextn_ithP13llama_contexti",
        "?llama_get_embeddings_nextn_ith@@YAPEAMPEAUllama_context@@H@Z",
    ),
    "llama_get_ctx_other": (
        "_Z19llama_get_ctx_otherP13llama_context",
        "?llama_get_ctx_other@@YAPEAUllama_context@@PEAU1@@Z",
    ),
    "llama_set_embeddings_layer_inp": (
        "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
        "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
    ),
    "llama_get_embeddings_layer_inp": (
        "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
        "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
    ),
    "llama_model_target_layer_ids": (
        "_Z28llama_model_target_layer_idsPK11llama_model",
        "?llama_model_target_layer_ids@@YAPEBHPEBUllama_model@@@Z",
    ),
    "llama_model_target_layer_ids_n": (
        "_Z30llama_model_target_layer_ids_nPK11llama_model",
        "?llama_model_target_layer_ids_n@@YAIPEBUllama_model@@@Z",
    ),
    "llama_model_dflash_selector_top_k": (
        "_Z33llama_model_dflash_selector_top_kPK11llama_model",
        "?llama_model_dflash_selector_top_k@@YAHPEBUllama_model@@@Z",
    ),
    "llama_model_get_tok_embd": (
        "_Z24llama_model_get_tok_embdPK11llama_modelPf",
        "?llama_model_get_tok_embd@@YAIPEBUllama_model@@PEAM@Z",
    ),
}

_LOG_PREFIX = r"^(\w+: )*(error loading model: |failed to initialize the context: )?(\w+: )*"
_SAYS_NOTHING = ("failed to load model", "failed to decode", "failed to initialize batch")

REINSTALL = "Reinstall it: pip install --force-reinstall --no-cache-dir 'llama-cpp-python>=0.3.36,<0.3.37'."


class Library:
    """The loaded library: its functions as attributes, its log, facts about it.

    Attributes:
        path: the file it was loaded from; LLAMA_CPP_LIB_PATH chooses another folder.
        log: its last log lines.
        capabilities: for every extension function, whether this build exports it.
    """

    def __init__(self) -> None:
        self.log = LogRing()
        self.structs = _import_binding()
        handle = self.structs._lib
        self._handles = [handle]
        self.path = Path(handle._name)
        for name, prototype in _PROTOTYPES.items():
            setattr(self, name, self._bind(name, prototype))
        self._bind_structs()
        self.capabilities = {name: self._extension(name) is not None for name in _EXTENSIONS}
        self._log_callback = LOG_CALLBACK(self._on_log)
        self._abort_callback = ABORT_CALLBACK(self._on_abort)
        self.llama_log_set(self._log_callback, None)
        self.ggml_set_abort_callback(self._abort_callback)
        self.llama_backend_init()
        if not self.ggml_backend_dev_count():  # a build whose backends are separate files
            self.ggml_backend_load_all_from_path(os.fsencode(self.path.parent))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    @property
    def version(self) -> str:
        """Version of llama.cpp, and of the binding that carries it."""
        binding = __import__("llama_cpp").__version__
        return f"llama.cpp {self.llama_version().decode()} (llama-cpp-python {binding})"

    @property
    def system_info(self) -> str:
        """The processor features this build uses, in llama.cpp's words."""
        return str(self.llama_print_system_info().decode(errors="replace")).strip()

    @property
    def supports_gpu_offload(self) -> bool:
        """Can layers be moved off the CPU?"""
        return bool(self.llama_supports_gpu_offload())

    def extension(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any] | None:
        """An extension function with this prototype, or None where the build lacks it."""
        function: Any = self._extension(name)
        if function is not None:
            function.restype, function.argtypes = result, list(arguments)
        return function  # type: ignore[no-any-return]

    def explain(self, fallback: str) -> str:
        """What the log says about the call that just failed, as part of a sentence; `fallback` if it is silent."""
        lines = [re.sub(_LOG_PREFIX, "", line).strip().rstrip(".") for line in self.log.take_errors()]
        telling = [line for line in lines if line and not line.startswith(_SAYS_NOTHING)]
        return "; ".join(dict.fromkeys(telling[:2])) or fallback

    def _bind(self, name: str, prototype: tuple[Any, ...]) -> Any:
        for handle in self._handles:
            try:
                function = handle[name]
            except AttributeError:
                continue
            function.restype, function.argtypes = prototype[0], list(prototype[1:])
            return function
        if name.startswith("ggml_") and len(self._handles) == 1:  # no look-up through dependencies on this system
            self._handles += [ctypes.CDLL(str(file)) for file in _siblings(self.path)]
            return self._bind(name, prototype)
        raise LibraryError(f"The llama.cpp library {self.path} has no function {name}.", REINSTALL)

    def _bind_structs(self) -> None:
        """Functions that pass the parameter structs, whose layout follows the binding's version."""
        model, context = self.structs.llama_model_params, self.structs.llama_context_params
        chain = self.structs.llama_sampler_chain_params
        for name, prototype in {
            "llama_model_default_params": (model,),
            "llama_model_load_from_file": (_P, c_char_p, model),
            "llama_context_default_params": (context,),
            "llama_init_from_model": (_P, _P, context),
            "llama_sampler_chain_default_params": (chain,),
            "llama_sampler_chain_init": (_P, chain),
        }.items():
            setattr(self, name, self._bind(name, prototype))

    def _extension(self, name: str) -> Any:
        for candidate in (name, *_EXTENSIONS[name]):
            try:
                return self._handles[0][candidate]
            except AttributeError:
                continue
        return None

    def _on_log(self, level: int, text: bytes, _data: Any) -> None:
        self.log.write(level, text.decode("utf-8", "replace"))

    def _on_abort(self, message: bytes) -> None:
        """llama.cpp is about to end the process: leave its last words where the parent looks for them."""
        self.log.write(LEVEL_ERROR, message.decode("utf-8", "replace") + "\n")
        os.write(2, message + b"\n")


def _import_binding() -> Any:
    try:
        import llama_cpp.llama_cpp as binding
    except ModuleNotFoundError as error:
        message = f"llama-cpp-python is not installed ({error})."
        raise LibraryError(message, "Run: pip install 'llama-cpp-python>=0.3.36,<0.3.37'.") from error
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        hint = REINSTALL
        if folder := os.environ.get("LLAMA_CPP_LIB_PATH"):
            hint = f"LLAMA_CPP_LIB_PATH points to {folder}: unset it, or point it to a folder with a matching libllama."
        raise LibraryError(f"llama.cpp's library cannot be loaded: {error}.", hint) from error
    return binding


def _siblings(path: Path) -> list[Path]:
    return [file for file in path.parent.iterdir() if "ggml" in file.name and file.suffix in (".dll", ".so", ".dylib")]


_library: Library | None = None


def library() -> Library:
    """The library, loaded and initialised at the first call. Raises LibraryError."""
    global _library
    if _library is None:
        _library = Library()
    return _library
