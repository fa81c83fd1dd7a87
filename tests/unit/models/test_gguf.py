"""Headers are read without trust; every broken or foreign file gets its own sentence."""

from __future__ import annotations

import os
import random
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_gguf_bytes import TinyGguf, metadata_bytes, model, padded, split, string

from edgespec.errors import ModelFileError
from edgespec.models.ggml_types import GGML_TYPES
from edgespec.models.gguf import check_file, check_gguf, read_header
from edgespec.models.shards import part_name


def refused(path: Path) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        check_file(path)
    assert caught.value.hint
    return caught.value


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "m.gguf"


def test_a_header_tells_what_the_file_is(file: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", "a", "b", "c", "d"]
    file.write_bytes(model(tokens, tokenizer__chat_template="{{ x }}", general__file_type=15).bytes())
    header = read_header(file)
    assert (header.architecture, header.name, header.quantisation, header.version) == ("llama", "Tiny", "Q4_K_M", 3)
    assert (header.layers, header.context_length, header.embedding_length) == (2, 256, 32)
    assert header.chat_template == "{{ x }}"
    assert header.parameters == 2000
    assert header.vocabulary is not None
    assert header.vocabulary.tokens == tuple(token.encode() for token in tokens)
    assert (header.vocabulary.kind, header.vocabulary.bos, header.vocabulary.eos) == ("BPE", 1, 2)
    assert header.expected_size == file.stat().st_size
    assert check_file(file).parts == (file,)


@pytest.mark.model
def test_a_real_file_is_read_as_the_gguf_package_reads_it(demo_model: Path) -> None:
    from gguf import GGUFReader

    ours, theirs = check_file(demo_model).header, GGUFReader(demo_model)
    assert len(ours.metadata) == len([key for key in theirs.fields if not key.startswith("GGUF.")])
    assert [(t.name, t.shape, t.size, ours.data_offset + t.offset) for t in ours.tensors] == [
        (t.name, tuple(int(n) for n in t.shape), int(t.n_bytes), int(t.data_offset)) for t in theirs.tensors
    ]
    assert ours.expected_size == demo_model.stat().st_size
    assert ours.vocabulary is not None
    tokens = theirs.fields["tokenizer.ggml.tokens"]
    assert ours.vocabulary.tokens == tuple(bytes(tokens.parts[i]) for i in tokens.data)


@pytest.mark.model
def test_a_real_file_with_a_large_vocabulary_is_whole(gemma_model: Path) -> None:
    header = check_file(gemma_model).header
    assert header.vocabulary is not None
    assert len(header.vocabulary) == 262_144
    assert header.expected_size == gemma_model.stat().st_size


@pytest.mark.model
@pytest.mark.parametrize(
    ("keep", "sentence"),
    [
        (0, "is empty"),
        (3, "holds only 3 bytes"),
        (4, "ends inside its header, after 4 bytes"),
        (1_000, "ends inside its header, after 1 kB"),
        (10_000_000, "is 88.4 MB shorter than its header says (10 MB of 98.4 MB)"),
        (-1, "is 1 byte shorter than its header says (98,362,431 of 98,362,432 bytes)"),
    ],
)
def test_a_real_file_cut_short_says_by_how_much(demo_model: Path, file: Path, keep: int, sentence: str) -> None:
    size = demo_model.stat().st_size
    with demo_model.open("rb") as source, file.open("wb") as cut:
        os.sendfile(cut.fileno(), source.fileno(), 0, keep if keep >= 0 else size + keep)
    assert sentence in refused(file).message


IMPOSTERS = {
    "git-LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "web page": b"<!DOCTYPE html><html><title>404</title></html>",
    "web page saved": b"\n  <html lang=en>",
    "error message (JSON)": b'{"error":"Invalid username or password."}',
    "JSON file": b'{"a": 1}',
    "safetensors": struct.pack("<Q", 64) + b'{"a":{"dtype":"F16"}}',
    "zip archive": b"PK\x03\x04rest",
    "compressed": b"\x1f\x8b\x08\x00rest",
    "old GGML format": b"tjgg\x03\x00\x00\x00",
    "begins with zeros": bytes(600),
    "begins with 'hello\\r\\n!'": b"hello\r\n!",
}


@pytest.mark.parametrize("sentence", IMPOSTERS)
def test_what_else_a_file_is_gets_named(file: Path, sentence: str) -> None:
    file.write_bytes(IMPOSTERS[sentence])
    assert sentence in refused(file).message


def test_a_real_zip_is_named(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data.pkl", b"x")
    assert "zip archive" in refused(file).message


def test_all_these_sentences_differ(tmp_path: Path) -> None:
    messages = set()
    for index, content in enumerate(IMPOSTERS.values()):
        path = tmp_path / f"{index}" / "m.gguf"
        path.parent.mkdir()
        path.write_bytes(content)
        messages.add(refused(path).message)
    assert len(messages) == len(IMPOSTERS) - 1  # two spellings of a web page


def test_folders_links_and_devices_are_no_models(tmp_path: Path) -> None:
    assert "is a folder" in refused(tmp_path).message
    assert "There is no file" in refused(tmp_path / "none.gguf").message
    link = tmp_path / "link.gguf"
    link.symlink_to("gone.gguf")
    assert "link to a file that is gone" in refused(link).message
    os.mkfifo(tmp_path / "pipe.gguf")
    assert "not a regular file" in refused(tmp_path / "pipe.gguf").message
    assert refused(tmp_path / ("x" * 300 + ".gguf")).message
    assert refused(Path("a\0b\x1b[31m.gguf")).message == "There is no file a\\x00b\\x1b[31m.gguf."


@pytest.mark.parametrize("name", ["w t/模型 é (1)/Smol [v2].gguf", "a🙂b/[/x].gguf", "50% {x} 'q' \"d\".gguf"])
def test_odd_paths_work(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model().bytes())
    assert check_file(path).path == path


def header_with(tail: bytes, keys: int = 1, tensors: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + tail


HOSTILE = {
    "big-endian": struct.pack(">4sIQQ", b"GGUF", 3, 0, 0),
    "version 1": header_with(b"", 0, version=1),
    "version 4": header_with(b"", 0, version=4),
    "tensors and": header_with(b"", 2**60, 2**60),
    "bytes long": header_with(struct.pack("<Q", 2**63)),
    "unknown type 77": header_with(string("k") + struct.pack("<I", 77)),
    "arrays": header_with(string("k") + struct.pack("<IIQ", 9, 9, 1)),
    "elements of the unknown type": header_with(string("k") + struct.pack("<IIQ", 9, 55, 1)),
    "claims 9,223,372,036,854,775,808 strings": header_with(string("k") + struct.pack("<IIQ", 9, 8, 2**63)),
    "claims 18,446,744,073,709,551,615 elements": header_with(string("k") + struct.pack("<IIQ", 9, 0, 2**64 - 1)),
    "appears twice": header_with(metadata_bytes({"k": 1}) * 2, 2),
    "has no name": header_with(string("") + struct.pack("<II", 4, 1)),
    "power of 2": header_with(metadata_bytes({"general.alignment": 24})),
    "7 dimensions": header_with(string("t") + struct.pack("<I", 7), 0, 1),
    "element type 99": header_with(string("t") + struct.pack("<IQIQ", 1, 32, 99, 0), 0, 1),
    "impossible shape": header_with(string("t") + struct.pack("<IQIQ", 1, 31, 2, 0), 0, 1),
    "impossible shape (": header_with(string("t") + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0), 0, 1),
    "instead of 0": header_with(string("t") + struct.pack("<IQIQ", 1, 32, 0, 64), 0, 1),
    "70 characters long": header_with(string("t" * 70) + struct.pack("<IQIQ", 1, 32, 0, 0), 0, 1),
}


@pytest.mark.parametrize("sentence", HOSTILE)
def test_headers_that_lie_are_refused_in_words(file: Path, sentence: str) -> None:
    file.write_bytes(HOSTILE[sentence] + bytes(64))
    assert sentence in refused(file).message


def test_a_string_in_an_array_that_runs_out_of_the_file_is_refused(file: Path) -> None:
    claim = string("k") + struct.pack("<IIQ", 9, 8, 2) + string("a") + struct.pack("<Q", 2**50)
    file.write_bytes(header_with(claim) + bytes(64))
    assert "damaged header" in refused(file).message


def test_arrays_longer_than_one_read_step_come_through(file: Path) -> None:
    tokens = ["x" * 5000 + str(i) for i in range(1000)]
    file.write_bytes(model(tokens, tokenizer__ggml__merges=["a b"] * 300_000).bytes())
    header = read_header(file)
    assert header.vocabulary is not None
    assert header.vocabulary.tokens[-1] == tokens[-1].encode()
    assert str(header.metadata["tokenizer.ggml.merges"]) == "LongArray(kind='string', length=300000)"


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), flips=st.integers(1, 8), cut=st.integers(0, 3000))
def test_damage_anywhere_gives_a_sentence_or_a_header_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, seed: int, flips: int, cut: int
) -> None:
    dice = random.Random(seed)
    content = bytearray(model(size=300).bytes())
    for _ in range(flips):
        content[dice.randrange(min(len(content), 1500))] = dice.randrange(256)
    path = tmp_path_factory.getbasetemp() / "fuzz.gguf"
    path.write_bytes(content[: max(0, len(content) - cut)])
    try:
        header = read_header(path)
    except ModelFileError as error:
        assert error.message
    else:
        assert header.quantisation
        assert header.missing_bytes >= 0
        assert header.head in (None, "draft-mtp", "draft-eagle3", "draft-dflash")


def test_a_head_inside_the_file_is_found(file: Path) -> None:
    tiny = model(architecture="qwen35", qwen35__nextn_predict_layers=1)
    file.write_bytes(tiny.bytes())
    assert read_header(file).head is None
    tiny.tensors["blk.1.nextn.eh_proj.weight"] = 64
    file.write_bytes(tiny.bytes())
    assert read_header(file).head == "draft-mtp"
    assert not read_header(file).is_head_only


@pytest.mark.parametrize(("architecture", "head"), [("dflash", "draft-dflash"), ("eagle3", "draft-eagle3")])
def test_files_that_are_only_a_head_are_told_apart(file: Path, architecture: str, head: str) -> None:
    file.write_bytes(model(architecture=architecture).bytes())
    assert (read_header(file).head, read_header(file).is_head_only) == (head, True)


def whole() -> TinyGguf:
    tiny = model(size=500)
    tiny.tensors |= {"b.weight": 600, "c.weight": 700}
    return tiny


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / part_name("model-Q4_0", index, 3) for index in (1, 2, 3)]
    for path, content in zip(paths, split(whole(), 3), strict=True):
        path.write_bytes(content)
    return paths


def test_any_part_of_a_split_model_leads_to_the_first(parts: list[Path]) -> None:
    for part in parts:
        found = check_file(part)
        assert (found.path, found.parts) == (parts[0], tuple(parts))
        assert found.size == sum(path.stat().st_size for path in parts)
        assert found.weight_bytes == 4 * 1800


def test_missing_parts_are_named(parts: list[Path]) -> None:
    parts[1].unlink()
    assert "is split into 3 parts and model-Q4_0-00002-of-00003.gguf is missing" in refused(parts[0]).message
    assert "model-Q4_0-00002-of-00003.gguf is missing" in refused(parts[2]).message
    parts[2].unlink()
    assert "model-Q4_0-00002-of-00003.gguf and model-Q4_0-00003-of-00003.gguf are missing" in refused(parts[0]).message


def test_a_part_that_is_not_there_is_a_missing_file(parts: list[Path]) -> None:
    for part in parts:
        part.unlink()
    assert "There is no file" in refused(parts[1]).message


def test_parts_under_each_others_names_are_noticed(parts: list[Path]) -> None:
    first, second = parts[0].read_bytes(), parts[1].read_bytes()
    parts[0].write_bytes(second)
    parts[1].write_bytes(first)
    assert "is named as part 1 but holds part 2 of 3" in refused(parts[0]).message


def test_a_part_cut_short_is_named(parts: list[Path]) -> None:
    parts[2].write_bytes(parts[2].read_bytes()[:-100])
    message = refused(parts[0]).message
    assert message.startswith("model-Q4_0-00003-of-00003.gguf is 100 bytes shorter")


def test_parts_joined_with_cat_are_recognised(parts: list[Path], file: Path) -> None:
    file.write_bytes(b"".join(part.read_bytes() for part in parts))
    error = refused(file)
    assert "3 parts of a split model joined end to end" in error.message
    assert "llama-gguf-split --merge" in error.hint


def test_a_renamed_part_is_recognised(parts: list[Path], tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.gguf"
    for index, part in enumerate(parts):
        renamed.write_bytes(part.read_bytes())
        assert f"is part {index + 1} of 3 of a split model, under a name" in refused(renamed).message


def test_a_whole_model_named_like_a_part_is_recognised(tmp_path: Path) -> None:
    for index in (1, 2):
        (tmp_path / part_name("m", index, 2)).write_bytes(whole().bytes())
    assert "is a whole model, but its name says 2 parts" in refused(tmp_path / part_name("m", 1, 2)).message


def test_parts_of_different_models_are_noticed(parts: list[Path]) -> None:
    other = whole()
    other.tensors["d.weight"] = 10
    parts[2].write_bytes(split(other, 3)[1])
    assert refused(parts[0]).message


def test_a_part_with_fewer_tensors_than_promised_is_noticed(parts: list[Path]) -> None:
    keys: dict[str, object] = {"split.no": 2, "split.count": 3, "split.tensors.count": 3}
    parts[2].write_bytes(TinyGguf(keys, {}).bytes())
    assert "hold 2 tensors where the first one promises 3" in refused(parts[0]).message


def split_for_real(whole: Path, folder: Path, parts: int) -> list[Path]:
    """A loadable model in parts, as llama.cpp's own tool would write them."""
    header = read_header(whole)
    content = whole.read_bytes()
    first = content.index(string(header.tensors[0].name) + struct.pack("<I", len(header.tensors[0].shape)))
    keys = content[24:first]
    per_part = -(-len(header.tensors) // parts)
    paths = []
    for number in range(parts):
        chosen = header.tensors[number * per_part : (number + 1) * per_part]
        numbers = (
            struct.pack("<IH", 2, number),
            struct.pack("<IH", 2, parts),
            struct.pack("<Ii", 5, len(header.tensors)),
        )
        names = ("split.no", "split.count", "split.tensors.count")
        extra = b"".join(string(name) + value for name, value in zip(names, numbers, strict=True))
        infos, data = b"", b""
        for tensor in chosen:
            shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
            kind = next(number for number, found in GGML_TYPES.items() if found == tensor.type)
            infos += string(tensor.name) + shape + struct.pack("<IQ", kind, len(data))
            start = header.data_offset + tensor.offset
            data += padded(content[start : start + tensor.size])
        count = struct.pack("<IQQ", 3, len(chosen), 3 + (len(header.metadata) if number == 0 else 0))
        paths.append(folder / part_name("model", number + 1, parts))
        paths[-1].write_bytes(padded(b"GGUF" + count + (keys if number == 0 else b"") + extra + infos) + data)
    return paths


@pytest.mark.model
def test_a_real_model_in_parts_is_loaded_from_whichever_part_is_named(demo_model: Path, tmp_path: Path) -> None:
    from edgespec.engine.client import Engine

    paths = split_for_real(demo_model, tmp_path, 3)
    found = check_file(paths[1])
    assert (found.path, found.weight_bytes) == (paths[0], read_header(demo_model).weight_bytes)
    with Engine.open(paths[1], n_ctx=256, threads=1) as engine:
        assert engine.loaded.target.path == str(paths[0])
        assert engine.loaded.target.n_params == read_header(demo_model).parameters


@pytest.mark.parametrize(
    "name", ["m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-1-of-3.gguf", "m-00001-of-00003.GGUF"]
)
def test_look_alike_names_are_no_parts(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(model().bytes())
    assert check_file(tmp_path / name).parts == (tmp_path / name,)


KINDS = {
    "a projector for images or sound (mmproj)": model(architecture="clip"),
    "an adapter (LoRA) for a model": model(general__type="adapter"),
    "an importance matrix for quantising": model(general__type="imatrix"),
    "a drafting head (draft-eagle3) for another model": model(architecture="eagle3"),
    "a vocabulary without weights": TinyGguf(model().metadata, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_gguf_that_is_no_language_model_says_what_it_is(file: Path, kind: str) -> None:
    file.write_bytes(KINDS[kind].bytes())
    assert refused(file).message == f"m.gguf is {kind}, not a language model."
    assert check_gguf(file).header.quantisation
