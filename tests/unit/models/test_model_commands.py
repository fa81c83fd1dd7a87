"""`edgespec download` and `edgespec models` as people and scripts run them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stub_hub import Answer, StubHub
from tiny_gguf_bytes import model

from edgespec.cli.main import main

REPO, NAME = "maker/Tiny-GGUF", "Tiny-Q8_0.gguf"
TOKENS = [f"t{i}" for i in range(40)]
TARGET, DRAFT = model(TOKENS, size=60_000).bytes(), model(TOKENS, size=500).bytes()

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(stub: StubHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line against the stub Hub, with a cache, a registry and a consent file of its own."""
    stub.files["maker/Draft-GGUF"] = {"D-Q8_0.gguf": DRAFT}
    stub.files[REPO][NAME] = TARGET
    own = tmp_path / "models.toml"
    sha = hashlib.sha256(TARGET).hexdigest()
    own.write_text(
        f"""
[licences]
house = {{ title = "House Rules", url = "https://rules.example", ask = true }}
[[pair]]
id = "tiny"
licence = "house"
status = "test"
task = ["test"]
target = {{ repo = "{REPO}", file = "{NAME}", size = {len(TARGET)}, sha256 = "{sha}" }}
draft = {{ repo = "maker/Draft-GGUF", file = "D-Q8_0.gguf" }}
shape = {{ layers = 2, kv_heads = 2, head_dim = 8, vocab = 40 }}
"""
    )
    for name in ("LLAMA_CACHE", "MODEL_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", stub.url)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("edgespec.models.registry.user_file", lambda: own)
    monkeypatch.setattr("edgespec.models.consent.consent_file", lambda: tmp_path / "licences.json")

    def invoke(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return invoke


def test_without_an_argument_every_pair_is_in_the_table_with_what_to_take(run: Run) -> None:
    code, out, _ = run("download")
    assert code == 0
    for word in ("qwen3-8b", "tiny", "demo", "licence", "fits", "For chat: ", "For code: "):
        assert word in out
    assert "house (ask)" in out


def test_the_table_can_be_narrowed_and_read_by_scripts(run: Run) -> None:
    _, out, _ = run("download", "--task", "test", "--json")
    found = json.loads(out)
    assert {pair["id"] for pair in found["pairs"]} == {"demo", "tiny"}
    tiny = next(pair for pair in found["pairs"] if pair["id"] == "tiny")
    assert (tiny["pinned"], tiny["here"], tiny["licences"]) == (False, "-", ["House Rules"])


def test_a_pair_is_described_fetched_checked_and_ready(run: Run, tmp_path: Path) -> None:
    code, out, err = run("download", "tiny", "--yes")
    assert code == 0
    assert out == "Ready: edgespec chat --pair tiny\n"
    for sentence in (
        "To fetch: 244 kB", "D-Q8_0.gguf is not pinned", "House Rules. https://rules.example",
        "The two vocabularies agree token for token.", "Needs about", f"{NAME}: done and checked.",
    ):  # fmt: skip
        assert sentence in err, err
    code, out, err = run("download", "tiny", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["to_fetch"], found["problem"]) == (0, None)
    assert Path(found["target"]).read_bytes() == TARGET
    assert Path(found["draft"]).read_bytes() == DRAFT


def test_scripts_must_agree_to_a_licence_in_so_many_words(run: Run, stub: StubHub) -> None:
    code, _, err = run("download", "tiny")
    assert code == 1
    assert "wants its licence agreed to" in err
    assert "--yes" in err
    assert stub.bodies() == []


class _Terminal:
    def isatty(self) -> bool:
        return True


def test_a_person_is_asked_once(run: Run, monkeypatch: pytest.MonkeyPatch, stub: StubHub) -> None:
    asked: list[str] = []
    answers = iter([False, True, True])

    def confirm(question: str, **_: Any) -> bool:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr("sys.stdin", _Terminal())
    monkeypatch.setattr("click.confirm", confirm)
    assert run("download", "tiny")[0] == 130
    assert stub.bodies() == []
    assert run("download", "tiny")[0] == 0
    assert run("models", "remove", "tiny", "--yes")[0] == 0
    assert run("download", "tiny")[0] == 0
    assert asked == ["Do you agree to these terms, and fetch now?"] * 2 + ["Fetch now?"]


def test_a_dry_run_says_everything_and_fetches_nothing(run: Run, stub: StubHub, tmp_path: Path) -> None:
    code, out, _ = run("download", "tiny", "--dry-run", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["size"] == found["to_fetch"] == len(TARGET) + len(DRAFT)
    assert [file["pinned"] for file in found["files"]] == [True, False]
    assert stub.bodies() == []
    assert not (tmp_path / "cache").exists()


def test_a_dry_run_of_what_does_not_fit_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgespec.models.download.free_bytes", lambda path: 1000)
    code, _, err = run("download", "tiny", "--dry-run")
    assert code == 1
    assert "1 kB are free" in err


def test_a_repository_by_its_quantisation(run: Run) -> None:
    code, out, _ = run("download", f"{REPO}:Q8_0", "--yes")
    assert (code, out) == (0, f"Ready: edgespec chat --model {REPO}:Q8_0\n")
    code, _, err = run("download", f"{REPO}:Q4", "--yes")
    assert code == 1
    assert "has no model Q4; it has Q8_0" in err


def test_an_interrupted_download_says_what_is_here(run: Run, stub: StubHub) -> None:
    stub.break_after = [100_000, 0, 0, 0, 0]
    code, _, err = run("download", f"{REPO}:Q8_0", "--yes")
    assert code == 1
    assert "100 kB of 241 kB are here" in err
    code, _, err = run("download", f"{REPO}:Q8_0", "--yes")
    assert code == 0
    assert "100 kB of it are here" in err
    assert "continuing behind 100 kB" in err


def test_vocabularies_that_differ_make_the_download_fail_after_the_fact(run: Run, stub: StubHub) -> None:
    stub.files["maker/Draft-GGUF"]["D-Q8_0.gguf"] = model([*TOKENS[:9], "x", *TOKENS[10:]], size=500).bytes()
    code, out, err = run("download", "tiny", "--yes")
    assert code == 1
    assert out == ""
    assert "Token 9 is 't9' in the target and 'x' in the draft model." in err


def test_the_token_is_sent_and_shown_nowhere(run: Run, stub: StubHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    stub.needs_token = "hf_verysecret"
    code, out, err = run("download", "tiny", "--yes")
    assert code == 0
    stub.gets = [Answer(403)]
    _, more, worse = run("download", "maker/Draft-GGUF:Q4", "--yes")
    assert "secret" not in out + err + more + worse


@pytest.mark.parametrize(
    ("what", "hint"), [("tinny", "Did you mean tiny"), ("a/b/c", "`edgespec download` lists"), ("..", "lists")]
)
def test_what_means_nothing_gets_a_way_out(run: Run, what: str, hint: str) -> None:
    code, _, err = run("download", what)
    assert code == 1
    assert hint in err


def test_the_demo_pair_needs_no_network(run: Run, stub: StubHub, demo_model: Path) -> None:
    code, out, _ = run("download", "demo")
    assert code == 0
    assert str(demo_model) in out
    assert stub.seen == []


def test_a_task_beside_a_pair_is_wrong_usage(run: Run) -> None:
    assert run("download", "tiny", "--task", "chat")[0] == 2


def test_models_lists_what_is_here_and_what_is_wrong_with_it(run: Run, tmp_path: Path) -> None:
    run("download", "tiny", "--yes")
    folder = tmp_path / "own [x]"
    folder.mkdir()
    (folder / "cut.gguf").write_bytes(TARGET[:-500])
    code, out, _ = run("models", "--dir", str(folder))
    assert code == 0
    assert f"{REPO}:Q8_0" in out
    assert "demo" in out
    assert f"Unusable: {folder}/cut.gguf: cut.gguf is 500 bytes shorter than its header says" in out
    found = json.loads(run("models", "list", "--json")[1])["models"]
    assert {item["spec"] for item in found} >= {f"{REPO}:Q8_0", "maker/Draft-GGUF:Q8_0", "demo"}


def test_inspect_tells_what_a_file_is(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "模型 [1].gguf"
    path.write_bytes(TARGET)
    code, out, _ = run("models", "inspect", str(path))
    assert code == 0
    for word in ("模型 [1].gguf", "architecture", "llama", "memory needed"):
        assert word in out
    found = json.loads(run("models", "inspect", str(path), "--json", "--ctx", "128")[1])
    assert (found["tokens"], found["context_length"], found["memory_context"]) == (40, 256, 128)


def test_check_accepts_a_pair_and_refuses_another_with_exit_code_1(run: Run, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("t.gguf", "d.gguf", "o.gguf")]
    for path, content in zip(paths, (TARGET, DRAFT, model(kind="llama").bytes()), strict=True):
        path.write_bytes(content)
    code, out, _ = run("models", "check", str(paths[0]), str(paths[1]))
    assert code == 0
    assert "d.gguf can draft for t.gguf." in out
    code, out, err = run("models", "check", str(paths[0]), str(paths[2]), "--json")
    assert code == 1
    assert json.loads(out)["pair"] is False
    assert "different types: BPE with 40 tokens in the target, SentencePiece with 40" in err


def test_remove_tells_what_goes_and_asks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("download", "tiny", "--yes")
    code, out, err = run("models", "remove", "tiny", "--dry-run", "--json")
    assert code == 0
    assert len(json.loads(out)["removed"]) == 2
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert run("models", "remove", "tiny")[0] == 130
    code, out, err = run("models", "remove", "tiny", "--yes")
    assert (code, out) == (0, "Freed 244 kB.\n")
    assert "Other programs share this cache" in err
    assert run("models", "remove", "tiny", "--yes")[0] == 1


def test_a_head_can_be_fetched_and_is_called_what_it_is(run: Run, stub: StubHub) -> None:
    stub.files[REPO]["eagle3-Tiny.gguf"] = model(architecture="eagle3").bytes()
    code, out, err = run("download", f"{REPO}/eagle3-Tiny.gguf", "--yes")
    assert (code, out) == (0, "")
    assert "eagle3-Tiny.gguf is a drafting head (draft-eagle3) for another model, not a model to chat with." in err
