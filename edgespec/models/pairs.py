"""Values of the registry: pairs, their files, licences, refusals. Read from models.toml by `registry`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from edgespec.models.quant import parse_file_name

STATUSES = ("recommended", "ok", "experimental", "test")
SPEC_TYPES = ("none", "draft-simple", "draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark")
RUNNABLE_SPEC_TYPES = ("none", "draft-simple")
"""What this version can run; the other types need drafters that read hidden states."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file on the Hub, as sure as is known.

    Attributes:
        revision: full commit; None fetches `main` and says so.
        size: bytes; only an estimate where `size_exact` is false or there is no hash.
        sha256: None means "not pinned".
    """

    repo: str
    file: str
    quant: str = ""
    revision: str | None = None
    size: int | None = None
    size_exact: bool = True
    sha256: str | None = None

    @property
    def pinned(self) -> bool:
        return self.sha256 is not None

    @property
    def parts(self) -> list[str]:
        """Names of all files: one, or every part of a split model."""
        name = parse_file_name(self.file)
        if name is None or name.count <= 1:
            return [self.file]
        return [f"{name.prefix}-{i:05d}-of-{name.count:05d}.gguf" for i in range(1, name.count + 1)]


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """Draft lengths people report for a pair. `basis` says where the numbers come from."""

    n_max: int = 3
    n_min: int = 0
    p_min: float = 0.0
    basis: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a memory estimate needs to know of a model before its file is here. 0 is unknown.

    Attributes:
        layers: in all.
        kv_layers: of those, with a cache that grows (hybrid models have fewer); None for all.
        kv_heads, head_dim: of the cache.
        window: of sliding-window layers; 0 without.
        global_every: every n-th layer sees everything.
        mtp_layers: layers of an embedded head.
    """

    layers: int = 0
    kv_layers: int | None = None
    kv_heads: int = 0
    head_dim: int = 0
    window: int = 0
    global_every: int = 0
    vocab: int = 0
    mtp_layers: int = 0


@dataclass(frozen=True, slots=True)
class Package:
    """A model that a Python package brings: the extra that installs it and the file inside."""

    module: str
    extra: str
    file: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Licence:
    """`ask`: terms that a person should have seen before the first download."""

    id: str
    title: str
    url: str
    ask: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """One entry: a target, and its draft model, or the head inside or beside it, or nothing."""

    id: str
    title: str
    status: str
    evidence: str
    spec_type: str
    licence: str
    target: ModelFile | None = None
    draft: ModelFile | None = None
    package: Package | None = None
    embedded: bool = False
    draft_licence: str | None = None
    gated: bool = False
    task: tuple[str, ...] = ()
    n_ctx_train: int | None = None
    draft_n_ctx_train: int | None = None
    min_ram_gb: int | None = None
    spec: DraftSettings = field(default_factory=DraftSettings)
    shape: Shape | None = None
    draft_shape: Shape | None = None
    note: str = ""

    @property
    def files(self) -> list[ModelFile]:
        return [file for file in (self.target, self.draft) if file is not None]

    @property
    def size(self) -> int | None:
        """Bytes of all files, None if one is unknown."""
        if self.package is not None:
            return self.package.size
        sizes = [file.size for file in self.files]
        return sum(size for size in sizes if size is not None) if None not in sizes else None

    @property
    def runnable(self) -> bool:
        """Whether this version drafts with it; the target alone always runs."""
        return self.spec_type in RUNNABLE_SPEC_TYPES

    @property
    def licences(self) -> list[str]:
        """Ids of the licences of its files."""
        return list(dict.fromkeys(name for name in (self.licence, self.draft_licence) if name))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A combination known not to work. Architectures or parts of names; `why` is shown."""

    why: str
    target_arch: str = ""
    draft_arch: str = ""
    target_match: str = ""
    draft_match: str = ""

    def applies(self, target: str, draft: str, target_arch: str = "", draft_arch: str = "") -> bool:
        """Whether it speaks of these names and architectures."""
        pairs = ((self.target_arch, target_arch), (self.draft_arch, draft_arch))
        if any(wanted and wanted != found for wanted, found in pairs):
            return False
        names = ((self.target_match, target), (self.draft_match, draft))
        return all(not part or part in name.lower() for part, name in names)


@dataclass(frozen=True, slots=True)
class Defaults:
    n_ctx: int = 4096
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    spec: DraftSettings = field(default_factory=DraftSettings)


@dataclass(frozen=True, slots=True)
class Registry:
    """All pairs in file order, a user's own after the shipped ones unless they replace one."""

    pairs: tuple[Pair, ...]
    licences: Mapping[str, Licence]
    refusals: tuple[Refusal, ...] = ()
    defaults: Defaults = field(default_factory=Defaults)

    def find(self, id: str) -> Pair | None:  # noqa: A002
        return next((pair for pair in self.pairs if pair.id == id), None)

    def suggestions(self, text: str) -> list[str]:
        """Ids that look like what was typed."""
        return difflib.get_close_matches(text, [pair.id for pair in self.pairs], n=2, cutoff=0.6)

    def licence(self, id: str) -> Licence:  # noqa: A002
        return self.licences.get(id) or Licence(id, id, "", True)

    def to_ask(self, pair: Pair) -> list[Licence]:
        """Licences of a pair that a person should have seen."""
        found = [self.licence(name) for name in pair.licences]
        return [licence for licence in found if licence.ask]
