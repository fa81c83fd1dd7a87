"""A comparison as files: JSON with every round, and Markdown to read."""

from __future__ import annotations

import json
import re
from pathlib import Path

from edgespec import report
from edgespec.comparison import Comparison
from edgespec_tui.archive import write_whole


def export_comparison(comparison: Comparison, folder: Path) -> tuple[Path, Path]:
    """Write both files into a folder, under names that are free. Raises EdgeSpecError where the disk refuses."""
    slug = re.sub(r"[^\w-]+", "-", comparison.prompts[0].id).strip("-") or "prompt"
    name, number = f"compare-{slug}", 1
    while any((folder / f"{name}.{kind}").exists() for kind in ("json", "md")):
        number += 1
        name = f"compare-{slug}-{number}"
    data, page = folder / f"{name}.json", folder / f"{name}.md"
    write_whole(data, json.dumps(report.to_object(comparison, trace=True), ensure_ascii=False, indent=1) + "\n")
    write_whole(page, report.to_markdown(comparison))
    return data, page
