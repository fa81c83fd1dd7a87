"""Which file of a repository `user/repo:QUANT` means, by llama.cpp's rules, so that both programs agree.

A tag is found anywhere in a path as `TAG.` or `TAG-`, ignoring case; without a tag Q4_K_M, then Q8_0, then the first
model counts. Projectors, importance matrices and drafting heads are told by words in their names and are no models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

NOT_MODELS = ("mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-")
"""Words in a file's name, in this case only, that make it something other than a model."""
DEFAULT_TAGS = ("Q4_K_M", "Q8_0")
HEAD_WORDS = {"draft-mtp": "mtp-", "draft-eagle3": "eagle3-", "draft-dflash": "dflash-", "draft-dspark": "dspark-"}

_PART = re.compile(r"^(.+)-([0-9]{5})-of-([0-9]{5})$", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"[-.]([A-Z0-9_]+)$", re.IGNORECASE)
_REFERENCE = re.compile(r"^(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<tag>[\w.-]+)|/(?P<file>.+\.gguf))?$")
_ADDRESS = re.compile(r"^(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/|/tree/[^/]+/?$")
_PLACE = re.compile(r"^([^/]+/[^/]+)/(?:blob|resolve|raw)/[^/]+/")


@dataclass(frozen=True, slots=True)
class Reference:
    """`user/repo`, `user/repo:QUANT` or `user/repo/path/file.gguf`; `tag` or `file` is "" where not given."""

    repo: str
    tag: str = ""
    file: str = ""

    def __str__(self) -> str:
        return f"{self.repo}:{self.tag}" if self.tag else f"{self.repo}/{self.file}" if self.file else self.repo


@dataclass(frozen=True, slots=True)
class FileName:
    """What a path in a repository says: the part of it before shard numbers, its tag, its shard."""

    prefix: str
    tag: str
    index: int
    count: int


def parse_reference(text: str) -> Reference | None:
    """The repository reference in `text`, or in an address copied from a browser; None if it does not look like one."""
    text = _ADDRESS.sub("", text)
    match = _REFERENCE.match(_PLACE.sub(r"\1/", text.removesuffix("?download=true")))
    if match is None or ".." in text:
        return None
    return Reference(match["repo"], match["tag"] or "", match["file"] or "")


def parse_file_name(path: str) -> FileName | None:
    """The parts of a GGUF's path; None for other files."""
    if not path.endswith(".gguf"):
        return None
    prefix, index, count = path[: -len(".gguf")], 1, 1
    part = _PART.match(prefix)
    if part is not None:
        prefix, index, count = part[1], int(part[2]), int(part[3])
    tag = _TAG.search(prefix)
    return FileName(prefix, tag[1].upper() if tag else "", index, count)


def is_model(path: str) -> bool:
    """True for GGUFs that are models of their own."""
    name = path.rsplit("/", 1)[-1]
    return path.endswith(".gguf") and not any(word in name for word in NOT_MODELS)


def choose_model(files: Sequence[str], tag: str = "") -> str | None:
    """The file that `tag` means in this listing, its first part if it is split; None if there is none."""
    for wanted in (tag,) if tag else DEFAULT_TAGS:
        matching = matches(files, wanted)
        if matching:
            return matching[0]
    if tag:
        return None
    return next((path for path in files if _is_first_part(path)), None)


def matches(files: Sequence[str], tag: str) -> list[str]:
    """All models that carry `tag`, first parts only, in the order of the listing."""
    pattern = re.compile(re.escape(tag) + "[.-]", re.IGNORECASE)
    return [path for path in files if _is_first_part(path) and pattern.search(path)]


def all_parts(files: Sequence[str], path: str) -> list[str]:
    """Every part of the model that `path` is part of, in order."""
    name = parse_file_name(path)
    if name is None or name.count <= 1:
        return [path]
    parts = []
    for other in files:
        found = parse_file_name(other)
        if found is not None and (found.prefix, found.count) == (name.prefix, name.count):
            parts.append(other)
    return sorted(parts)


def choose_head(files: Sequence[str], model: str | None, word: str, tag: str = "") -> str | None:
    """The head whose name contains `word` that goes best with `model`.

    It lies in the model's folder or one above, the nearest first; then counts the same tag, then the nearest bit width.
    """
    folders = model.split("/")[:-1] if model else []
    bits = _bits(tag) if tag else _bits_of_file(model or "")
    best: tuple[tuple[int, bool, int], str] | None = None
    for path in files:
        above = path.split("/")[:-1]
        if not path.endswith(".gguf") or word not in path or above != folders[: len(above)]:
            continue
        exact = bool(tag) and f"-{tag}.".upper() in path.upper()
        rank = (-len(above), not exact, abs(_bits_of_file(path) - bits))
        if best is None or rank < best[0]:
            best = rank, path
    return best[1] if best else None


def tags(files: Sequence[str]) -> list[str]:
    """The tags of all models in a listing, for a message; a file without one is listed whole."""
    found: dict[str, None] = {}
    for path in files:
        name = parse_file_name(path)
        if name is not None and _is_first_part(path):
            found.setdefault(name.tag or path)
    return list(found)


def _is_first_part(path: str) -> bool:
    name = parse_file_name(path)
    return name is not None and is_model(path) and (name.count <= 1 or name.index == 1)


def _bits_of_file(path: str) -> int:
    name = parse_file_name(path)
    return _bits(name.tag) if name else 0


def _bits(tag: str) -> int:
    digits = re.search(r"\d+", tag)
    return int(digits[0]) if digits else 0
