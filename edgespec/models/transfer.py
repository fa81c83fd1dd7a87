"""Brings one file's bytes to this disk, continuing where an earlier try stopped, in whatever process that was.

The partial file is kept beside the place it will have, under the name the Hub's library uses for its own, so that
other programs recognise it. What it may be continued with is safe by name: it carries the content's etag. The result
counts only after its length and its hash are right.
"""

from __future__ import annotations

import errno
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from edgespec.errors import DownloadError
from edgespec.models.events import DownloadEvent, FileChecking, FileProgress, FileRestarted, FileStarted
from edgespec.models.hub import TRIES, Hub, RemoteFile, pause_after
from edgespec.models.hub_errors import DownloadCancelled, Interrupted, explain, explain_status
from edgespec.models.imposters import what_is
from edgespec.models.units import format_size

if TYPE_CHECKING:
    import httpx2

REPORT_EVERY = 0.1
_BLOCK = 1024 * 1024
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class PartialFile:
    """A file that grows, its hash known at every moment.

    Attributes:
        held: bytes in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.held = 0
        self._digest = hashlib.sha256()
        self._file = path.open("r+b" if path.exists() else "w+b", buffering=0)

    def __enter__(self) -> PartialFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def read_held(self, each: Callable[[int, int], None]) -> None:
        """Hashes what an earlier try left; `each` hears of bytes done and in all."""
        total = self.path.stat().st_size
        while block := self._file.read(_BLOCK):
            self._digest.update(block)
            self.held += len(block)
            each(self.held, total)

    def write(self, data: bytes) -> None:
        """Appends. Raises DownloadError when the disk is full."""
        rest = memoryview(data)
        try:
            while rest:
                written = self._file.write(rest)
                rest = rest[written:]
        except OSError as error:
            if error.errno not in _DISK_FULL:
                raise DownloadError(
                    f"{self.path.parent} cannot be written to: {error.strerror}.", "Check the disk."
                ) from error
            raise DownloadError(
                f"The disk is full at {self.path.parent}; {format_size(self.held)} are here and kept.",
                "Make room and run the same command again: it continues where it stopped.",
            ) from None
        self._digest.update(data)
        self.held += len(data)

    def restart(self) -> None:
        """Throws away what is here."""
        self._file.seek(0)
        self._file.truncate()
        self._digest = hashlib.sha256()
        self.held = 0

    def sync(self) -> None:
        """Asks the system to put everything on the disk."""
        import os

        os.fsync(self._file.fileno())

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


class Transfer:
    """The bytes of one remote file, through as many connections as it takes."""

    def __init__(self, hub: Hub, remote: RemoteFile, size: int | None, report: Callable[[DownloadEvent], None]) -> None:
        self._hub = hub
        self._remote = remote
        self._size = remote.size if remote.size is not None else size
        self._report = report
        self._seen_etag: str | None = None
        self._last_report = 0.0
        self.fetched = 0

    @property
    def _what(self) -> str:
        return f"{self._remote.repo}/{self._remote.name}"

    def run(self, partial: PartialFile) -> None:
        """Fills `partial` to its end. Raises DownloadError; what is there by then is kept unless it is wrong."""
        self._take_up(partial)
        attempt = 0
        while self._size is None or partial.held != self._size or not partial.held:
            before = self.fetched
            try:
                self._one_connection(partial)
                if self._size is None:
                    return
                if partial.held < self._size:
                    raise Interrupted(
                        f"The connection broke while {self._what} was fetched.", "Run the same command again."
                    )
            except DownloadCancelled:
                raise
            except Exception as error:
                attempt = 0 if self.fetched - before > _BLOCK else attempt
                explained = self._explained(error, partial)
                pause = pause_after(error, explained, attempt)
                if pause is None:
                    raise explained from None
                attempt = min(attempt + 1, TRIES)
                self._hub.pause(pause, explained.message)
        self._progress(partial, force=True)

    def _explained(self, error: Exception, partial: PartialFile) -> DownloadError:
        explained = explain(error, self._what, self._hub.options.endpoint)
        if isinstance(explained, Interrupted) and partial.held:
            of = f" of {format_size(self._size)}" if self._size else ""
            hint = "Run the same command again: it continues where it stopped."
            return Interrupted(f"{explained.message[:-1]}; {format_size(partial.held)}{of} are here.", hint)
        return explained

    def _take_up(self, partial: PartialFile) -> None:
        name = self._remote.name
        partial.read_held(lambda done, total: self._report(FileChecking(name, done, total)))
        if self._size is not None and partial.held > self._size:
            partial.restart()
            self._report(FileRestarted(name, "what was here was longer than the file"))
        self._report(FileStarted(name, partial.held, self._size))

    def _one_connection(self, partial: PartialFile) -> None:
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session  # type: ignore[attr-defined]

        options = self._hub.options
        url = hf_hub_url(self._remote.repo, self._remote.name, revision=self._remote.commit, endpoint=options.endpoint)
        headers = build_hf_headers(token=options.token or False, library_name="edgespec")
        headers["Accept-Encoding"] = "identity"
        if partial.held:
            headers["Range"] = f"bytes={partial.held}-"
            if self._seen_etag:
                headers["If-Range"] = self._seen_etag
        with get_session().stream("GET", url, headers=headers, timeout=30, follow_redirects=True) as response:
            self._accept(response, partial)
            for block in response.iter_raw():
                self._check_cancelled()
                if not partial.held:
                    self._refuse_page(block)
                partial.write(block)
                self.fetched += len(block)
                self._check_length(partial)
                self._progress(partial)

    def _accept(self, response: httpx2.Response, partial: PartialFile) -> None:
        """Compares an answer with what was asked for; begins again where it is not the continuation."""
        if response.status_code == 416:
            partial.restart()
            self._report(FileRestarted(self._remote.name, "the server has fewer bytes than are here"))
        if response.status_code not in (200, 206):
            wait = response.headers.get("retry-after", "")
            error: Any = explain_status(response.status_code, self._what, self._hub.options.endpoint, wait)
            error.response = response
            raise error
        if "text/html" in response.headers.get("content-type", "") and self._remote.name.endswith(".gguf"):
            raise self._page("a web page")
        etag = response.headers.get("etag")
        if response.status_code == 206:
            start = response.headers.get("content-range", "").removeprefix("bytes ").split("-")[0]
            changed = self._seen_etag is not None and etag != self._seen_etag
            if start != str(partial.held) or changed:
                partial.restart()
                raise Interrupted("The server continued somewhere else than asked.", "Run the same command again.")
        elif partial.held:
            partial.restart()
            self._report(FileRestarted(self._remote.name, "the server does not continue files"))
        self._seen_etag = etag if etag and not etag.startswith("W/") else None

    def _refuse_page(self, beginning: bytes) -> None:
        if self._remote.name.endswith(".gguf") and len(beginning) >= 4:
            found = what_is(beginning[:512], len(beginning))
            if found is not None:
                raise DownloadError(
                    f"{self._hub.options.endpoint} sent something else: {self._what} {found[0]}.", found[1]
                )

    def _page(self, what: str) -> DownloadError:
        return DownloadError(
            f"{self._hub.options.endpoint} sent {what} instead of {self._what}.",
            "Open a page in the browser: does this network want a login first? Then check HF_ENDPOINT.",
        )

    def _check_cancelled(self) -> None:
        if self._hub.cancelled.is_set():
            raise DownloadCancelled

    def _check_length(self, partial: PartialFile) -> None:
        if self._size is not None and partial.held > self._size:
            partial.restart()
            raise DownloadError(
                f"{self._what} is longer than the {format_size(self._size)} it should have.",
                "Try again later, or another source.",
            )

    def _progress(self, partial: PartialFile, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._last_report >= REPORT_EVERY:
            self._last_report = now
            self._report(FileProgress(self._remote.name, partial.held, self._size))
