"""Once files are here: do they hold what their entry promised, and what do they need?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from edgespec.errors import ModelFileError, PairError
from edgespec.models.fit import Estimate, Setup, estimate
from edgespec.models.gguf import CheckedModel, check_file, check_gguf
from edgespec.models.kinds import other_kind
from edgespec.models.pair import check_pair
from edgespec.models.registry import Pair, Registry
from edgespec.models.shape import shape_of
from edgespec.models.units import format_size


@dataclass(frozen=True, slots=True)
class Findings:
    """What the files themselves say.

    Attributes:
        good: sentences on what is as it should be.
        problem: the first thing that is not; None if all is well.
        other_kind: what the file is if it is no language model; only for files that no entry promises to be one.
    """

    target: CheckedModel
    draft: CheckedModel | None
    estimate: Estimate
    good: tuple[str, ...] = ()
    problem: ModelFileError | PairError | None = field(default=None)
    other_kind: str | None = None


def examine(target: Path, draft: Path | None, n_ctx: int, pair: Pair | None = None) -> Findings:
    """Reads the headers of what was downloaded. Raises ModelFileError only where a file is no whole model."""
    checked = check_gguf(target) if pair is None and draft is None else check_file(target)
    companion = check_gguf(draft) if draft is not None else None
    good: list[str] = []
    problem: ModelFileError | PairError | None = None
    spec_type = pair.spec_type if pair else "draft-simple"
    try:
        if pair is not None and pair.embedded and checked.header.head != spec_type:
            raise ModelFileError(
                f"{target.name} carries no {spec_type} head, though its entry promises one.",
                "There are repositories with the same file names and without heads: check the repository.",
            )
        if companion is not None and spec_type == "draft-simple":
            check_pair(checked.header, companion.header)
            good.append("The two vocabularies agree token for token.")
        elif companion is not None and companion.header.head != spec_type:
            raise ModelFileError(f"{companion.path.name} is no {spec_type} head.", "Check the registry's entry.")
        if checked.header.head is not None:
            good.append(f"The target carries a {checked.header.head} head.")
    except (ModelFileError, PairError) as error:
        problem = error
    shapes = shape_of(checked.header, checked.weight_bytes), None if companion is None else shape_of(companion.header)
    needs = estimate(*shapes, Setup(n_ctx=n_ctx))
    good.append(f"Needs about {format_size(needs.total)} of memory at {n_ctx:,} tokens of context.")
    return Findings(checked, companion, needs, tuple(good), problem, other_kind(checked.header))


def why_not(registry: Registry, target: CheckedModel, draft: CheckedModel) -> str | None:
    """What the registry knows about a combination that does not work."""
    for refusal in registry.refusals:
        if refusal.applies(target.path.name, draft.path.name, target.header.architecture, draft.header.architecture):
            return refusal.why
    return None
