"""A stub Hub for every test that wants one, and files to serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stub_hub import StubHub, serve
from tiny_gguf_bytes import model

from edgespec.models import hub as hub_module
from edgespec.models.events import DownloadEvent
from edgespec.models.hub import Hub, HubOptions

REPO = "maker/Tiny-GGUF"
NAME = "Tiny-Q8_0.gguf"


@pytest.fixture(autouse=True)
def quiet_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No proxy of this machine, no pauses, and a fresh connection pool."""
    import huggingface_hub

    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr(hub_module, "BACKOFF", 0.0)
    huggingface_hub.close_session()
    yield
    huggingface_hub.close_session()


@pytest.fixture
def content() -> bytes:
    return model(size=60_000).bytes()


@pytest.fixture
def stub(content: bytes) -> Iterator[StubHub]:
    with serve(StubHub({REPO: {"README.md": b"# Tiny", NAME: content}})) as server:
        yield server


@pytest.fixture
def options(stub: StubHub, tmp_path: Path) -> HubOptions:
    return HubOptions(stub.url, tmp_path / "cache")


@pytest.fixture
def hub(options: HubOptions) -> Hub:
    return Hub(options)


@pytest.fixture
def events() -> list[DownloadEvent]:
    return []
