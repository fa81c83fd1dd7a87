"""What people type becomes a file on this disk, or a sentence that says how to get it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tiny_gguf_bytes import model

from edgespec.errors import ModelFileError
from edgespec.models import resolve as module
from edgespec.models.cache import cache_root, cached_files, cached_repos, find_cached
from edgespec.models.registry import ModelFile, Pair, Registry
from edgespec.models.resolve import default_model, resolve

COMMIT, OLD = "c" * 40, "d" * 40


def put(root: Path, repo: str, name: str, commit: str = COMMIT, content: bytes | None = None) -> Path:
    """A file in the cache as the Hub's library lays it out."""
    folder = root / ("models--" + repo.replace("/", "--"))
    blob = folder / "blobs" / f"{commit[:3]}{name.replace('/', '_')}"
    link = folder / "snapshots" / commit / name
    for path in (blob, link, folder / "refs" / "main"):
        path.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content if content is not None else model().bytes())
    link.symlink_to(os.path.relpath(blob, link.parent))
    if commit == COMMIT:
        (folder / "refs" / "main").write_text(COMMIT)
    return link


PAIR = Pair(
    "tiny", "Tiny", "ok", "B", "draft-simple", "mit",
    target=ModelFile("a/t", "T-Q4_K_M.gguf", revision=COMMIT), draft=ModelFile("a/d", "D.gguf"),
)  # fmt: skip
REGISTRY = Registry((PAIR,), {})


def refused(spec: str, root: Path, registry: Registry = REGISTRY) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        resolve(spec, registry=registry, root=root)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("name", ["plain.gguf", "w t/模型 é (1)/Smol [v2].gguf", "a🙂b.gguf", "no-suffix"])
def test_a_path_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    assert resolve(str(path), registry=REGISTRY, root=tmp_path).target == path


def test_a_tilde_means_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "m.gguf").write_bytes(b"")
    assert resolve("~/m.gguf", registry=REGISTRY, root=tmp_path).target == tmp_path / "m.gguf"


def test_a_file_wins_over_a_pair_and_a_folder_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    assert resolve("demo", registry=REGISTRY, root=tmp_path).target == default_model()
    (tmp_path / "tiny").write_bytes(b"")
    assert resolve("tiny", registry=REGISTRY, root=tmp_path).target == Path("tiny")


def test_the_demo_model_is_found_without_importing_its_package(demo_model: Path) -> None:
    assert default_model() == demo_model


def test_without_its_package_the_demo_model_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DEMO_PACKAGE", "no_such_package_here")
    assert default_model() is None
    assert "edgespec[demo]" in refused("demo", tmp_path).hint


def test_a_pair_is_found_when_both_files_are_here(tmp_path: Path) -> None:
    assert refused("tiny", tmp_path).hint == "Fetch it with `edgespec download tiny`."
    target = put(tmp_path, "a/t", "T-Q4_K_M.gguf")
    assert "only partly" in refused("tiny", tmp_path).message
    draft = put(tmp_path, "a/d", "D.gguf")
    found = resolve("tiny", registry=REGISTRY, root=tmp_path)
    assert (found.target, found.draft, found.pair) == (target, draft, PAIR)


def test_a_pinned_pair_is_not_answered_with_another_version(tmp_path: Path) -> None:
    put(tmp_path, "a/t", "T-Q4_K_M.gguf", OLD)
    put(tmp_path, "a/d", "D.gguf")
    assert "only partly" in refused("tiny", tmp_path).message


def test_a_head_that_cannot_be_used_yet_is_left_out_with_a_sentence(tmp_path: Path) -> None:
    pair = Pair("h", "H", "ok", "B", "draft-mtp", "mit", target=PAIR.target, draft=PAIR.draft)
    put(tmp_path, "a/t", "T-Q4_K_M.gguf")
    put(tmp_path, "a/d", "D.gguf")
    found = resolve("h", registry=Registry((pair,), {}), root=tmp_path)
    assert found.draft is None
    assert "MTP head" in found.notices[0]


def test_a_reference_finds_the_file_its_tag_means(tmp_path: Path) -> None:
    q4 = put(tmp_path, "a/t", "T-Q4_K_M.gguf")
    q8 = put(tmp_path, "a/t", "T-Q8_0.gguf")
    put(tmp_path, "a/t", "mmproj-T-Q8_0.gguf")
    for spec, path in {"a/t": q4, "a/t:Q8_0": q8, "a/t:q8_0": q8, "a/t/T-Q8_0.gguf": q8}.items():
        assert resolve(spec, registry=REGISTRY, root=tmp_path).target == path


def test_a_tag_that_means_two_files_says_which_was_taken(tmp_path: Path) -> None:
    put(tmp_path, "a/t", "A-Q8_0.gguf")
    put(tmp_path, "a/t", "B-Q8_0.gguf")
    assert resolve("a/t:Q8_0", registry=REGISTRY, root=tmp_path).notices == (
        "a/t:Q8_0 also matches B-Q8_0.gguf; A-Q8_0.gguf is used.",
    )


@pytest.mark.parametrize("spec", ["a/t:Q4", "a/t", "a/t/none.gguf"])
def test_what_is_not_here_names_the_command_that_fetches_it(tmp_path: Path, spec: str) -> None:
    assert refused(spec, tmp_path).hint == f"Fetch it with `edgespec download {spec}`."


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("", "No model was named"),
        ("  ", "No model was named"),
        ("tinny", "neither a file nor a known pair"),
        ("./a/b", "There is no file ./a/b"),
        ("x.gguf", "There is no file x.gguf"),
        ("a\0b", "neither a file"),
        ("x" * 5000, "neither a file"),
    ],
)
def test_what_means_nothing_is_answered_in_words(tmp_path: Path, spec: str, sentence: str) -> None:
    assert sentence in refused(spec, tmp_path).message


def test_a_typing_mistake_gets_a_suggestion(tmp_path: Path) -> None:
    assert "Did you mean tiny?" in refused("tinny", tmp_path).hint


def test_the_cache_is_where_other_programs_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_root({"LLAMA_CACHE": "/l", "HF_HUB_CACHE": "/h", "HF_HOME": "/home"}) == Path("/l")
    assert cache_root({"HF_HUB_CACHE": "/h", "HF_HOME": "/home"}) == Path("/h")
    assert cache_root({"HF_HOME": "/home", "XDG_CACHE_HOME": "/x"}) == Path("/home/hub")
    assert cache_root({"XDG_CACHE_HOME": "/x"}) == Path("/x/huggingface/hub")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root({}) == tmp_path / ".cache/huggingface/hub"


def test_the_current_branch_comes_before_older_snapshots(tmp_path: Path) -> None:
    old, new = put(tmp_path, "a/t", "T.gguf", OLD), put(tmp_path, "a/t", "T.gguf")
    only_old = put(tmp_path, "a/t", "O.gguf", OLD)
    assert find_cached(tmp_path, "a/t", "T.gguf") == new
    assert find_cached(tmp_path, "a/t", "T.gguf", OLD) == old
    assert {file.path for file in cached_files(tmp_path, "a/t")} == {new, only_old}
    assert cached_repos(tmp_path) == ["a/t"]
    new.resolve().unlink()
    assert find_cached(tmp_path, "a/t", "T.gguf") == old


def test_an_empty_or_missing_cache_is_just_empty(tmp_path: Path) -> None:
    assert cached_repos(tmp_path / "none") == []
    assert cached_files(tmp_path, "a/b") == []
