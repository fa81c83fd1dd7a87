"""Is a model whole? One file, or all parts of a split one, each as long as its header says.

llama.cpp finds the parts of a split model by name from the first one, so names and the numbers inside must agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import ModelFileError
from edgespec.models.header import GgufHeader, read_header
from edgespec.models.kinds import require_language_model
from edgespec.models.units import format_count, format_size, printable

_PART = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.DOTALL)
_DOWNLOAD_AGAIN = "Download it again; an interrupted `edgespec download` continues where it stopped."


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A model whose files are all there and whole.

    Attributes:
        path: what to load: the file, or the first part of a split model.
        header: of that file.
        parts: every file, in order.
        size: of all of them together.
    """

    path: Path
    header: GgufHeader
    parts: tuple[Path, ...]
    size: int

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights in all parts."""
        if len(self.parts) == 1:
            return self.header.weight_bytes
        return sum(read_header(part).weight_bytes for part in self.parts)


def part_name(stem: str, number: int, count: int) -> str:
    """llama.cpp's name for part `number`, from 1."""
    return f"{stem}-{number:05d}-of-{count:05d}.gguf"


def parse_part(name: str) -> tuple[str, int, int] | None:
    """Stem, number (from 1) and count in the name of a part, None for other names."""
    match = _PART.match(name)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    return (match["stem"], number, count) if 1 <= number <= count else None


def check_file(path: str | Path) -> CheckedModel:
    """The language model at `path`, found whole. Given a later part of a split model, it is the first part that counts.

    Raises ModelFileError naming what is missing: bytes, parts, or the model altogether.
    """
    found = check_gguf(path)
    require_language_model(found.header)
    return found


def check_gguf(path: str | Path) -> CheckedModel:
    """As `check_file`, for whatever a GGUF may hold: heads and projectors too."""
    path = Path(path)
    named = parse_part(path.name)
    if named is not None:
        return _check_parts(path.parent, *named)
    header = read_header(path)
    _, count = header.split
    if count > 1:
        raise _unnamed_part(header)
    _check_length(header)
    return CheckedModel(path, header, (path,), header.file_size)


def _unnamed_part(header: GgufHeader) -> ModelFileError:
    number, count = header.split
    name = printable(header.path.name)
    if number == 0 and header.file_size > header.expected_size + header.alignment:
        return ModelFileError(
            f"{name} seems to be the {count} parts of a split model joined end to end, which is not a model.",
            "Keep the parts as they were downloaded, or join them with `llama-gguf-split --merge`.",
        )
    return ModelFileError(
        f"{name} is part {number + 1} of {count} of a split model, under a name that does not say so.",
        f"Name the parts like {part_name('model', number + 1, count)}, all in one folder, and give the first.",
    )


def _check_parts(folder: Path, stem: str, number: int, count: int) -> CheckedModel:
    parts = tuple(folder / part_name(stem, index, count) for index in range(1, count + 1))
    if not parts[number - 1].exists():
        read_header(parts[number - 1])
    missing = [printable(part.name) for part in parts if not part.exists()]
    if missing:
        raise ModelFileError(
            f"{printable(stem)} is split into {count} parts and {_listed(missing)}"
            f" {'is' if len(missing) == 1 else 'are'} missing from {printable(folder)}.",
            "Download the whole model: all parts belong in one folder.",
        )
    headers = [read_header(part) for part in parts]
    for index, header in enumerate(headers):
        _check_part(header, index, count)
    promised = headers[0].whole("split.tensors.count")
    present = sum(len(header.tensors) for header in headers)
    if promised and promised != present:
        raise ModelFileError(
            f"The parts of {printable(stem)} hold {format_count(present)} tensors where the first one promises"
            f" {format_count(promised)}: they do not belong together.",
            "Download all parts again from one place.",
        )
    return CheckedModel(parts[0], headers[0], parts, sum(header.file_size for header in headers))


def _check_part(header: GgufHeader, index: int, count: int) -> None:
    found, total = header.split
    name = printable(header.path.name)
    if total != count:
        what = "is a whole model" if total == 1 else f"belongs to a model of {total} parts"
        raise ModelFileError(f"{name} {what}, but its name says {count} parts.", "Give it back its own name.")
    if found != index:
        raise ModelFileError(
            f"{name} is named as part {index + 1} but holds part {found + 1} of {count}.",
            "Parts were renamed or mixed up: give them back their own names, or download them again.",
        )
    _check_length(header)


def _check_length(header: GgufHeader) -> None:
    if header.missing_bytes:
        raise ModelFileError(
            f"{printable(header.path.name)} is {format_size(header.missing_bytes)} shorter than its header says"
            f" ({_of(header.file_size, header.expected_size)}).",
            _DOWNLOAD_AGAIN,
        )


def _of(part: int, whole: int) -> str:
    """`10 MB of 98.4 MB`, or to the byte where that would read the same."""
    if format_size(part) == format_size(whole):
        return f"{format_count(part)} of {format_count(whole)} bytes"
    return f"{format_size(part)} of {format_size(whole)}"


def _listed(names: list[str]) -> str:
    shown = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} more"]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
