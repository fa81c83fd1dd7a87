"""Fetches files of the Hub into the cache that all programs share, whole and checked or not at all.

`plan` asks the Hub what there is; fetching does the work and reports events. Between the two a person can be shown
what will happen.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from edgespec.errors import DownloadError, ModelFileError
from edgespec.models.cache import repo_folder
from edgespec.models.events import DownloadEvent, FileChecking, FileDone, FileWaiting
from edgespec.models.header import read_header
from edgespec.models.hub import Hub
from edgespec.models.hub_errors import DownloadCancelled, Interrupted
from edgespec.models.plan import DownloadPlan, PlannedFile, name_digits, partial_path, plan_pair, plan_reference
from edgespec.models.transfer import PartialFile, Transfer
from edgespec.models.units import format_size
from edgespec.models.verified import remember, sha256_of

__all__ = [
    "DownloadPlan", "PlannedFile", "Report", "fetch", "free_bytes", "partial_path", "plan_pair", "plan_reference",
    "require_space",
]  # fmt: skip

ROOM = 200_000_000
"""Bytes that a download leaves free on the disk."""

Report = Callable[[DownloadEvent], None]


def free_bytes(path: Path) -> int:
    """What is free where `path` is or will be."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


def require_space(plan: DownloadPlan, root: Path) -> None:
    """Raises DownloadError when the files will not fit."""
    needed, free = plan.to_fetch, free_bytes(root)
    if needed and needed + ROOM > free:
        raise DownloadError(
            f"{plan.title} needs {format_size(needed)} more on the disk of {root}, with {format_size(ROOM)} to spare;"
            f" {format_size(free)} are free.",
            "Make room (`edgespec models` lists what is here), or name another disk in HF_HUB_CACHE.",
        )


def fetch(plan: DownloadPlan, hub: Hub, report: Report, cancelled: threading.Event | None = None) -> list[Path]:
    """Fetches what the plan lacks and returns where every file is.

    Raises DownloadError. Nothing gets its final name before it is whole and checked.
    """
    require_space(plan, hub.options.cache)
    hub.cancelled = cancelled or hub.cancelled
    paths = []
    for file in plan.files:
        if file.cached is not None:
            _check_cached(file, file.cached, report, hub)
            report(FileDone(file.wanted.file, file.cached, file.size or 0, 0, file.wanted.pinned))
            paths.append(file.cached)
        else:
            paths.append(_Fetch(file, hub, report).run())
    return paths


def _check_cached(file: PlannedFile, path: Path, report: Report, hub: Hub) -> None:
    """A pinned file that another program may have fetched is hashed once. Raises DownloadError if it is not the one."""
    name, expected = file.wanted.file, file.wanted.sha256

    def each(done: int, total: int) -> None:
        if hub.cancelled.is_set():
            raise DownloadCancelled
        report(FileChecking(name, done, total))

    found = sha256_of(path, each) if expected else None
    if found != expected:
        raise DownloadError(
            f"{name} is on this disk, but it is not the file it should be: its sha256 is {str(found)[:12]}…"
            f" instead of {str(expected)[:12]}….",
            f"Remove it with `edgespec models remove {file.wanted.repo}/{name}` and download it again.",
        )


class _Fetch:
    """One file: under a lock, into a partial file, checked, renamed, linked."""

    def __init__(self, file: PlannedFile, hub: Hub, report: Report) -> None:
        if file.remote is None:
            raise ValueError("a file that the Hub was not asked about cannot be fetched")
        self._wanted = file.wanted
        self._remote = file.remote
        self._hub = hub
        self._report = report
        self._sha256: str | None = None
        self._folder = repo_folder(hub.options.cache, file.remote.repo)
        self._blob = self._folder / "blobs" / file.remote.etag
        self._link = self._folder / "snapshots" / file.remote.commit / file.remote.name

    def run(self) -> Path:
        hub, name = self._hub, self._remote.name
        hub.on_wait = lambda seconds, reason: self._report(FileWaiting(name, seconds, reason))
        fetched = 0
        try:
            self._blob.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                self._lock(stack)
                if not self._blob.is_file():
                    fetched = self._fetch()
                self._place()
        except OSError as error:
            raise DownloadError(
                f"{self._folder} cannot be written to: {error.strerror or error}.", "Check the disk."
            ) from error
        if self._sha256 is not None:
            remember(self._link, self._sha256)
        size = self._link.stat().st_size
        self._report(FileDone(name, self._link, size, fetched, self._wanted.pinned))
        return self._link

    def _lock(self, stack: ExitStack) -> None:
        """The lock the Hub's library takes too, so that no two programs fetch the same file twice."""
        from filelock import Timeout
        from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

        path = self._hub.options.cache / ".locks" / self._folder.name / f"{self._remote.etag}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        told = False
        while True:
            try:
                stack.enter_context(WeakFileLock(path, timeout=0.2))
                return
            except Timeout:
                if self._hub.cancelled.is_set():
                    raise DownloadCancelled from None
                if not told:
                    self._report(FileWaiting(self._remote.name, 0, "another program is fetching it"))
                    told = True

    def _fetch(self) -> int:
        path = partial_path(self._hub.options.cache, self._remote)
        self._drop_outdated(path)
        transfer = Transfer(
            self._hub, self._remote, self._wanted.size if self._wanted.size_exact else None, self._report
        )
        with PartialFile(path) as partial:
            transfer.run(partial)
            if self._remote.size is None:
                self._check_end(partial)
            self._verify(partial)
            self._sha256 = partial.sha256
            partial.sync()
        os.replace(path, self._blob)
        return transfer.fetched

    def _drop_outdated(self, path: Path) -> None:
        """Removes beginnings of earlier contents under this name: they can never be finished."""
        for other in path.parent.glob(f"*.{name_digits(self._remote.name)}.incomplete"):
            if other != path:
                other.unlink(missing_ok=True)

    def _check_end(self, partial: PartialFile) -> None:
        """Where nobody said how long the file is, its own header may; what is too short is kept to be continued."""
        if not self._remote.name.endswith(".gguf"):
            return
        try:
            missing = read_header(partial.path).missing_bytes
        except ModelFileError:
            return
        if missing:
            raise Interrupted(
                f"The connection broke while {self._remote.name} was fetched; {format_size(missing)} are missing.",
                "Run the same command again: it continues where it stopped.",
            )

    def _verify(self, partial: PartialFile) -> None:
        """Raises DownloadError, and throws the bytes away, unless hash and GGUF bounds are right."""
        what = f"{self._remote.repo}/{self._remote.name}"
        for expected in (self._wanted.sha256, self._remote.sha256):
            if expected and partial.sha256 != expected:
                found = partial.sha256
                partial.restart()
                raise DownloadError(
                    f"{what} arrived, but it is not the file it should be:"
                    f" its sha256 is {found[:12]}… instead of {expected[:12]}….",
                    "It was thrown away. Try again; if it happens twice, a proxy or the server changes it.",
                )
        if self._remote.name.endswith(".gguf"):
            self._check_gguf(partial, what)

    def _check_gguf(self, partial: PartialFile, what: str) -> None:
        try:
            header = read_header(partial.path)
        except ModelFileError as error:
            reason = error.message.replace(partial.path.name, what)
            partial.restart()
            raise DownloadError(reason, "It was thrown away. " + error.hint) from None
        if header.missing_bytes:
            missing = header.missing_bytes
            partial.restart()
            raise DownloadError(
                f"{what} is {format_size(missing)} shorter than its header says.",
                "It was thrown away: the server's file is damaged, or the connection cuts files off.",
            )

    def _place(self) -> None:
        """Links the checked blob under its real name, and notes which commit the branch stands for."""
        self._link.parent.mkdir(parents=True, exist_ok=True)
        if not self._link.exists():
            self._link.unlink(missing_ok=True)
            try:
                self._link.symlink_to(os.path.relpath(self._blob, self._link.parent))
            except OSError:
                shutil.copyfile(self._blob, self._link)
        if self._remote.asked_revision != self._remote.commit:
            ref = self._folder / "refs" / self._remote.asked_revision
            ref.parent.mkdir(parents=True, exist_ok=True)
            ref.write_text(self._remote.commit, "ascii")
