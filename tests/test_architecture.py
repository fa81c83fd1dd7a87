"""The walls between rooms, as a fresh interpreter sees them. import-linter checks the import graph itself."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

HEAVY = {"textual", "rich", "llama_cpp", "huggingface_hub", "jinja2", "gguf"}


def modules_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after this statement."""
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(json.loads(output.splitlines()[-1]))


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import edgespec", HEAVY | {"numpy", "click"}),
        ("import edgespec.engine.client", HEAVY),
        ("import edgespec.decoding.speculate", HEAVY),
        ("import edgespec.cli.main", HEAVY | {"numpy"}),
        ("import edgespec_tui.app", {"llama_cpp", "huggingface_hub", "gguf"}),
        ("import edgespec.models.gguf, edgespec.models.pair, edgespec.models.resolve", HEAVY),
    ],
)
def test_importing_a_room_loads_only_what_it_needs(statement: str, forbidden: set[str]) -> None:
    assert modules_after(statement) & forbidden == set()


def test_help_answers_quickly() -> None:
    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "edgespec.cli.main", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Processor time, best of several: other load on the machine must not decide.
    assert min(cpu_seconds() for _ in range(5)) < 0.3
