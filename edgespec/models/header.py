"""What a GGUF says about itself, read without loading a weight and without native code.

The header is checked as strictly as llama.cpp checks it, because where llama.cpp finds a fault it logs a line or ends
the process, and a person needs a sentence.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import ModelFileError
from edgespec.models.ggml_types import FILE_TYPES, GGML_TYPES, GgmlType
from edgespec.models.gguf_reader import HeaderReader, Value
from edgespec.models.imposters import MAGIC, refuse_imposter
from edgespec.models.units import printable
from edgespec.models.vocabulary import Vocabulary, read_vocabulary

_KEPT = ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type")
_MAX_TENSORS = 1_000_000
_MAX_KEYS = 100_000
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where one tensor lies: `offset` counts from the start of the data section."""

    name: str
    shape: tuple[int, ...]
    type: GgmlType
    offset: int
    size: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """The header of one GGUF file.

    Attributes:
        path: the file.
        file_size: its length in bytes.
        version: of the format, 2 or 3.
        metadata: by key; long arrays that nobody asks for are LongArray.
        tensors: in file order.
        data_offset: where tensor data begins.
        alignment: what tensor offsets are multiples of.
        vocabulary: None for files without one (later parts of a split model, heads).
    """

    path: Path
    file_size: int
    version: int
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    data_offset: int
    alignment: int
    vocabulary: Vocabulary | None

    @property
    def architecture(self) -> str:
        """`general.architecture`, "" where it is missing."""
        return self.text("general.architecture")

    @property
    def name(self) -> str:
        """The model's own name, else the file's."""
        return self.text("general.name") or self.path.stem

    @property
    def chat_template(self) -> str | None:
        return self.text("tokenizer.chat_template") or None

    @property
    def context_length(self) -> int:
        """Tokens of context the model was trained for; 0 if the file does not say."""
        return self.number("context_length")

    @property
    def layers(self) -> int:
        return self.number("block_count")

    @property
    def embedding_length(self) -> int:
        return self.number("embedding_length")

    @property
    def nextn_layers(self) -> int:
        """Layers of a head of the model's own that predicts further tokens (MTP); 0 without one."""
        return self.number("nextn_predict_layers")

    @property
    def head(self) -> str | None:
        """The kind of drafting head this file carries or is, as llama.cpp calls it (draft-mtp); None without one."""
        names = {tensor.name for tensor in self.tensors}
        if self.architecture == "dflash":
            return "draft-dspark" if "markov_w1.weight" in names else "draft-dflash"
        if self.architecture == "eagle3":
            return "draft-eagle3"
        if self.architecture == "gemma4-assistant" or (self.nextn_layers and self._has_nextn_tensor(names)):
            return "draft-mtp"
        return None

    def _has_nextn_tensor(self, names: set[str]) -> bool:
        return not names or any(".nextn.eh_proj." in name for name in names)

    @property
    def is_head_only(self) -> bool:
        """True for files that are no model but a drafting head for one."""
        return self.architecture in ("dflash", "eagle3", "gemma4-assistant")

    @property
    def parameters(self) -> int:
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def weight_bytes(self) -> int:
        return sum(tensor.size for tensor in self.tensors)

    @property
    def expected_size(self) -> int:
        """The least length a whole file with this header has."""
        return self.data_offset + max((t.offset + t.size for t in self.tensors), default=0)

    @property
    def missing_bytes(self) -> int:
        """How much shorter the file is than its header says; 0 for a whole file."""
        return max(0, self.expected_size - self.file_size)

    @property
    def quantisation(self) -> str:
        """The recipe the file was made with (Q4_K_M), else the type most of its bytes have."""
        if not self.tensors:
            return "no weights"
        recipe = self.metadata.get("general.file_type")
        if isinstance(recipe, int) and recipe in FILE_TYPES:
            return FILE_TYPES[recipe]
        sizes = self.bytes_by_type
        return max(sizes, key=lambda name: sizes[name])

    @property
    def bytes_by_type(self) -> dict[str, int]:
        sizes: Counter[str] = Counter()
        for tensor in self.tensors:
            sizes[tensor.type.name] += tensor.size
        return dict(sizes.most_common())

    @property
    def split(self) -> tuple[int, int]:
        """Number of this part, from 0, and how many parts the model has; (0, 1) for a whole model."""
        return self.whole("split.no", 0), max(1, self.whole("split.count", 1))

    def whole(self, key: str, default: int = 0) -> int:
        """A whole number under its full key."""
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def number(self, key: str, default: int = 0) -> int:
        """A whole number under `<architecture>.key`; of an array its largest element."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        if isinstance(value, tuple):
            value = max((element for element in value if isinstance(element, int)), default=default)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def numbers(self, key: str, length: int, default: int = 0) -> tuple[int, ...]:
        """`<architecture>.key` for each of `length` layers, whether stored once or per layer."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        if isinstance(value, tuple):
            per_layer = tuple(int(element) for element in value[:length])
            return per_layer + (default,) * (length - len(per_layer))
        return (self.number(key, default),) * length

    def text(self, key: str) -> str:
        """A string under its full key, "" where there is none."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""


def read_header(path: str | Path) -> GgufHeader:
    """The header of the GGUF at `path`, whether or not the rest of the file is there.

    Raises ModelFileError with a sentence for whatever is not a readable GGUF. Cheap enough to run before every load:
    a vocabulary of 262,144 tokens takes a few tenths of a second.
    """
    path = Path(path)
    size = _file_size(path)
    name = printable(path.name)
    try:
        with path.open("rb", buffering=0) as file:
            refuse_imposter(name, size, file.read(512))
            file.seek(0)
            return _parse(HeaderReader(file, size, name), path, size)
    except PermissionError:
        raise ModelFileError(
            f"{printable(path)} may not be read by this user.", "Change its permissions or copy it."
        ) from None
    except OSError as error:
        raise ModelFileError(
            f"{printable(path)} cannot be read: {error.strerror or error}.", "Is the disk or the share still there?"
        ) from error


def _file_size(path: Path) -> int:
    shown = printable(path)
    try:
        if path.is_dir():
            raise ModelFileError(f"{shown} is a folder, not a model file.", "Name the .gguf file inside it.")
        if not path.exists():
            if path.is_symlink():
                raise ModelFileError(f"{shown} is a link to a file that is gone.", "Download the model again.")
            raise ModelFileError(
                f"There is no file {shown}.", "Check the spelling; `edgespec models` lists what is here."
            )
        if not path.is_file():
            raise ModelFileError(
                f"{shown} is not a regular file.", "Models are read from files, not from pipes or devices."
            )
        return os.path.getsize(path)
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{shown} cannot be looked up: {error}.", "Check the path.") from error


def _parse(reader: HeaderReader, path: Path, size: int) -> GgufHeader:
    reader.need(8)
    reader.position = len(MAGIC)
    version = reader.unpack("I")
    _check_version(version, printable(path.name))
    n_tensors, n_keys = reader.unpack("Q"), reader.unpack("Q")
    if n_tensors > _MAX_TENSORS or n_keys > _MAX_KEYS:
        raise reader.damaged(f"it claims {n_tensors:,} tensors and {n_keys:,} keys")
    metadata = _metadata(reader, n_keys)
    tensors = tuple(_tensor(reader) for _ in range(n_tensors))
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise reader.damaged(f"its alignment is {alignment!r}, not a power of 2")
    _check_offsets(reader, tensors, alignment)
    data_offset = _padded(reader.position, alignment) if tensors else reader.position
    return GgufHeader(path, size, version, metadata, tensors, data_offset, alignment, read_vocabulary(metadata))


def _check_version(version: int, name: str) -> None:
    if version & 0xFFFF == 0:
        raise ModelFileError(
            f"{name} was written for big-endian machines.", "Get the usual (little-endian) file of this model."
        )
    if version not in (2, 3):
        raise ModelFileError(
            f"{name} is written in version {version} of GGUF; versions 2 and 3 can be read.",
            "Get a newer conversion of this model." if version < 2 else "A newer EdgeSpec may read it.",
        )


def _metadata(reader: HeaderReader, n_keys: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    for index in range(n_keys):
        key = reader.raw_string(f"the name of key {index + 1}").decode("utf-8", "replace")
        if not key or key in metadata:
            raise reader.damaged(f"key {index + 1} has no name" if not key else f"the key {key} appears twice")
        metadata[key] = reader.value(key, key in _KEPT)
    return metadata


def _tensor(reader: HeaderReader) -> Tensor:
    name = reader.raw_string("a tensor's name").decode("utf-8", "replace")
    if len(name) >= _MAX_NAME:
        raise reader.damaged(f"a tensor's name is {len(name)} characters long")
    n_dims = reader.unpack("I")
    if n_dims > 4:
        raise reader.damaged(f"the tensor {name} has {n_dims:,} dimensions")
    shape = tuple(reader.unpack("Q") for _ in range(n_dims)) or (1,)
    number, offset = reader.unpack("I"), reader.unpack("Q")
    if number not in GGML_TYPES:
        raise ModelFileError(
            f"The tensor {name} has the element type {number}, which this program does not know.",
            "Get another quantisation of this model, or a newer EdgeSpec.",
        )
    kind = GGML_TYPES[number]
    if math.prod(shape) >= 1 << 62 or shape[0] % kind.block:
        raise reader.damaged(f"the tensor {name} has the impossible shape {shape}")
    return Tensor(name, shape, kind, offset, math.prod(shape) // kind.block * kind.size)


def _check_offsets(reader: HeaderReader, tensors: tuple[Tensor, ...], alignment: int) -> None:
    expected = 0
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise reader.damaged(f"the tensor {tensor.name} appears twice")
        if tensor.offset != expected:
            raise reader.damaged(
                f"the tensor {tensor.name} is said to lie at {tensor.offset:,} instead of {expected:,}"
            )
        seen.add(tensor.name)
        expected += _padded(tensor.size, alignment)


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
