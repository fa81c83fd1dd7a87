"""`user/repo:QUANT` means the file that llama.cpp would take, whatever the order of a repository's listing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgespec.models.quant import (
    HEAD_WORDS,
    Reference,
    all_parts,
    choose_head,
    choose_model,
    is_model,
    parse_file_name,
    parse_reference,
    tags,
)

# Listings shaped like repositories that exist: flat; in folders and split; heads without their model's quantisation.
FLAT = [
    "README.md", "model-BF16.gguf", "model-Q4_K_M.gguf", "model-Q8_0.gguf", "mmproj-model-BF16.gguf",
    "mmproj-model-Q8_0.gguf", "mtp-model-BF16.gguf", "mtp-model-Q4_0.gguf", "mtp-model-Q8_0.gguf",
    "dflash-model-BF16.gguf", "dflash-model-Q8_0.gguf",
]  # fmt: skip
FOLDERS = [
    "mmproj-model-f16.gguf", "model-mtp-BF16.gguf", "model-mtp-Q8_0.gguf",
    *(f"Q3_K_M/model-Q3_K_M-{i:05d}-of-00003.gguf" for i in (1, 2, 3)),
    *(f"Q8_0/model-Q8_0-{i:05d}-of-00002.gguf" for i in (1, 2)),
]  # fmt: skip
HOLE = [name for name in FLAT if name.endswith(".gguf") and not name.startswith("mmproj")]
UPPER = ["model-UD-Q8_K_XL.gguf", "mmproj-BF16.gguf", "model-MTP-BF16.gguf"]
VENDORS = ["Vendor_Model-24B-v4.1-Q8_0.gguf", "Other-24B.Q8_0.gguf"]
EVERY_HEAD = ["model-Q8_0.gguf", *(f"{word}-model-Q8_0.gguf" for word in ("mtp", "dflash", "eagle3", "dspark"))]
SPARK = ["README.md", "model-MXFP4.gguf", "dspark-model-BF16.gguf", "dspark-model-MXFP4.gguf"]
PARTS = [f"Q3_K_M/model-Q3_K_M-{i:05d}-of-00003.gguf" for i in (1, 2, 3)]

# listing, tag, model, its parts, then the head of each kind (mmproj, mtp, dflash, eagle3, dspark); None means none.
CASES = {
    "exact tag": (FLAT, "Q8_0", "model-Q8_0.gguf", None,
                  ("mmproj-model-Q8_0.gguf", "mtp-model-Q8_0.gguf", "dflash-model-Q8_0.gguf", None, None)),
    "no tag": (FLAT, "", "model-Q4_K_M.gguf", None, None),
    "parts of a split model": (FOLDERS, "Q3_K_M", PARTS[0], PARTS,
                               ("mmproj-model-f16.gguf", "model-mtp-Q8_0.gguf", None, None, None)),
    "heads without a model": (HOLE, "Q4_0", None, None,
                              (None, "mtp-model-Q4_0.gguf", "dflash-model-Q8_0.gguf", None, None)),
    "no tag anchors the heads": (HOLE, "", "model-Q4_K_M.gguf", None,
                                 (None, "mtp-model-Q4_0.gguf", "dflash-model-Q8_0.gguf", None, None)),
    "upper-case MTP is no head": (UPPER, "Q8_K_XL", "model-UD-Q8_K_XL.gguf", None,
                                  ("mmproj-BF16.gguf", None, None, None, None)),
    "every head": (EVERY_HEAD, "Q8_0", "model-Q8_0.gguf", None,
                   (None, "mtp-model-Q8_0.gguf", "dflash-model-Q8_0.gguf", "eagle3-model-Q8_0.gguf",
                    "dspark-model-Q8_0.gguf")),
    "the only quantisation": (SPARK, "", "model-MXFP4.gguf", None, (None, None, None, None, "dspark-model-MXFP4.gguf")),
    "head of another tag": (SPARK, "BF16", None, None, (None, None, None, None, "dspark-model-BF16.gguf")),
}  # fmt: skip
WORDS = ("mmproj", "mtp-", "dflash-", "eagle3-", "dspark-")


def orders(files: list[str]) -> Iterator[list[str]]:
    """The listing turned around in every way the rules must not care about."""
    for turn in range(len(files)):
        turned = files[turn:] + files[:turn]
        yield turned[::-1] if turn % 2 else turned


@pytest.mark.parametrize("case", CASES)
def test_the_same_files_as_llama_cpp_in_any_order(case: str) -> None:
    files, tag, model, parts, heads = CASES[case]
    for listing in orders(files):
        chosen = choose_model(listing, tag)
        assert chosen == model
        if chosen is not None:
            assert all_parts(listing, chosen) == (parts or [chosen])
        for word, head in zip(WORDS, heads or (), strict=bool(heads)):
            if word == "mmproj" and chosen is None:
                continue
            assert choose_head(listing, chosen, word, "" if word == "mmproj" else tag) == head


def test_two_models_with_the_tag_give_the_first_of_the_listing() -> None:
    assert choose_model(VENDORS, "Q8_0") == VENDORS[0]
    assert choose_model(VENDORS[::-1], "Q8_0") == VENDORS[1]


def test_without_tag_and_defaults_the_first_model_counts() -> None:
    assert choose_model(UPPER) == "model-UD-Q8_K_XL.gguf"


def test_half_a_tag_matches_nothing() -> None:
    assert choose_model(["m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "mmproj-m-Q4.gguf", "mtp-m-Q4.gguf"], "Q4") is None


def test_tags_ignore_case_and_names_do_not() -> None:
    assert choose_model(["m-q4_k_m.gguf"], "Q4_K_M") == "m-q4_k_m.gguf"
    assert choose_model(["m-Q4_K_M.GGUF"], "Q4_K_M") is None


@pytest.mark.parametrize("name", ["mmproj-m.gguf", "m-imatrix.gguf", "mtp-m.gguf", "m-mtp-Q4_0.gguf", "eagle3-m.gguf",
                                  "dflash-m.gguf", "dspark-m.gguf", "m.safetensors", "m.gguf.part"])  # fmt: skip
def test_what_is_no_model_is_never_chosen(name: str) -> None:
    assert not is_model(name)
    assert choose_model([name]) is None


def test_a_folder_named_like_a_head_is_no_obstacle() -> None:
    assert is_model("mtp-files/m-Q4_0.gguf")


def test_every_kind_of_head_has_a_word() -> None:
    assert set(HEAD_WORDS.values()) == {word for word in WORDS if word != "mmproj"}


def test_tags_for_a_message_come_once_each() -> None:
    assert tags(FOLDERS) == ["Q3_K_M", "Q8_0"]
    assert tags(["odd.name with space.gguf"]) == ["odd.name with space.gguf"]


def test_a_file_names_parts() -> None:
    name = parse_file_name("Q8_0/m-Q8_0-00002-of-00003.gguf")
    assert name is not None
    assert (name.prefix, name.tag, name.index, name.count) == ("Q8_0/m-Q8_0", "Q8_0", 2, 3)
    assert parse_file_name("README.md") is None


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("https://huggingface.co/user/repo", "user/repo"),
        ("https://huggingface.co/user/repo/tree/main", "user/repo"),
        ("hf.co/user/repo:Q8_0", "user/repo:Q8_0"),
        ("https://huggingface.co/user/repo/blob/main/sub/m.gguf", "user/repo/sub/m.gguf"),
        ("https://huggingface.co/user/repo/resolve/main/m.gguf?download=true", "user/repo/m.gguf"),
    ],
)
def test_an_address_copied_from_a_browser_is_understood(address: str, meant: str) -> None:
    assert str(parse_reference(address)) == meant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user/repo", Reference("user/repo")),
        ("user/repo:Q4_K_M", Reference("user/repo", "Q4_K_M")),
        ("user/Repo-1.5_GGUF:UD-Q4_K_XL", Reference("user/Repo-1.5_GGUF", "UD-Q4_K_XL")),
        ("user/repo/m.gguf", Reference("user/repo", file="m.gguf")),
        ("user/repo/Q8_0/m name.gguf", Reference("user/repo", file="Q8_0/m name.gguf")),
        ("user", None),
        ("user/repo:", None),
        ("user/repo:a:b", None),
        ("a/b/c", None),
        ("/abs/file.gguf", None),
        ("../x/y.gguf", None),
        ("https://example.com/user/repo", None),
        ("user/repo/blob/main", None),
        ("", None),
    ],
)
def test_references_are_read_strictly(text: str, expected: Reference | None) -> None:
    assert parse_reference(text) == expected
    if expected is not None:
        assert str(expected) == text
