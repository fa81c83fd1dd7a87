"""The app on a scripted engine, with everything frozen that would make two pictures of it differ."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Event as Flag

import pytest
from edgespec_tui import memory
from edgespec_tui.app import EdgeSpecApp
from scripted_engine import Opener, ScriptedEngine, Step
from textual.pilot import Pilot

from edgespec.engine.messages import GenerateOptions, Loaded, LoadOptions
from edgespec.types import Mode

MakeApp = Callable[..., EdgeSpecApp]


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TEXTUAL_THEME", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(memory, "in_use", lambda pid: (5_100_000_000, 16_000_000_000))


@pytest.fixture
def make_app() -> MakeApp:
    """Builds the app: scripts for the replies, and what loading brings."""

    def make(
        *scripts: list[Step],
        loaded: Loaded | None = None,
        error: Exception | None = None,
        gate: Flag | None = None,
        mode: Mode = Mode.LOOKUP,
        theme: str = "textual-dark",
        system: str | None = None,
        notices: tuple[str, ...] = (),
        allow_fallback: bool = False,
    ) -> EdgeSpecApp:
        engine = ScriptedEngine(deque(scripts))
        if loaded is not None:
            engine.loaded = loaded
        app = EdgeSpecApp(
            LoadOptions("/models/tiny.gguf"), GenerateOptions(mode=mode),
            system=system, notices=notices, allow_fallback=allow_fallback, opener=Opener(engine, error, gate),
        )  # fmt: skip
        app.theme = theme
        app.animation_level = "none"
        app.engine = engine  # type: ignore[attr-defined]
        return app

    return make


async def until(pilot: Pilot[None], true: Callable[[], object], tries: int = 4000) -> None:
    """Let the app run until something is so."""
    for _ in range(tries):
        if true():
            await pilot.pause()
            return
        await pilot.pause(0.005)
    raise AssertionError("it never became so")
