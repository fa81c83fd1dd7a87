"""models.toml: pairs of models that are known to go together, and files pinned by commit and hash.

A user's own file is merged over the shipped one. Both are read strictly: an unknown key is an error that names file and
key, because a misspelt `sha256` that is quietly ignored would be a check that never happens.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgespec.errors import RegistryError
from edgespec.models.pairs import (
    SPEC_TYPES,
    STATUSES,
    Defaults,
    DraftSettings,
    Licence,
    ModelFile,
    Package,
    Pair,
    Refusal,
    Registry,
    Shape,
)
from edgespec.models.tables import Table

__all__ = [
    "Defaults", "DraftSettings", "Licence", "ModelFile", "Package", "Pair", "Refusal", "Registry", "Shape",
    "load_registry", "merge", "read_registry", "shipped_file", "user_file",
]  # fmt: skip

SCHEMA_VERSION = 1


def shipped_file() -> Path:
    """The registry that came with the program: inside the installed package, else beside it in a source tree."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "models.toml", package.parent / "models.toml"):
        if candidate.is_file():
            return candidate
    raise RegistryError("models.toml is missing from this installation.", "Install EdgeSpec again.")


def user_file() -> Path:
    """Where a person's own pairs are looked for."""
    import platformdirs

    return Path(platformdirs.user_config_path("edgespec")) / "models.toml"


def load_registry(user: Path | None = None) -> Registry:
    """The shipped pairs with the user's merged over them. Raises RegistryError naming file and key."""
    path = user_file() if user is None else user
    shipped = shipped_file()
    stamp = path.stat().st_mtime_ns if path.is_file() else 0
    return _load(shipped, shipped.stat().st_mtime_ns, path if stamp else None, stamp)


@lru_cache(maxsize=8)
def _load(shipped: Path, _shipped_stamp: int, user: Path | None, _user_stamp: int) -> Registry:
    registry = read_registry(shipped)
    return registry if user is None else merge(registry, read_registry(user, base=registry))


def merge(base: Registry, over: Registry) -> Registry:
    """`over` on top of `base`: pairs replace pairs of the same id and follow the others."""
    own = {pair.id: pair for pair in over.pairs}
    pairs = [own.pop(pair.id, pair) for pair in base.pairs]
    return Registry(
        (*pairs, *own.values()), {**base.licences, **over.licences}, base.refusals + over.refusals, over.defaults
    )


def read_registry(path: Path, base: Registry | None = None) -> Registry:
    """One file. `base` supplies licences and defaults that a user's file may lean on."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RegistryError(f"{path} is not valid TOML: {error}.", "Correct the file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RegistryError(f"{path} cannot be read: {error}.", "Check the file, or remove it.") from None
    table = Table(data, path)
    version = table.whole("schema_version", SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        raise RegistryError(
            f"{path} has schema version {version}; this program knows {SCHEMA_VERSION}.", "Update EdgeSpec."
        )
    defaults = _defaults(table.table("defaults"), base)
    licences = {key: _licence(key, entry) for key, entry in table.table("licences").tables()}
    known = {**(base.licences if base else {}), **licences}
    pairs = [_pair(entry, defaults, known) for entry in table.list("pair")]
    refusals = tuple(_refusal(entry) for entry in table.list("refuse"))
    table.done()
    _check_unique(pairs, path)
    return Registry(tuple(pairs), licences, refusals, defaults)


def _check_unique(pairs: Sequence[Pair], path: Path) -> None:
    seen: set[str] = set()
    for pair in pairs:
        if pair.id in seen:
            raise RegistryError(f"{path}: two pairs have the id {pair.id}.", "Rename one of them.")
        seen.add(pair.id)


def _defaults(table: Table, base: Registry | None) -> Defaults:
    fallback = base.defaults if base else Defaults()
    found = Defaults(
        table.whole("n_ctx", fallback.n_ctx, least=1),
        table.text("cache_type_k", fallback.cache_type_k),
        table.text("cache_type_v", fallback.cache_type_v),
        _spec(table.table("spec"), fallback.spec),
    )
    table.done()
    return found


def _licence(key: str, table: Table) -> Licence:
    found = Licence(key, table.text("title", key), table.text("url", ""), table.flag("ask", True))
    table.done()
    return found


def _pair(table: Table, defaults: Defaults, licences: Mapping[str, Licence]) -> Pair:
    id_ = table.text("id")
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", id_):
        raise table.wrong("id", f"{id_!r} is not made of lower-case letters, digits, dots and dashes")
    table.name = f"pair {id_}"
    pair = Pair(
        id=id_,
        title=table.text("title", id_),
        status=table.choice("status", STATUSES, "ok"),
        evidence=table.choice("evidence", ("A", "B", "C"), "C"),
        spec_type=table.choice("spec_type", SPEC_TYPES, "draft-simple"),
        licence=table.choice("licence", tuple(licences)) if licences else table.text("licence"),
        target=_file(table.optional("target")),
        draft=_file(table.optional("draft")),
        package=_package(table.optional("package")),
        embedded=table.flag("embedded", False),
        draft_licence=table.choice("draft_licence", tuple(licences), "") or None,
        gated=table.flag("gated", False),
        task=tuple(table.texts("task")),
        n_ctx_train=table.whole("n_ctx_train", 0) or None,
        draft_n_ctx_train=table.whole("draft_n_ctx_train", 0) or None,
        min_ram_gb=table.whole("min_ram_gb", 0) or None,
        spec=_spec(table.table("spec"), replace(defaults.spec, basis="")),
        shape=_shape(table.optional("shape")),
        draft_shape=_shape(table.optional("draft_shape")),
        note=table.text("note", ""),
    )
    table.done()
    _check_pair(pair, table)
    return pair


def _check_pair(pair: Pair, table: Table) -> None:
    if (pair.target is None) == (pair.package is None):
        raise table.wrong("target", "an entry needs either a target or a package")
    alone = pair.embedded or pair.spec_type == "none" or pair.package is not None
    if alone and pair.draft is not None:
        raise table.wrong("draft", "an entry without a draft model of its own has one")
    if not alone and pair.draft is None:
        raise table.wrong("draft", f"{pair.spec_type} needs one unless `embedded = true`")


def _file(table: Table | None) -> ModelFile | None:
    if table is None:
        return None
    file = ModelFile(
        repo=table.matching("repo", r"[\w.-]+/[\w.-]+", "user/repo"),
        file=table.matching("file", r"[^\\]+\.gguf", "the path of a .gguf"),
        quant=table.text("quant", ""),
        revision=table.matching("revision", r"[0-9a-f]{40}", "a commit of 40 hexadecimal digits", "") or None,
        size=table.whole("size", 0) or None,
        size_exact=table.flag("size_exact", True),
        sha256=table.matching("sha256", r"[0-9a-f]{64}", "64 hexadecimal digits", "") or None,
    )
    table.done()
    if ".." in file.file.split("/") or file.file.startswith("/"):
        raise table.wrong("file", "it leads out of its repository")
    return file


def _package(table: Table | None) -> Package | None:
    if table is None:
        return None
    hexadecimal = "64 hexadecimal digits"
    package = Package(
        table.text("module"), table.text("extra"), table.text("file"), table.whole("size"),
        table.matching("sha256", r"[0-9a-f]{64}", hexadecimal),
    )  # fmt: skip
    table.done()
    return package


def _spec(table: Table, fallback: DraftSettings) -> DraftSettings:
    found = DraftSettings(
        table.whole("n_max", fallback.n_max),
        table.whole("n_min", fallback.n_min),
        table.real("p_min", fallback.p_min),
        table.text("basis", fallback.basis),
    )
    table.done()
    return found


def _shape(table: Table | None) -> Shape | None:
    if table is None:
        return None
    names = ("layers", "kv_heads", "head_dim", "window", "global_every", "vocab", "mtp_layers")
    values: dict[str, Any] = {name: table.whole(name, 0) for name in names}
    kv_layers = table.whole("kv_layers", -1, least=-1)
    table.done()
    return Shape(**values, kv_layers=None if kv_layers < 0 else kv_layers)


def _refusal(table: Table) -> Refusal:
    keys = ("target_arch", "draft_arch", "target_match", "draft_match")
    found = Refusal(table.text("why"), **{key: table.text(key, "").lower() for key in keys})
    table.done()
    return found
