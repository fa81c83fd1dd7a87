"""One thing that `edgespec doctor` found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How a finding is to be taken."""

    GOOD = "good"
    NOTE = "note"
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: a word for it, the same in every run.
        value: what was found, one sentence.
        advice: what to do, "" if nothing.
        facts: the same in numbers and names, for scripts.
    """

    name: str
    status: Status
    value: str
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
