"""Pictures of the token cursor; run pytest with --snapshot-update after a wanted change."""

from __future__ import annotations

import pytest
from conftest import MakeApp
from scripted_engine import loaded, model, reply, words
from test_pictures import Compare, asking
from test_token_cursor import DETAILED


@pytest.mark.parametrize("size", [(80, 24), (110, 32), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_rejected_token(make_app: MakeApp, snap_compare: Compare, size: tuple[int, int]) -> None:
    """The cursor on a token that was thrown away; borders between passes, and the line that tells about it."""
    app = make_app(reply(words("Of course.")), reply(DETAILED), loaded=loaded(draft=model("Tiny 135M Q8_0")))
    run = asking("Can you edit code?", "Rename values to data.", keys=("f12", *["right"] * 6))
    assert snap_compare(app, terminal_size=size, run_before=run)


def test_without_colour(make_app: MakeApp, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor is to be seen without colour."""
    monkeypatch.setenv("NO_COLOR", "1")
    run = asking("Rename it.", keys=("f12", *["right"] * 6))
    assert snap_compare(make_app(reply(DETAILED)), terminal_size=(80, 24), run_before=run)
