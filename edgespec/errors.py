"""Errors that users see: one sentence on what happened, one on what to do.

Raised low, where the facts are known; printed once, at the top, without a traceback.
"""

from __future__ import annotations


class EdgeSpecError(Exception):
    """A failure that can be explained.

    Attributes:
        message: one sentence on what happened.
        hint: one sentence on what to do, naming the command or flag; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[EdgeSpecError], tuple[str, str]]:
        return type(self), (self.message, self.hint)


class ModelFileError(EdgeSpecError):
    """A model file is missing, cut short, or not a GGUF."""


class PairError(EdgeSpecError):
    """A draft model cannot draft for this target."""


class ModeError(EdgeSpecError):
    """A mode was asked for that these models cannot run."""


class ModelLoadError(EdgeSpecError):
    """llama.cpp refused a model or a context."""


class ContextFullError(EdgeSpecError):
    """The prompt does not fit the context."""


class DecodeError(EdgeSpecError):
    """llama.cpp failed in the middle of a reply."""


class TemplateError(EdgeSpecError):
    """A chat template is broken or refuses the conversation."""


class SettingsError(EdgeSpecError):
    """A flag, environment variable or settings file has an unusable value."""


class EngineError(EdgeSpecError):
    """The engine process cannot be started or used."""


class DownloadError(EdgeSpecError):
    """A file could not be fetched or is not what it should be."""


class RegistryError(EdgeSpecError):
    """models.toml, the shipped one or the user's, is not valid."""
