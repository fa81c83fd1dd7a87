"""Takes models off the disk without taking them from another pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import ModelFileError
from edgespec.models.cache import cached_files, find_cached, repo_folder
from edgespec.models.catalogue import Here, presence
from edgespec.models.quant import all_parts, choose_model, parse_reference
from edgespec.models.registry import ModelFile, Pair, Registry


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """What would go and what would stay.

    Attributes:
        paths: links in the cache that would be removed, with what only they refer to.
        kept: files that stay, with the pair that uses them.
        freed: bytes.
    """

    paths: tuple[Path, ...]
    kept: tuple[tuple[str, str], ...]
    freed: int


def plan_removal(spec: str, registry: Registry, root: Path) -> RemovalPlan:
    """What removing a pair's id or a reference means. Raises ModelFileError if nothing of it is here."""
    pair = registry.find(spec)
    if pair is not None and pair.package is not None:
        raise ModelFileError(
            f"{spec} belongs to a Python package.",
            f"Remove it with `pip uninstall {pair.package.module.replace('_', '-')}`.",
        )
    paths, kept = _of_pair(pair, registry, root) if pair is not None else (_of_reference(spec, root), [])
    if not paths and not kept:
        raise ModelFileError(f"Nothing of {spec} is on this disk.", "`edgespec models` lists what is here.")
    return RemovalPlan(tuple(paths), tuple(kept), _freed(paths, root))


def _of_pair(pair: Pair, registry: Registry, root: Path) -> tuple[list[Path], list[tuple[str, str]]]:
    paths: list[Path] = []
    kept: list[tuple[str, str]] = []
    for file in pair.files:
        here = [path for name in file.parts if (path := find_cached(root, file.repo, name, file.revision))]
        user = _user_of(file, pair, registry, root)
        if here and user is not None:
            kept.append((file.file, user.id))
        else:
            paths.extend(here)
    return paths, kept


def _user_of(file: ModelFile, pair: Pair, registry: Registry, root: Path) -> Pair | None:
    """Another pair, whole on this disk, that needs the file."""
    for other in registry.pairs:
        uses = any((used.repo, used.file) == (file.repo, file.file) for used in other.files)
        if other.id != pair.id and uses and presence(other, root) is Here.ALL:
            return other
    return None


def _of_reference(spec: str, root: Path) -> list[Path]:
    reference = parse_reference(spec)
    if reference is None:
        raise ModelFileError(
            f"{spec} is neither a pair nor user/repo:QUANT.", "Files outside the cache are yours to delete."
        )
    files = {file.name: file.path for file in cached_files(root, reference.repo)}
    name = reference.file or choose_model(list(files), reference.tag)
    if name not in files:
        return []
    return [files[part] for part in all_parts(list(files), name)]


def _strategy(paths: Sequence[Path], root: Path):  # type: ignore[no-untyped-def]
    """The Hub library's own plan for deleting these: it knows which contents several names share."""
    from huggingface_hub import scan_cache_dir

    info = scan_cache_dir(root)
    wanted = set(paths)
    files = [
        file
        for repo in info.repos
        for revision in repo.revisions
        for file in revision.files
        if file.file_path in wanted
    ]
    return info.delete_files(*files)


def _freed(paths: Sequence[Path], root: Path) -> int:
    return int(_strategy(paths, root).expected_freed_size) if paths else 0


def remove(plan: RemovalPlan, root: Path) -> None:
    """Does it. Empty folders of snapshots go too."""
    if not plan.paths:
        return
    _strategy(plan.paths, root).execute()
    for path in plan.paths:
        folder = path.parent
        while folder.parent.name != "snapshots" and folder != root and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def leftovers(root: Path, repos: Sequence[str]) -> list[Path]:
    """Beginnings of interrupted downloads of these repositories."""
    return [path for repo in repos for path in repo_folder(root, repo).glob("blobs/*.incomplete")]
