"""What was learned about a set of models on this machine, kept in the cache folder from one start to the next.

One small file for each target and draft model, llama.cpp library, processor and way of loading: whatever changes the
price of a pass. Deleting it, or the folder `costs`, makes EdgeSpec measure again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from edgespec.decoding.acceptance import Acceptance
from edgespec.decoding.cost import CostModel
from edgespec.engine.messages import LoadOptions
from edgespec.engine.safemode import cache_folder, fingerprint

VERSION = 2
MOST_KINDS = 24
"""Ways of sampling whose acceptance is kept, the latest ones."""


class Knowledge:
    """Costs of passes, and how often drafts are right, by the way of sampling.

    Attributes:
        costs: what passes cost; assumptions as long as nothing was measured.
    """

    def __init__(self, path: Path | None) -> None:
        self.costs = CostModel()
        self._path = path
        self._acceptance: dict[str, Acceptance] = {}

    def acceptance(self, kind: str) -> Acceptance:
        """What is known for this way of sampling."""
        found = self._acceptance.pop(kind, None) or Acceptance()
        self._acceptance[kind] = found  # the latest is the last
        while len(self._acceptance) > MOST_KINDS:
            del self._acceptance[next(iter(self._acceptance))]
        return found

    @classmethod
    def load(cls, path: Path | None) -> Knowledge:
        """What the file holds; nothing is known if there is none, or none that makes sense."""
        knowledge = cls(path)
        if path is None:
            return knowledge
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, dict) or data.get("version") != VERSION:
                raise ValueError("another version")
            costs = CostModel.from_json(data["costs"])
            acceptance = {str(kind): Acceptance.from_json(part) for kind, part in data["acceptance"].items()}
        except FileNotFoundError:
            return knowledge
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"{path} is not usable and was ignored: {error!r}", file=sys.stderr)
            return knowledge
        knowledge.costs, knowledge._acceptance = costs, acceptance
        return knowledge

    def save(self) -> None:
        """Write the file anew; a failure is noted in the log, since nothing but time depends on it."""
        if self._path is None or not self.costs.calibrated:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._to_json(), file)
            os.replace(name, self._path)
        except OSError as error:
            print(f"{self._path} could not be written: {error.strerror}", file=sys.stderr)

    def _to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "costs": self.costs.to_json(),
            "acceptance": {kind: part.to_json() for kind, part in self._acceptance.items()},
        }


def knowledge_path(options: LoadOptions, threads: int) -> Path:
    """The file for these models, loaded in this way, on this machine."""
    facts = (
        _identity(options.target), _identity(options.draft), fingerprint(), options.gpu_layers, threads,
        options.cache_type_k, options.cache_type_v, options.flash_attention, options.kernels,
        options.safe_mode,
        options.draft_cache_type, options.draft_gpu_layers,
    )  # fmt: skip
    name = hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
    return cache_folder() / "costs" / f"{name}.json"


def _identity(file: str | None) -> tuple[str, int, int] | None:
    """A file as it is now: the same name with another content is another model."""
    if file is None:
        return None
    path = Path(file).resolve()
    status = path.stat()
    return str(path), status.st_size, status.st_mtime_ns
