"""Compares models.toml with the Hub, and says what changed; `--write` takes over what was unknown.

Needs the network. For every file: is it there, is its commit known, are size and sha256 what the registry says, is the
repository gated, which licence does it name? With `--headers` the first megabytes are read too: architecture,
context length, drafting head, layers. Exit code 1 if anything that is pinned differs.

    python scripts/check_registry.py [--pair ID]... [--headers] [--write]
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from edgespec.errors import EdgeSpecError
from edgespec.models.header import GgufHeader, read_header
from edgespec.models.hub import Hub, HubOptions, RemoteFile
from edgespec.models.registry import ModelFile, Pair, read_registry, shipped_file

HEADER_BYTES = 32 * 1024 * 1024


@dataclass
class Report:
    """What was found for one pair: changes fail the run, unknown values can be filled in."""

    pair: str
    changes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fill: list[tuple[ModelFile, RemoteFile]] = field(default_factory=list)


def check_file(file: ModelFile, hub: Hub, report: Report) -> RemoteFile | None:
    """One file against the Hub."""
    what = f"{file.repo}/{file.file}"
    try:
        remote = hub.file(file.repo, file.file, file.revision)
    except EdgeSpecError as error:
        report.changes.append(f"{what}: {error.message}")
        return None
    if file.sha256 and remote.sha256 and file.sha256 != remote.sha256:
        report.changes.append(f"{what}: sha256 is {remote.sha256}, the registry has {file.sha256}")
    if file.size and file.size_exact and remote.size is not None and file.size != remote.size:
        report.changes.append(f"{what}: {remote.size:,} bytes, the registry has {file.size:,}")
    if not (file.sha256 and file.revision and file.size and file.size_exact):
        report.fill.append((file, remote))
        report.notes.append(f"{what}: commit {remote.commit}, sha256 {remote.sha256}, {remote.size} bytes")
    return remote


def check_repository(file: ModelFile, pair: Pair, hub: Hub, report: Report) -> None:
    """Gating and licence of the repository."""
    try:
        repository = hub.repository(file.repo, file.revision)
    except EdgeSpecError as error:
        report.changes.append(f"{file.repo}: {error.message}")
        return
    if repository.gated != pair.gated:
        report.changes.append(f"{file.repo}: gated is {repository.gated}, the registry has {pair.gated}")
    expected = pair.draft_licence if file is pair.draft and pair.draft_licence else pair.licence
    if repository.licence and repository.licence != expected:
        report.notes.append(f"{file.repo}: names the licence {repository.licence}, the registry has {expected}")


def fetch_header(remote: RemoteFile, options: HubOptions) -> GgufHeader:
    """The header of a file on the Hub, from its first megabytes."""
    from huggingface_hub import get_session, hf_hub_url

    url = hf_hub_url(remote.repo, remote.name, revision=remote.commit, endpoint=options.endpoint)
    headers = {"Range": f"bytes=0-{HEADER_BYTES - 1}"}
    if options.token:
        headers["authorization"] = f"Bearer {options.token}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, remote.name.rsplit("/", 1)[-1])
        with get_session().stream("GET", url, headers=headers, timeout=60) as response, path.open("wb") as out:
            for block in response.iter_raw():
                out.write(block)
                if out.tell() >= HEADER_BYTES:
                    break
        return read_header(path)


def check_header(pair: Pair, file: ModelFile, remote: RemoteFile, options: HubOptions, report: Report) -> None:
    """Facts of the entry against the file's own header."""
    header = fetch_header(remote, options)
    what = f"{file.repo}/{file.file}"
    if remote.size is not None and header.expected_size > remote.size:
        report.changes.append(f"{what}: its header wants {header.expected_size:,} bytes, it has {remote.size:,}")
    if file is pair.target and pair.embedded and header.head != pair.spec_type:
        report.changes.append(f"{what}: head {header.head}, the registry promises {pair.spec_type}")
    shape, trained = (
        (pair.shape, pair.n_ctx_train) if file is pair.target else (pair.draft_shape, pair.draft_n_ctx_train)
    )
    if trained and header.context_length and trained != header.context_length:
        report.notes.append(f"{what}: trained for {header.context_length:,} tokens, the registry has {trained:,}")
    if shape and shape.layers and header.layers not in (shape.layers, shape.layers + shape.mtp_layers):
        report.changes.append(f"{what}: {header.layers} layers, the registry has {shape.layers}")
    if shape and shape.vocab and header.vocabulary and len(header.vocabulary) != shape.vocab:
        report.changes.append(f"{what}: {len(header.vocabulary):,} tokens, the registry has {shape.vocab:,}")


def check_pair(pair: Pair, hub: Hub, headers: bool) -> Report:
    """Everything about one entry."""
    report = Report(pair.id)
    for file in pair.files:
        remote = check_file(file, hub, report)
        check_repository(file, pair, hub, report)
        if headers and remote is not None:
            try:
                check_header(pair, file, remote, hub.options, report)
            except EdgeSpecError as error:
                report.changes.append(f"{file.repo}/{file.file}: {error.message}")
    return report


def filled(text: str, file: ModelFile, remote: RemoteFile) -> str:
    """The registry's text with what was unknown about this file; what is pinned is never touched."""

    def complete(match: re.Match[str]) -> str:
        entry = match[0]
        if file.sha256 is None and remote.sha256:
            entry = entry.replace(" }", f', sha256 = "{remote.sha256}" }}')
        if remote.size is not None and not (file.size and file.size_exact):
            entry = re.sub(r", size_exact = false", "", re.sub(r", size = \d+", "", entry))
            entry = entry.replace(" }", f", size = {remote.size} }}")
        if file.revision is None:
            entry = entry.replace(" }", f', revision = "{remote.commit}" }}')
        return entry

    return re.sub(rf'\{{ repo = "{re.escape(file.repo)}", file = "{re.escape(file.file)}"[^}}]* \}}', complete, text)


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 all as pinned, 1 something changed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--registry", type=Path, default=None, help="another models.toml")
    parser.add_argument("--pair", action="append", help="only this pair (repeatable)")
    parser.add_argument("--headers", action="store_true", help="read the beginning of every file too")
    parser.add_argument("--write", action="store_true", help="write what was unknown into the file")
    options = parser.parse_args(arguments)
    path = options.registry or shipped_file()
    hub = Hub(HubOptions.from_environment())
    chosen = [
        pair for pair in read_registry(path).pairs if pair.files and (not options.pair or pair.id in options.pair)
    ]
    reports = [check_pair(pair, hub, options.headers) for pair in chosen]
    for report in reports:
        print(f"{report.pair}: {'CHANGED' if report.changes else 'ok'}")
        for line in (*report.changes, *report.notes):
            print(f"  {line}")
    if options.write:
        text = path.read_text("utf-8")
        for report in reports:
            for file, remote in report.fill:
                text = filled(text, file, remote)
        path.write_text(text, "utf-8")
        read_registry(path)
    return 1 if any(report.changes for report in reports) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EdgeSpecError as error:
        sys.exit(f"{error.message}\n{error.hint}")
