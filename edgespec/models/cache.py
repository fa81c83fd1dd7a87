"""The Hugging Face cache on disk, shared with every other program that uses the Hub.

Looking things up needs only the folder layout, so nothing heavy is imported here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_COMMIT = re.compile(r"^[0-9a-f]{40}$")


def cache_root(environment: Mapping[str, str] | None = None) -> Path:
    """Where models from the Hub are kept: the first of the variables that llama.cpp and the Hub's library know."""
    env = os.environ if environment is None else environment
    for name, below in (
        ("LLAMA_CACHE", ""), ("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
    ):  # fmt: skip
        if env.get(name):
            return Path(env[name]).expanduser() / below
    return Path.home() / ".cache" / "huggingface" / "hub"


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file of a repository as the cache holds it.

    Attributes:
        name: path inside the repository.
        path: the link in the snapshot's folder, under the name the file really has.
        commit: the snapshot.
    """

    repo: str
    name: str
    path: Path
    commit: str


def repo_folder(root: Path, repo: str) -> Path:
    return root / ("models--" + repo.replace("/", "--"))


def snapshots(root: Path, repo: str) -> list[str]:
    """Commits of which something is cached: the one `main` points to first, then the most recent."""
    folder = repo_folder(root, repo)
    try:
        commits = [entry for entry in (folder / "snapshots").iterdir() if entry.is_dir()]
    except OSError:
        return []
    commits.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    names = [entry.name for entry in commits]
    main = _read_ref(folder / "refs" / "main")
    return sorted(names, key=lambda name: name != main)


def _read_ref(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""


def cached_files(root: Path, repo: str, commit: str | None = None) -> list[CachedFile]:
    """Files of `repo` that are really there, of one commit or of all, the preferred commit first."""
    found: dict[str, CachedFile] = {}
    for name in snapshots(root, repo):
        if commit is not None and name != commit:
            continue
        folder = repo_folder(root, repo) / "snapshots" / name
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder).as_posix()
            if path.is_file() and inside not in found:
                found[inside] = CachedFile(repo, inside, path, name)
    return list(found.values())


def find_cached(root: Path, repo: str, name: str, revision: str | None = None) -> Path | None:
    """`name` of `repo` in the cache. A full commit is looked for exactly; without one any commit will do."""
    pinned = revision if revision and _COMMIT.match(revision) else None
    for commit in [pinned] if pinned else snapshots(root, repo):
        path = repo_folder(root, repo) / "snapshots" / commit / name
        if path.is_file():
            return path
    return None


def cached_repos(root: Path) -> list[str]:
    """Every repository with anything in the cache, by name."""
    try:
        folders = sorted(entry.name for entry in root.iterdir() if entry.name.startswith("models--"))
    except OSError:
        return []
    return [name.removeprefix("models--").replace("--", "/", 1) for name in folders]
