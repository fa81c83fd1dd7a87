"""Settings: where they come from, which wins, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.errors import SettingsError
from edgespec.settings import ALL_LAYERS, Settings, load_settings, settings_path


def from_file(tmp_path: Path, text: str, flags: dict[str, object] | None = None, **environ: str) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(flags, {"EDGESPEC_CONFIG": str(path), **environ})


def test_without_anything_set_the_defaults_hold() -> None:
    assert load_settings({}, {"XDG_CONFIG_HOME": "/nonexistent"}) == Settings()


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    text = "draft_length = 1\ntop_k = 1\nthreads = 1"
    settings = from_file(tmp_path, text, {"draft_length": 3}, EDGESPEC_DRAFT_LENGTH="2", EDGESPEC_TOP_K="2")
    assert (settings.draft_length, settings.top_k, settings.threads, settings.ctx) == (3, 2, 1, 0)


def test_a_flag_of_zero_or_false_counts_as_given(tmp_path: Path) -> None:
    settings = from_file(tmp_path, "safe_mode = true\ndraft_length = 9", {"safe_mode": False, "draft_length": 0})
    assert (settings.safe_mode, settings.draft_length) == (False, 0)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("temprature = 1", "temprature"),
        ("draft-length = 1", "draft-length"),
        ("draft_length = 33", "draft_length"),
        ("draft_length = '4'", "draft_length"),
        ("draft_length = true", "draft_length"),
        ("temperature = nan", "temperature"),
        ("top_p = 1.5", "top_p"),
        ("repeat_penalty = 0", "repeat_penalty"),
        ("max_tokens = 0", "max_tokens"),
        ("seed = 4294967295", "seed"),
        ("mode = 'fast'", "mode"),
        ("mode = ['plain']", "mode"),
        ("stop = 'x'", "stop"),
        ("stop = ['']", "stop"),
        ("model = 1", "model"),
        ("safe_mode = 'yes'", "safe_mode"),
        ("gpu_layers = -1", "gpu_layers"),
        ("gpu_layers = 'some'", "gpu_layers"),
    ],
)
def test_an_unusable_entry_names_file_and_key(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        from_file(tmp_path, text)
    assert str(tmp_path / "config.toml") in caught.value.message
    assert repr(key) in caught.value.message


def test_a_misspelt_key_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        from_file(tmp_path, "temprature = 1")
    assert "'temperature'" in caught.value.hint


@pytest.mark.parametrize("text", ["temperature = ", "= 1", "a\x00"])
def test_a_file_that_is_not_toml_is_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="TOML"):
        from_file(tmp_path, text)


def test_a_file_that_is_not_text_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"model = '\xff'")
    with pytest.raises(SettingsError, match="UTF-8"):
        load_settings({}, {"EDGESPEC_CONFIG": str(path)})


def test_a_settings_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no settings file"):
        load_settings({}, {"EDGESPEC_CONFIG": str(tmp_path / "none.toml")})
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings({}, {"EDGESPEC_CONFIG": str(tmp_path)})


def test_the_settings_file_lies_in_the_users_configuration_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings_path({}).name == "config.toml"
    assert settings_path({"EDGESPEC_CONFIG": "~/x.toml"}) == Path.home() / "x.toml"


@pytest.mark.parametrize(
    ("name", "text"),
    [("TEMPERATURE", "hot"), ("MODE", "fast"), ("SAFE_MODE", "perhaps"), ("DRAFT_LENGTH", "-1"), ("TOP_P", "inf")],
)
def test_an_unusable_variable_is_named(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"EDGESPEC_{name}"):
        load_settings({}, {f"EDGESPEC_{name}": text, "XDG_CONFIG_HOME": "/nonexistent"})


def test_texts_of_the_environment_become_values(tmp_path: Path) -> None:
    settings = from_file(
        tmp_path, "", None,
        EDGESPEC_GPU_LAYERS="all", EDGESPEC_SAFE_MODE="on", EDGESPEC_STOP="END", EDGESPEC_TEMPERATURE="0.5",
        EDGESPEC_MODEL="",
    )  # fmt: skip
    assert settings == Settings(gpu_layers=ALL_LAYERS, safe_mode=True, stop=("END",), temperature=0.5)


def test_another_model_does_not_inherit_the_draft_model_of_the_configured_one(tmp_path: Path) -> None:
    text = "model = 'big'\ndraft = 'small'"
    assert from_file(tmp_path, text).draft == "small"
    assert from_file(tmp_path, text, {"model": "other"}).draft is None
    assert from_file(tmp_path, text, {"pair": "p"}) == Settings(pair="p")
    assert from_file(tmp_path, text, {"draft": "tiny"}) == Settings(model="big", draft="tiny")
    assert from_file(tmp_path, text, None, EDGESPEC_MODEL="other").draft is None


def test_a_model_and_a_pair_in_one_place_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--model and --pair"):
        from_file(tmp_path, "", {"model": "a", "pair": "b"})


def test_the_shortest_match_must_not_be_longer_than_the_longest() -> None:
    with pytest.raises(SettingsError, match="min-ngram"):
        load_settings({"min_ngram": 9, "max_ngram": 4}, {"XDG_CONFIG_HOME": "/nonexistent"})
