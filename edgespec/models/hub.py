"""Questions to the Hugging Face Hub: which files a repository has, how long they are, what their hashes are.

The Hub's own library asks them; only file contents are fetched by `transfer`, because the library (2.x) throws away
what it has when a download is interrupted.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TypeVar

from edgespec.errors import DownloadError
from edgespec.models.cache import cache_root
from edgespec.models.hub_errors import RETRY_STATUSES, DownloadCancelled, Interrupted, explain, offline, status_of

DEFAULT_ENDPOINT = "https://huggingface.co"
LONGEST_WAIT = 120.0
"""Seconds; a server that asks for more gets no automatic retry."""
TRIES = 5
BACKOFF = 1.0
"""Seconds before the second try; doubled before each further one."""

_T = TypeVar("_T")
_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_NAME = re.compile(r"^[\w][\w.-]*$")
_TRUE = frozenset(("1", "true", "yes", "on"))


@dataclass(frozen=True, slots=True)
class HubOptions:
    """Where the Hub is and what is known of the person.

    Attributes:
        token: never shown; None sends none.
        offline: ask nothing of the network.
    """

    endpoint: str = DEFAULT_ENDPOINT
    cache: Path = field(default_factory=cache_root)
    token: str | None = field(default=None, repr=False)
    offline: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> HubOptions:
        """As the variables of llama.cpp and the Hub's library say."""
        env = os.environ if environment is None else environment
        endpoint = env.get("MODEL_ENDPOINT") or env.get("HF_ENDPOINT") or DEFAULT_ENDPOINT
        is_offline = any(env.get(name, "").lower() in _TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
        return cls(endpoint.rstrip("/"), cache_root(env), _token(env), is_offline)


def _token(env: Mapping[str, str]) -> str | None:
    """The token a person logged in with, unless implicit tokens are switched off."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if env.get(name, "").strip():
            return env[name].strip()
    if env.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").lower() in _TRUE:
        return None
    home = env.get("HF_HOME") or "~/.cache/huggingface"
    try:
        path = Path(env.get("HF_TOKEN_PATH") or f"{home}/token").expanduser()
        return path.read_text("utf-8").strip() or None
    except (OSError, ValueError, RuntimeError):
        return None


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at one commit; `gated` means its terms must be accepted on the Hub first."""

    name: str
    commit: str
    files: tuple[str, ...]
    gated: bool
    licence: str | None


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file on the Hub. `etag` names its content; for large files it is the sha256."""

    repo: str
    name: str
    commit: str
    etag: str
    size: int | None
    asked_revision: str

    @property
    def sha256(self) -> str | None:
        return self.etag if _SHA256.match(self.etag) else None


class Hub:
    """Asks the Hub, patiently where patience helps.

    Attributes:
        on_wait: called with seconds and reason before every pause.
        cancelled: set it to end a pause, and with it whatever is going on, by DownloadCancelled.
    """

    def __init__(
        self,
        options: HubOptions,
        on_wait: Callable[[float, str], None] | None = None,
        cancelled: threading.Event | None = None,
    ) -> None:
        self.options = options
        self.on_wait = on_wait
        self.cancelled = cancelled or threading.Event()

    def repository(self, repo: str, revision: str | None = None) -> Repository:
        """Files of `repo`. Raises DownloadError."""
        from huggingface_hub import HfApi

        def ask() -> Repository:
            api = HfApi(endpoint=self.options.endpoint, token=self.options.token or False)
            info = api.model_info(repo, revision=revision, timeout=20)
            card = info.card_data
            licence = getattr(card, "license", None) if card else None
            names = tuple(sorted(sibling.rfilename for sibling in info.siblings or ()))
            return Repository(
                repo, info.sha or "", names, bool(info.gated), licence if isinstance(licence, str) else None
            )

        return self.patiently(ask, repo)

    def file(self, repo: str, name: str, revision: str | None = None) -> RemoteFile:
        """Size, commit and hash of one file. Raises DownloadError."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        wanted = revision or "main"

        def ask() -> RemoteFile:
            url = hf_hub_url(repo, name, revision=wanted, endpoint=self.options.endpoint)
            found = get_hf_file_metadata(
                url, token=self.options.token or False, timeout=20, endpoint=self.options.endpoint
            )
            if not found.etag or not found.commit_hash:
                raise self._not_a_hub()
            if not (_NAME.match(found.etag) and _NAME.match(found.commit_hash) and is_safe(name)):
                raise self._not_a_hub()
            return RemoteFile(repo, name, found.commit_hash, found.etag, found.size, wanted)

        return self.patiently(ask, f"{repo}/{name}")

    def _not_a_hub(self) -> DownloadError:
        return DownloadError(
            f"{self.options.endpoint} does not answer like a Hugging Face Hub.",
            "Check HF_ENDPOINT, and whether a login page or proxy stands in between.",
        )

    def patiently(self, ask: Callable[[], _T], what: str) -> _T:
        """`ask()`, repeated while the failure may pass. Raises DownloadError with the sentence for the last one."""
        if self.options.offline:
            raise offline(what)
        for attempt in range(TRIES):
            try:
                return ask()
            except Exception as error:
                explained = explain(error, what, self.options.endpoint)
                pause = pause_after(error, explained, attempt)
                if pause is None:
                    raise explained from None
                self.pause(pause, explained.message)
        raise AssertionError("the last attempt has no pause")  # pragma: no cover

    def pause(self, seconds: float, reason: str) -> None:
        """Waits, saying so. Raises DownloadCancelled when cancelled meanwhile."""
        if self.on_wait is not None:
            self.on_wait(seconds, reason)
        if self.cancelled.wait(seconds):
            raise DownloadCancelled


def is_safe(name: str) -> bool:
    """Whether a file's name stays inside its repository, whatever a server lists."""
    parts = name.split("/")
    return bool(name) and "\\" not in name and ":" not in name and not any(part in ("", ".", "..") for part in parts)


def pause_after(error: Exception, explained: DownloadError, attempt: int) -> float | None:
    """Seconds to wait before trying again; None when it is no use."""
    if attempt + 1 >= TRIES:
        return None
    status = status_of(error)
    if status in RETRY_STATUSES:
        asked = retry_after(getattr(getattr(error, "response", None), "headers", {}))
        if asked is not None:
            return asked if asked <= LONGEST_WAIT else None
    elif not isinstance(explained, Interrupted):
        return None
    return float(BACKOFF * 2**attempt)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds a server asks to wait, however it says so; None if it does not."""
    value = str(headers.get("retry-after", "")).strip()
    if value.isdigit():
        return float(value)
    try:
        then = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    now = datetime.now(then.tzinfo)
    return max(0.0, (then - now).total_seconds())
