"""The built-in prompts, and those of a user's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.errors import SettingsError
from edgespec.prompts import built_in_prompts, parse_blocks, read_prompts, select


def test_the_built_in_set_has_the_eight_kinds_of_work() -> None:
    prompts = built_in_prompts()
    assert [prompt.id for prompt in prompts] == [
        "code-edit", "new-code", "story", "summary", "json", "list", "translation", "arithmetic"
    ]  # fmt: skip
    assert all(prompt.title and prompt.kind and prompt.text == prompt.text.strip() for prompt in prompts)
    assert len({prompt.text for prompt in prompts}) == len(prompts)


def test_a_text_file_holds_a_prompt_in_every_block() -> None:
    prompts = parse_blocks("\r\n\r\nOne\r\nmore line\r\n \t\r\n\r\nTwo\r\n")
    assert [prompt.text for prompt in prompts] == ["One\nmore line", "Two"]
    assert [prompt.id for prompt in prompts] == ["prompt-1", "prompt-2"]
    assert prompts[0].title == "One more line"


def test_a_long_prompt_has_a_short_title() -> None:
    assert len(parse_blocks("word " * 100)[0].title) <= 48


def test_a_toml_file_may_name_what_it_asks(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[prompt]]\ntext = "A"\n[[prompt]]\nid = "b"\ntitle = "T"\nkind = "K"\ntext = """\nB\n"""\n')
    first, second = read_prompts(path)
    assert (first.id, first.title, first.kind, first.text) == ("prompt-1", "A", "own", "A")
    assert (second.id, second.title, second.kind, second.text) == ("b", "T", "K", "B")


@pytest.mark.parametrize(
    "text",
    [
        "", "x = 1", "prompt = 3", "[[prompt]]", "[[prompt]]\ntext = 3", "[[prompt]]\ntext = ' '", "not toml",
        "[[prompt]]\ntext = 'a'\ncolour = 'b'", "[[prompt]]\ntext='a'\nid='x'\n[[prompt]]\ntext='b'\nid='x'",
    ],
)  # fmt: skip
def test_a_file_that_is_not_prompts_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"mine\.toml"):
        read_prompts(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"\xff")
    (tmp_path / "empty.txt").write_text(" \n\n ")
    for name in ("none.txt", "x.txt", "empty.txt", "."):
        with pytest.raises(SettingsError):
            read_prompts(tmp_path / name)


def test_prompts_are_selected_by_id() -> None:
    prompts = built_in_prompts()
    assert [prompt.id for prompt in select(prompts, ["list", "story"])] == ["story", "list"]
    with pytest.raises(SettingsError, match="'poem'"):
        select(prompts, ["poem"])
