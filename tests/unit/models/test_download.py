"""Downloads against a server that does everything wrong that servers do."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stub_hub import Answer, StubHub, serve
from tiny_gguf_bytes import model, split

from edgespec.errors import DownloadError
from edgespec.models import download, transfer
from edgespec.models.cache import cached_files, find_cached
from edgespec.models.download import DownloadPlan, fetch, free_bytes, plan_pair, plan_reference
from edgespec.models.events import (
    DownloadEvent,
    FileChecking,
    FileDone,
    FileProgress,
    FileRestarted,
    FileStarted,
    FileWaiting,
)
from edgespec.models.hub import Hub, HubOptions, retry_after
from edgespec.models.hub_errors import DownloadCancelled, Interrupted
from edgespec.models.quant import Reference
from edgespec.models.registry import ModelFile, Pair

REPO = "maker/Tiny-GGUF"
NAME = "Tiny-Q8_0.gguf"
REFERENCE = Reference(REPO, "Q8_0")


def get(hub: Hub, events: list[DownloadEvent] | None = None, reference: Reference = REFERENCE) -> Path:
    return fetch(plan_reference(reference, hub), hub, (events if events is not None else []).append)[0]


def pinned(content: bytes, **changes: Any) -> Pair:
    file = ModelFile(REPO, NAME, "Q8_0", None, len(content), True, hashlib.sha256(content).hexdigest())
    return Pair("tiny", "Tiny", "test", "A", "none", "mit", target=replace(file, **changes))


def nothing_final(cache: Path) -> bool:
    blobs = [path for path in cache.rglob("blobs/*") if not path.name.endswith(".incomplete")]
    return not blobs and not cached_files(cache, REPO)


def held(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.rglob("*.incomplete"))


def failure(hub: Hub, reference: Reference = REFERENCE) -> DownloadError:
    with pytest.raises(DownloadError) as caught:
        get(hub, reference=reference)
    return caught.value


def test_a_file_arrives_whole_under_the_name_other_programs_look_for(
    hub: Hub, content: bytes, events: list[DownloadEvent], stub: StubHub
) -> None:
    path = get(hub, events)
    assert path.read_bytes() == content
    assert path.resolve().name == hashlib.sha256(content).hexdigest()
    from huggingface_hub import try_to_load_from_cache

    for revision in (stub.commit, "main", None):
        assert try_to_load_from_cache(REPO, NAME, cache_dir=hub.options.cache, revision=revision) == str(path)
    assert events[0] == FileStarted(NAME, 0, len(content))
    assert events[-2] == FileProgress(NAME, len(content), len(content))
    assert events[-1] == FileDone(NAME, path, len(content), len(content), False)
    assert held(hub.options.cache) == 0


def test_the_branch_is_remembered_so_that_the_hubs_library_finds_it_offline(hub: Hub, content: bytes) -> None:
    pair = pinned(content)
    fetch(plan_pair(pair, hub), hub, lambda _: None)
    from huggingface_hub import try_to_load_from_cache

    assert try_to_load_from_cache(REPO, NAME, cache_dir=hub.options.cache) is not None


def test_what_is_here_is_not_fetched_again(hub: Hub, stub: StubHub) -> None:
    get(hub)
    stub.seen.clear()
    plan = plan_reference(REFERENCE, hub)
    assert plan.complete
    assert plan.to_fetch == 0
    fetch(plan, hub, lambda _: None)
    assert stub.bodies() == []


def test_a_pinned_commit_that_is_here_needs_no_network(hub: Hub, stub: StubHub, content: bytes) -> None:
    pair = pinned(content, revision=stub.commit)
    fetch(plan_pair(pair, hub), hub, lambda _: None)
    stub.seen.clear()
    assert plan_pair(pair, hub).complete
    assert stub.seen == []


def test_contents_come_from_another_host_without_the_token(options: HubOptions, stub: StubHub, content: bytes) -> None:
    stub.cdn, stub.needs_token = True, "hf_secret"
    path = get(Hub(replace(options, token="hf_secret")))
    assert path.read_bytes() == content
    cdn = [request for request in stub.seen if request.path.startswith("/cdn/")]
    assert cdn
    assert all("authorization" not in request.headers for request in cdn)


def test_a_broken_connection_is_continued_within_the_same_run(
    hub: Hub, stub: StubHub, content: bytes, events: list[DownloadEvent]
) -> None:
    stub.break_after = [100_000, 50_000]
    path = get(hub, events)
    assert path.read_bytes() == content
    assert [request.headers.get("range") for request in stub.bodies()] == [None, "bytes=100000-", "bytes=150000-"]
    assert sum(request.sent for request in stub.bodies()) == len(content)
    assert any(isinstance(event, FileWaiting) for event in events)


def test_a_link_that_keeps_breaking_ends_with_what_is_here_and_the_next_run_continues(
    hub: Hub, stub: StubHub, content: bytes
) -> None:
    stub.break_after = [70_000, 0, 0, 0, 0]
    error = failure(hub)
    assert isinstance(error, Interrupted)
    assert "70 kB of 241 kB are here" in error.message
    assert nothing_final(hub.options.cache)
    stub.seen.clear()
    assert get(Hub(hub.options)).read_bytes() == content
    assert sum(request.sent for request in stub.bodies()) == len(content) - 70_000


CHILD = """
import sys
from pathlib import Path
from edgespec.models.download import fetch, plan_reference
from edgespec.models.hub import Hub, HubOptions, retry_after
from edgespec.models.quant import Reference
hub = Hub(HubOptions(sys.argv[1], Path(sys.argv[2])))
fetch(plan_reference(Reference("maker/Tiny-GGUF", "Q8_0"), hub), hub, lambda event: None)
"""


def child(options: HubOptions) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CHILD, options.endpoint, str(options.cache)])


def test_after_kill_9_at_70_percent_only_the_rest_is_transferred(hub: Hub, stub: StubHub, content: bytes) -> None:
    stub.hold_after = len(content) * 7 // 10
    process = child(hub.options)
    assert stub.held.wait(60)
    while held(hub.options.cache) < stub.hold_after:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert nothing_final(hub.options.cache)
    stub.hold_after = None
    stub.released.set()
    stub.seen.clear()
    plan = plan_reference(REFERENCE, hub)
    assert plan.to_fetch == len(content) - len(content) * 7 // 10
    (path,) = fetch(plan, hub, lambda _: None)
    assert path.read_bytes() == content
    assert sum(request.sent for request in stub.bodies()) == plan.to_fetch


def test_two_processes_fetch_the_same_file_once(hub: Hub, stub: StubHub, content: bytes) -> None:
    stub.hold_after = 10_000
    processes = [child(hub.options), child(hub.options)]
    assert stub.held.wait(60)
    stub.released.set()
    assert [process.wait(60) for process in processes] == [0, 0]
    assert sum(request.sent for request in stub.bodies()) == len(content)
    assert find_cached(hub.options.cache, REPO, NAME) is not None


def test_waiting_for_another_process_is_said_and_can_be_cancelled(hub: Hub, events: list[DownloadEvent]) -> None:
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    plan = plan_reference(REFERENCE, hub)
    assert plan.files[0].remote is not None
    lock = hub.options.cache / ".locks" / "models--maker--Tiny-GGUF" / f"{plan.files[0].remote.etag}.lock"
    lock.parent.mkdir(parents=True)
    cancelled = threading.Event()

    def report(event: DownloadEvent) -> None:
        events.append(event)
        cancelled.set()

    with WeakFileLock(lock), pytest.raises(DownloadCancelled):
        fetch(plan, hub, report, cancelled)
    assert events == [FileWaiting(NAME, 0, "another program is fetching it")]


def test_new_content_under_the_name_starts_afresh_and_leaves_no_old_beginning(
    hub: Hub, stub: StubHub, content: bytes
) -> None:
    stub.break_after = [70_000, 0, 0, 0, 0]
    failure(hub)
    new = model(size=50_000, fill=2).bytes()
    stub.files[REPO][NAME], stub.commit = new, "b" * 40
    stub.seen.clear()
    assert get(hub).read_bytes() == new
    assert stub.bodies()[0].headers.get("range") is None
    assert held(hub.options.cache) == 0


def test_content_that_changes_in_the_middle_of_a_run_starts_afresh(hub: Hub, stub: StubHub, content: bytes) -> None:
    plan = plan_reference(REFERENCE, hub)
    stub.break_after = [70_000]
    stub.etags[NAME] = "first"

    def report(event: DownloadEvent) -> None:
        if isinstance(event, FileWaiting):
            stub.etags[NAME] = "second"

    (path,) = fetch(plan, hub, report)
    assert path.read_bytes() == content


def test_a_server_that_ignores_ranges_starts_afresh_and_says_so(
    hub: Hub, stub: StubHub, content: bytes, events: list[DownloadEvent]
) -> None:
    stub.break_after, stub.ranges = [70_000], False
    assert get(hub, events).read_bytes() == content
    assert FileRestarted(NAME, "the server does not continue files") in events


def test_a_beginning_longer_than_the_file_is_thrown_away(hub: Hub, stub: StubHub, content: bytes) -> None:
    plan = plan_reference(REFERENCE, hub)
    assert plan.files[0].remote is not None
    path = download.partial_path(hub.options.cache, plan.files[0].remote)
    path.parent.mkdir(parents=True)
    path.write_bytes(content + b"more")
    assert fetch(plan, hub, lambda _: None)[0].read_bytes() == content


def test_a_complete_beginning_is_only_checked(hub: Hub, stub: StubHub, content: bytes) -> None:
    plan = plan_reference(REFERENCE, hub)
    assert plan.files[0].remote is not None
    path = download.partial_path(hub.options.cache, plan.files[0].remote)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert fetch(plan, hub, lambda _: None)[0].read_bytes() == content
    assert stub.bodies() == []


def test_a_wrong_beginning_is_noticed_by_its_hash_and_thrown_away(hub: Hub, stub: StubHub, content: bytes) -> None:
    plan = plan_reference(REFERENCE, hub)
    assert plan.files[0].remote is not None
    path = download.partial_path(hub.options.cache, plan.files[0].remote)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF" + b"x" * 1000)
    error = failure(hub)
    assert "not the file it should be" in error.message
    assert nothing_final(hub.options.cache)
    assert held(hub.options.cache) == 0
    assert get(hub).read_bytes() == content


def test_a_wrong_hash_is_refused(hub: Hub, stub: StubHub, content: bytes) -> None:
    stub.lie[NAME] = model(size=60_000, fill=9).bytes()
    error = failure(hub)
    assert "sha256" in error.message
    assert nothing_final(hub.options.cache)


def test_a_hash_other_than_the_pinned_one_is_refused_before_a_byte_is_fetched(
    hub: Hub, stub: StubHub, content: bytes
) -> None:
    with pytest.raises(DownloadError, match="is not the file it was"):
        plan_pair(pinned(content, sha256="0" * 64), hub)
    assert stub.bodies() == []


def test_a_length_other_than_the_pinned_one_is_refused_before_a_byte_is_fetched(
    hub: Hub, stub: StubHub, content: bytes
) -> None:
    stub.etags[NAME] = "no-hash"
    with pytest.raises(DownloadError, match="bytes on the Hub"):
        plan_pair(pinned(content, size=7), hub)


def test_a_body_longer_than_promised_is_refused(hub: Hub, stub: StubHub, content: bytes) -> None:
    stub.lie[NAME] = content + b"tail"
    assert "longer than the 241 kB" in failure(hub).message
    assert nothing_final(hub.options.cache)


def test_a_gguf_shorter_than_its_header_says_is_refused(hub: Hub, stub: StubHub, content: bytes) -> None:
    stub.files[REPO][NAME] = content[:-1000]
    assert "1 kB shorter than its header says" in failure(hub).message
    assert nothing_final(hub.options.cache)


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"<!DOCTYPE html><html>login</html>", "text/html"), (b"<html>login</html>", "application/octet-stream")],
)
def test_a_web_page_instead_of_the_file_is_recognised(hub: Hub, stub: StubHub, body: bytes, kind: str) -> None:
    stub.gets = [Answer(200, {"Content-Type": kind}, body)]
    assert "web page" in failure(hub).message
    assert nothing_final(hub.options.cache)


def test_an_lfs_pointer_instead_of_the_file_is_recognised(hub: Hub, stub: StubHub) -> None:
    stub.files[REPO][NAME] = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    assert "git-LFS pointer" in failure(hub).message
    assert nothing_final(hub.options.cache)


def test_no_content_length_anywhere_still_brings_the_whole_file(hub: Hub, stub: StubHub, content: bytes) -> None:
    stub.content_length = False
    plan = plan_reference(REFERENCE, hub)
    assert plan.size is None
    assert fetch(plan, hub, lambda _: None)[0].read_bytes() == content


def test_no_content_length_and_a_silent_cut_is_noticed_and_continued(hub: Hub, stub: StubHub, content: bytes) -> None:
    stub.content_length, stub.break_after = False, [70_000]
    assert isinstance(failure(hub), Interrupted)
    assert nothing_final(hub.options.cache)
    assert held(hub.options.cache) == 70_000
    assert get(hub).read_bytes() == content


def test_a_fault_of_the_server_passes(hub: Hub, stub: StubHub, content: bytes, events: list[DownloadEvent]) -> None:
    stub.heads = [Answer(500)]
    stub.gets = [Answer(503), Answer(500)]
    assert get(hub, events).read_bytes() == content
    assert sum(isinstance(event, FileWaiting) for event in events) == 2


def test_retry_after_is_obeyed(hub: Hub, stub: StubHub, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(hub.cancelled, "wait", lambda seconds: waits.append(seconds) and False)
    stub.gets = [Answer(429, {"Retry-After": "17"})]
    assert get(hub).read_bytes() == content
    assert waits == [17.0]


def test_a_very_long_retry_after_is_told_instead_of_waited_for(hub: Hub, stub: StubHub) -> None:
    stub.gets = [Answer(429, {"Retry-After": "3600"})]
    error = failure(hub)
    assert "429" in error.message
    assert "3,600 seconds" in error.hint


def test_a_pause_can_be_cancelled(hub: Hub, stub: StubHub) -> None:
    stub.gets = [Answer(429, {"Retry-After": "100"})]
    plan = plan_reference(REFERENCE, hub)
    cancelled = threading.Event()

    def report(event: DownloadEvent) -> None:
        if isinstance(event, FileWaiting):
            cancelled.set()

    with pytest.raises(DownloadCancelled):
        fetch(plan, hub, report, cancelled)


def test_cancelling_keeps_what_was_fetched(hub: Hub, stub: StubHub, content: bytes) -> None:
    plan = plan_reference(REFERENCE, hub)
    cancelled = threading.Event()

    def report(event: DownloadEvent) -> None:
        if isinstance(event, FileProgress):
            cancelled.set()

    with pytest.raises(DownloadCancelled):
        fetch(plan, hub, report, cancelled)
    assert held(hub.options.cache) > 0
    assert nothing_final(hub.options.cache)
    assert get(Hub(hub.options)).read_bytes() == content


def certificate(folder: Path) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate can be made")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def every_failure(stub: StubHub, options: HubOptions, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The sentence for each way a server can say no."""
    token = "hf_" + "t" * 34
    hub = Hub(replace(options, token=token))
    found: dict[str, str] = {}

    def note(name: str, error: DownloadError) -> None:
        found[name] = error.message
        assert token not in error.message + error.hint
        assert error.hint

    for name, setting in (("401", False), ("403 gated", True)):
        stub.needs_token, stub.gated = "another", setting
        note(name, failure(hub))
    stub.needs_token, stub.gated = None, False
    for status in (403, 404, 407, 418):
        stub.apis = [Answer(status)]
        note(str(status), failure(hub))
    note("no such quantisation", failure(hub, Reference(REPO, "Q2_K")))
    note("no such repository", failure(hub, Reference("maker/none", "Q2_K")))
    stub.apis = [Answer(429)] * 5
    note("429", failure(hub))
    stub.apis = [Answer(500)] * 5
    note("500", failure(hub))
    note("offline", failure(Hub(replace(options, offline=True))))
    note("nobody there", failure(Hub(replace(options, endpoint="http://127.0.0.1:9"))))
    with serve(StubHub(), certificate(folder)) as secure:
        note("certificate", failure(Hub(replace(options, endpoint=secure.url))))
    stub.gets = [Answer(200, {"Content-Type": "text/html"}, b"<html>")]
    note("page", failure(hub))
    stub.lie[NAME] = model(size=60_000, fill=3).bytes()
    note("hash", failure(hub))
    return found


def test_every_failure_has_a_sentence_of_its_own_and_none_shows_the_token(
    stub: StubHub, options: HubOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = every_failure(stub, options, tmp_path, monkeypatch)
    assert len(set(found.values())) == len(found), found
    assert "gated" in found["403 gated"]
    assert "certificate" in found["certificate"]
    assert "offline" in found["offline"]
    assert "Q8_0" in found["no such quantisation"]
    assert nothing_final(options.cache)


def test_the_options_never_show_the_token() -> None:
    assert "hf_abc" not in repr(HubOptions(token="hf_abc"))


def test_a_proxy_is_used(stub: StubHub, options: HubOptions, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", stub.url)
    path = get(Hub(replace(options, endpoint="http://hub.invalid")))
    assert path.read_bytes() == content
    assert all(request.path.startswith("http://hub.invalid/") for request in stub.seen)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_login_is_named(
    stub: StubHub, options: HubOptions, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", stub.url)
    monkeypatch.setenv("HTTPS_PROXY", stub.url)
    stub.proxy_status = 407
    error = failure(Hub(replace(options, endpoint=f"{scheme}://hub.invalid")))
    assert error.message == "The proxy wants a login (407)."
    assert "HTTPS_PROXY" in error.hint


def test_too_little_space_is_told_before_a_byte_is_fetched(
    hub: Hub, stub: StubHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "free_bytes", lambda path: 100_000)
    error = failure(hub)
    assert "needs 241 kB more" in error.message
    assert "100 kB are free" in error.message
    assert stub.bodies() == []


def test_free_space_is_asked_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b") == shutil.disk_usage(tmp_path).free


class _FullDisk:
    """A file on a disk with room for so many bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: Any) -> int:
        taken = min(len(data), self._room)
        self._room -= taken
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written: int = self._file.write(data[:taken])
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_disk_that_fills_up_keeps_what_arrived_and_the_next_run_continues(
    hub: Hub, stub: StubHub, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = transfer.PartialFile.__init__

    def small(self: transfer.PartialFile, path: Path) -> None:
        opened(self, path)
        self._file = _FullDisk(self._file, 100_000)  # type: ignore[assignment]

    with monkeypatch.context() as patch:
        patch.setattr(transfer.PartialFile, "__init__", small)
        error = failure(hub)
    assert "disk is full" in error.message
    assert nothing_final(hub.options.cache)
    assert held(hub.options.cache) == 100_000
    stub.seen.clear()
    assert get(hub).read_bytes() == content
    assert stub.bodies()[0].headers["range"] == "bytes=100000-"


def test_a_small_file_system_that_fills_up(stub: StubHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small file system here")
    try:
        monkeypatch.setattr(download, "ROOM", -10_000_000)
        error = failure(Hub(HubOptions(stub.url, folder)))
        assert "disk is full" in error.message
        assert nothing_final(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_offline_gives_what_is_cached(hub: Hub, content: bytes) -> None:
    get(hub)
    offline = Hub(replace(hub.options, offline=True, endpoint="http://127.0.0.1:9"))
    assert get(offline).read_bytes() == content
    assert plan_pair(pinned(content), offline).complete


def test_offline_without_the_file_says_so(hub: Hub, content: bytes) -> None:
    offline = Hub(replace(hub.options, offline=True))
    assert "HF_HUB_OFFLINE" in failure(offline).message
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE"):
        plan_pair(pinned(content), offline)


def test_a_file_that_is_here_does_for_a_pair_when_the_hub_is_down(hub: Hub, stub: StubHub, content: bytes) -> None:
    get(hub)
    stub.heads = [Answer(500)] * 5
    assert plan_pair(pinned(content), hub).complete


def test_a_split_model_is_fetched_with_all_its_parts(hub: Hub, stub: StubHub) -> None:
    whole = model(size=500)
    whole.tensors |= {"b.weight": 600, "c.weight": 700}
    parts = split(whole, 3)
    names = [f"Q4_K_M/Tiny-Q4_K_M-{i + 1:05d}-of-00003.gguf" for i in range(3)]
    stub.files[REPO] |= dict(zip(names, parts, strict=True))
    plan = plan_reference(Reference(REPO, "Q4_K_M"), hub)
    assert plan.size == sum(map(len, parts))
    paths = fetch(plan, hub, lambda _: None)
    assert [path.read_bytes() for path in paths] == parts
    from edgespec.models.gguf import check_file

    assert check_file(paths[1]).path == paths[0]


def test_a_split_model_with_a_part_missing_is_not_begun(hub: Hub, stub: StubHub) -> None:
    parts = split(model(size=500), 3)
    stub.files[REPO] |= {f"Tiny-Q4_K_M-{i + 1:05d}-of-00003.gguf": parts[i] for i in (0, 2)}
    assert "only 2 of them" in failure(hub, Reference(REPO, "Q4_K_M")).message
    assert stub.bodies() == []


def test_a_file_can_be_named_exactly(hub: Hub, content: bytes) -> None:
    assert get(hub, reference=Reference(REPO, file=NAME)).read_bytes() == content
    assert "it has Q8_0" in failure(hub, Reference(REPO, file="nope.gguf")).message


def test_a_repository_without_models_is_told(hub: Hub, stub: StubHub) -> None:
    stub.files["maker/data"] = {"README.md": b""}
    assert "holds no GGUF models" in failure(hub, Reference("maker/data")).message


@pytest.mark.parametrize("name", ["../Q8_0.gguf", "/etc/Q8_0.gguf", "a/../../Q8_0.gguf", "a\\Q8_0.gguf"])
def test_names_that_lead_out_of_the_repository_are_refused(hub: Hub, stub: StubHub, content: bytes, name: str) -> None:
    stub.files[REPO] = {name: content}
    failure(hub)
    assert not [path for path in hub.options.cache.rglob("*") if path.is_file()]


def test_a_server_that_is_no_hub_is_named(hub: Hub, stub: StubHub) -> None:
    stub.heads = [Answer(200, {"ETag": '"x"'})]
    assert "does not answer like a Hugging Face Hub" in failure(hub).message


def test_a_pair_brings_both_files_in_order(hub: Hub, stub: StubHub, content: bytes) -> None:
    draft = model(size=100).bytes()
    stub.files["maker/Draft-GGUF"] = {"d.gguf": draft}
    target = ModelFile(REPO, NAME)
    pair = Pair(
        "tiny", "T", "test", "C", "draft-simple", "mit", target=target, draft=ModelFile("maker/Draft-GGUF", "d.gguf")
    )
    plan: DownloadPlan = plan_pair(pair, hub)
    assert any("not pinned" in notice for notice in plan.notices)
    assert [path.read_bytes() for path in fetch(plan, hub, lambda _: None)] == [content, draft]


def test_the_environment_decides_as_for_other_programs(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_file\n")
    options = HubOptions.from_environment(
        {"HF_ENDPOINT": "https://mirror.example/", "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    )
    assert options == HubOptions("https://mirror.example", tmp_path / "hub", "hf_file", True)
    given = HubOptions.from_environment({"HF_TOKEN": "hf_given", "HF_HOME": str(tmp_path), "LLAMA_CACHE": "/models"})
    assert (given.token, given.cache, given.offline) == ("hf_given", Path("/models"), False)
    silent = HubOptions.from_environment({"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"})
    assert silent.token is None


def test_a_pinned_file_that_another_program_fetched_is_hashed_once(
    hub: Hub, content: bytes, events: list[DownloadEvent], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("edgespec.models.verified.memory_file", lambda: tmp_path / "hashes.json")
    get(hub)
    (tmp_path / "hashes.json").unlink()
    for expected in (1, 0):
        events.clear()
        fetch(plan_pair(pinned(content), hub), hub, events.append)
        assert sum(isinstance(event, FileChecking) for event in events) == expected


def test_a_pinned_file_that_is_here_and_wrong_is_named(hub: Hub, content: bytes, stub: StubHub) -> None:
    path = get(hub)
    path.resolve().write_bytes(content[:-1] + b"x")
    with pytest.raises(DownloadError, match="is on this disk, but it is not the file it should be") as caught:
        fetch(plan_pair(pinned(content), hub), hub, lambda _: None)
    assert "edgespec models remove" in caught.value.hint


def test_what_was_just_fetched_is_not_hashed_again(
    hub: Hub, content: bytes, events: list[DownloadEvent], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("edgespec.models.verified.memory_file", lambda: tmp_path / "hashes.json")
    for _ in range(2):
        fetch(plan_pair(pinned(content), hub), hub, events.append)
    assert not any(isinstance(event, FileChecking) for event in events)


def test_an_answer_that_continues_elsewhere_than_asked_is_not_appended(hub: Hub, stub: StubHub, content: bytes) -> None:
    plan = plan_reference(REFERENCE, hub)
    assert plan.files[0].remote is not None
    path = download.partial_path(hub.options.cache, plan.files[0].remote)
    path.parent.mkdir(parents=True)
    path.write_bytes(content[:70_000])
    wrong = {"Content-Range": f"bytes 60000-{len(content) - 1}/{len(content)}"}
    stub.gets = [Answer(206, wrong, content[60_000 : len(content) - 10_000])]
    assert fetch(plan, hub, lambda _: None)[0].read_bytes() == content
    assert [request.headers.get("range") for request in stub.bodies()] == ["bytes=70000-", None]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("", None), ("soon", None), ("7", 7.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("-5", None)],
)
def test_a_server_may_ask_for_a_pause_in_seconds_or_by_date(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}) == seconds
    assert (retry_after({"retry-after": "Fri, 01 Jan 2100 00:00:00 GMT"}) or 0) > 10**6


def test_a_reference_that_is_here_needs_no_hub(hub: Hub, stub: StubHub, content: bytes) -> None:
    get(hub)
    stub.apis = [Answer(500)] * 5
    plan = plan_reference(REFERENCE, hub)
    assert plan.complete
    assert fetch(plan, hub, lambda _: None)[0].read_bytes() == content
