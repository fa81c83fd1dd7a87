"""Models on this disk: in the Hub's cache, in folders, and in the stores of Ollama and LM Studio.

Other programs' stores are read, never written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import ModelFileError
from edgespec.models.cache import cache_root, cached_files, cached_repos
from edgespec.models.gguf import CheckedModel, check_gguf
from edgespec.models.quant import is_model, parse_file_name
from edgespec.models.resolve import default_model
from edgespec.models.shards import parse_part

_OLLAMA_MODEL = "application/vnd.ollama.image.model"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model found, whole or not.

    Attributes:
        spec: what to type to use it.
        path: the file, or the first part.
        source: hub, folder, ollama, lm-studio or package.
        model: what its header says; None if there is a problem.
        problem: why it cannot be used.
    """

    spec: str
    path: Path
    source: str
    size: int
    model: CheckedModel | None
    problem: str | None


def inventory(root: Path | None = None, folders: Iterable[Path] = (), *, others: bool = True) -> list[LocalModel]:
    """Everything found, each model once, parts of a split model as one."""
    found: list[LocalModel] = []
    demo = default_model()
    if demo is not None:
        found.append(_examined("demo", demo, "package"))
    found.extend(_in_cache(root or cache_root()))
    for folder in folders:
        found.extend(_in_folder(folder, "folder"))
    if others:
        for folder in lm_studio_folders():
            found.extend(_in_folder(folder, "lm-studio"))
        found.extend(_in_ollama(ollama_folder()))
    return found


def lm_studio_folders(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Where LM Studio keeps models, of its new and its old layout."""
    home = Path(environment.get("HOME") or Path.home())
    return [path for path in (home / ".lmstudio/models", home / ".cache/lm-studio/models") if path.is_dir()]


def ollama_folder(environment: Mapping[str, str] = os.environ) -> Path:
    return Path(environment.get("OLLAMA_MODELS") or Path(environment.get("HOME") or Path.home()) / ".ollama/models")


def _examined(spec: str, path: Path, source: str) -> LocalModel:
    try:
        model = check_gguf(path)
    except ModelFileError as error:
        size = path.stat().st_size if path.is_file() else 0
        return LocalModel(spec, path, source, size, None, error.message)
    return LocalModel(spec, model.path, source, model.size, model, None)


def _in_cache(root: Path) -> Iterator[LocalModel]:
    for repo in cached_repos(root):
        files = {file.name: file.path for file in cached_files(root, repo) if file.name.endswith(".gguf")}
        for name in _one_of_each(files):
            yield _examined(_hub_spec(repo, name, list(files)), files[name], "hub")


def _hub_spec(repo: str, name: str, names: list[str]) -> str:
    """The short form where it is certain to mean this file, else the long one."""
    parsed = parse_file_name(name)
    same = [other for other in names if (found := parse_file_name(other)) and parsed and found.tag == parsed.tag]
    certain = parsed is not None and parsed.tag and is_model(name) and len({_stem(other) for other in same}) == 1
    return f"{repo}:{parsed.tag}" if certain and parsed is not None else f"{repo}/{name}"


def _stem(name: str) -> str:
    parsed = parse_file_name(name)
    return parsed.prefix if parsed else name


def _one_of_each(names: Iterable[str]) -> list[str]:
    """Every model once: the first part that is there stands for a split one."""
    seen: dict[str, str] = {}
    for name in sorted(names):
        seen.setdefault(_stem(name), name)
    return list(seen.values())


def _in_folder(folder: Path, source: str) -> Iterator[LocalModel]:
    seen: set[tuple[Path, str]] = set()
    for path in sorted(_ggufs(folder)):
        part = parse_part(path.name)
        key = path.parent, part[0] if part else path.name
        if key not in seen:
            seen.add(key)
            yield _examined(str(path), path, source)


def _ggufs(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names if name.endswith(".gguf"))


def _in_ollama(folder: Path) -> Iterator[LocalModel]:
    manifests = folder / "manifests"
    for path in sorted(manifests.rglob("*")) if manifests.is_dir() else ():
        blob = _ollama_blob(path, folder / "blobs") if path.is_file() else None
        if blob is not None:
            yield _examined(str(blob), blob, f"ollama ({path.parent.name}:{path.name})")


def _ollama_blob(manifest: Path, blobs: Path) -> Path | None:
    try:
        layers = json.loads(manifest.read_text("utf-8"))["layers"]
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == _OLLAMA_MODEL]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    path = blobs / str(digests[0]).replace(":", "-") if digests else None
    return path if path is not None and path.is_file() else None
