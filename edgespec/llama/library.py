"""llama.cpp's shared library: own prototypes, its log, its version, what it can do.

Only the low-level binding's library handle and parameter structs are used. Functions are looked up by index, which
yields fresh objects, so that setting prototypes here does not disturb the binding's own.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from ctypes import c_char_p, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgespec.errors import EdgeSpecError
from edgespec.llama.logs import LEVEL_ERROR, LogRing
from edgespec.llama.prototypes import ABORT_CALLBACK, EXTENSIONS, LOG_CALLBACK, PROTOTYPES


class LibraryError(EdgeSpecError):
    """llama-cpp-python is missing, broken, or not a version we know."""


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
        for name, prototype in PROTOTYPES.items():
            setattr(self, name, self._bind(name, prototype))
        self._bind_structs()
        self.capabilities = {name: self._extension(name) is not None for name in EXTENSIONS}
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
            "llama_model_load_from_file": (c_void_p, c_char_p, model),
            "llama_context_default_params": (context,),
            "llama_init_from_model": (c_void_p, c_void_p, context),
            "llama_sampler_chain_default_params": (chain,),
            "llama_sampler_chain_init": (c_void_p, chain),
        }.items():
            setattr(self, name, self._bind(name, prototype))

    def _extension(self, name: str) -> Any:
        for candidate in (name, *EXTENSIONS[name]):
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
