"""Pieces longer than the room that is first offered for them."""

from __future__ import annotations

import numpy as np
import pytest

from edgespec.llama.model import LlamaModel

pytestmark = pytest.mark.model


def test_a_piece_that_needs_more_room_is_read_again_whole(demo: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.vocab, "_buffer", np.zeros(4, dtype=np.uint8))
    monkeypatch.setattr(demo.vocab, "_pieces", {})
    assert demo.vocab.piece(15069) == b"-" * 64
