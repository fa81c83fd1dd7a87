"""Sessions on real caches: plain, sliding window, recurrent, hybrid."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from edgespec.decoding.session import prefill
from edgespec.errors import ContextFullError, DecodeError, ModelLoadError, SettingsError
from edgespec.llama.library import library
from edgespec.llama.model import LlamaModel
from edgespec.llama.session import LlamaSession

pytestmark = pytest.mark.model
Tiny = Callable[[str], LlamaModel]
EVERY_MEMORY = ("llama", "gemma3", "mamba", "lfm2", "jamba")
TIE = 1e-3
ROUNDING = 2e-2
"""Kernels differ with the width of a pass, and the cache holds 16-bit numbers; a wrong cache is off by whole units."""


def text(n: int, seed: int = 0) -> list[int]:
    """Ordinary token ids of the tiny vocabulary, at random."""
    return np.random.default_rng(seed).integers(10, 250, n).tolist()


def fill(session: LlamaSession, tokens: Sequence[int]) -> None:
    for _ in prefill(session, tokens, lambda: False):
        pass


def fresh(model: LlamaModel, tokens: Sequence[int], **options: int) -> NDArray[np.float32]:
    """Logits after these tokens from a session that has seen nothing else."""
    with LlamaSession(model, n_ctx=1024, threads=1, **options) as session:
        fill(session, tokens[:-1])
        return session.decode(tokens[-1:])[0].copy()


def agree(a: NDArray[np.float32], b: NDArray[np.float32]) -> bool:
    """The same likeliest token, or a tie between the two."""
    first, second = int(a.argmax()), int(b.argmax())
    return first == second or abs(float(a[first] - a[second])) < TIE


def test_wide_passes_agree_with_one_token_at_a_time(demo: LlamaModel) -> None:
    words = "The quick brown fox jumps over the lazy dog and runs away from the farm."
    tokens = demo.vocab.tokenize(words, add_special=True, parse_special=False)[:16]
    with LlamaSession(demo, n_ctx=256, threads=1) as session:
        narrow = [session.decode([token])[0].copy() for token in tokens]
        for width in (2, 3, 4, 8, 16):
            session.truncate(0)
            for start in range(0, len(tokens), width):
                rows = session.decode(tokens[start : start + width])
                for i, row in enumerate(rows):
                    assert agree(narrow[start + i], row)
            assert list(session.tokens) == tokens


@pytest.mark.parametrize("arch", EVERY_MEMORY)
def test_a_pass_in_parts_continues_the_text(tiny: Tiny, arch: str) -> None:
    tokens = text(40)
    with LlamaSession(tiny(arch), threads=1, n_ctx=256, n_batch=7) as session:
        fill(session, tokens[:-1])
        assert session.length == 39
        np.testing.assert_allclose(session.decode(tokens[-1:])[0], fresh(tiny(arch), tokens), atol=ROUNDING)


@pytest.mark.parametrize("arch", ["llama", "gemma3", "lfm2"])
def test_going_back_leaves_no_trace_of_what_was_dropped(tiny: Tiny, arch: str) -> None:
    tokens = text(60)
    with LlamaSession(tiny(arch), threads=1, n_ctx=256) as session:
        fill(session, tokens[:50])
        session.decode([tokens[50], tokens[51], 7, 8, 9])  # the last three are to be rejected
        session.truncate(52)
        assert list(session.tokens) == tokens[:52]
        np.testing.assert_allclose(session.decode([tokens[52]])[0], fresh(tiny(arch), tokens[:53]), atol=ROUNDING)


def test_a_prefix_is_reused_and_the_rest_replaced(tiny: Tiny) -> None:
    first, second = text(80), [*text(80)[:50], *text(20, seed=1)]
    with LlamaSession(tiny("llama"), threads=1, n_ctx=256) as session:
        fill(session, first)
        assert session.reusable(50) == 50
        fill(session, second[:-1])
        np.testing.assert_allclose(session.decode(second[-1:])[0], fresh(tiny("llama"), second), atol=ROUNDING)


@pytest.mark.parametrize("arch", ["mamba", "jamba"])
def test_a_memory_without_history_keeps_all_or_nothing(tiny: Tiny, arch: str) -> None:
    with LlamaSession(tiny(arch), threads=1, n_ctx=256) as session:
        assert session.max_rewind == 0
        assert not session.can_rewind
        assert session.max_batch == 1
        fill(session, text(20))
        assert session.reusable(20) == 20
        assert session.reusable(19) == 0
        with pytest.raises(DecodeError, match="cannot go back"):
            session.truncate(19)
        assert session.length == 20
        fill(session, text(30, seed=1)[:-1])
        np.testing.assert_allclose(
            session.decode(text(30, seed=1)[-1:])[0], fresh(tiny(arch), text(30, seed=1)), atol=ROUNDING
        )


def test_snapshots_go_back_within_the_latest_pass_once(tiny: Tiny) -> None:
    with LlamaSession(tiny("lfm2"), threads=1, n_ctx=256, max_draft=16, n_rs_seq=4) as session:
        assert session.max_rewind == 4
        assert session.max_batch == 5
        fill(session, text(20))
        session.decode([11])
        assert session.reusable(20) == 0  # a pass of one token has one snapshot: older ones are stale
        session.decode([11, 12, 13])
        assert session.reusable(22) == 22
        assert session.reusable(21) == 0
        session.truncate(23)
        assert session.reusable(22) == 0  # the snapshots are good for one rewind
        session.truncate(0)
        assert session.length == 0


def test_models_without_snapshots_ignore_the_wish_for_them(tiny: Tiny) -> None:
    with LlamaSession(tiny("mamba"), threads=1, n_ctx=256, n_rs_seq=4) as session:
        assert session.max_rewind == 0


def test_a_sliding_window_forgets_and_says_so(tiny: Tiny) -> None:
    model = tiny("gemma3")
    assert model.n_swa > 0
    tokens, other = text(900), text(300, seed=1)
    with LlamaSession(model, n_ctx=1024, n_batch=64, n_ubatch=64) as session:
        assert session.max_rewind is None
        fill(session, tokens)
        assert session.reusable(890) == 890
        assert session.reusable(200) == 0
        edited = [*tokens[:200], *other]
        fill(session, edited[:-1])
        np.testing.assert_allclose(session.decode(edited[-1:])[0], fresh(model, edited), atol=ROUNDING)


@pytest.mark.parametrize("back", [1, 5, 30])
def test_a_sliding_window_goes_back_as_far_as_a_draft(tiny: Tiny, back: int) -> None:
    tokens = text(700)
    with LlamaSession(tiny("gemma3"), threads=1, n_ctx=1024, n_batch=64, n_ubatch=64) as session:
        fill(session, tokens)
        for token in text(back, seed=2):  # as a draft model does: one token a pass, then back
            session.decode([token])
        assert session.reusable(700) == 700
        session.truncate(700)
        np.testing.assert_allclose(session.decode([9])[0], fresh(tiny("gemma3"), [*tokens, 9]), atol=ROUNDING)


def test_gemma_answers_alike_after_going_back_within_and_beyond_its_window(gemma: LlamaModel) -> None:
    words = "Rivers carry stones down from the mountains, and the stones become sand. " * 60
    tokens = gemma.vocab.tokenize(words, add_special=True, parse_special=False)[:700]
    edited = [*tokens[:100], *tokens[300:420]]
    with LlamaSession(gemma, n_ctx=1024, threads=1) as session:
        fill(session, tokens)
        session.decode(tokens[5:9])
        session.truncate(700)
        near = session.decode([tokens[7]])[0].copy()
        session.truncate(700)
        fill(session, edited[:-1])
        far = session.decode(edited[-1:])[0].copy()
    assert agree(near, fresh(gemma, [*tokens, tokens[7]]))
    assert agree(far, fresh(gemma, edited))


@pytest.mark.parametrize("n_batch", [1, 8, 64, 512])
def test_the_batch_size_changes_chunks_not_replies(tiny: Tiny, n_batch: int) -> None:
    tokens = text(80)
    with LlamaSession(tiny("llama"), threads=1, n_ctx=256, n_batch=n_batch) as session:
        assert session.chunk == min(n_batch, 256)
        fill(session, tokens[:-1])
        rows = session.decode([tokens[-1], *text(10, seed=3)])
        np.testing.assert_allclose(rows[0], fresh(tiny("llama"), tokens), atol=ROUNDING)


def test_a_full_context_is_refused_before_llama_cpp_sees_it(tiny: Tiny) -> None:
    with LlamaSession(tiny("llama"), threads=1, n_ctx=64) as session:
        assert session.n_ctx == 64
        session.prefill(text(60))
        with pytest.raises(ContextFullError, match="60 of 64"):
            session.decode(text(5))
        assert session.length == 60
        session.decode(text(4))
        with pytest.raises(ContextFullError):
            session.prefill([1])


@pytest.mark.parametrize("count", [0, 34])
def test_a_pass_of_an_impossible_size_is_refused(tiny: Tiny, count: int) -> None:
    with (
        LlamaSession(tiny("llama"), threads=1, n_ctx=256, max_draft=32) as session,
        pytest.raises(ValueError, match="1 to 33"),
    ):
        session.decode(text(count))


@pytest.mark.parametrize("token", [-1, 10**6])
@pytest.mark.parametrize("arch", EVERY_MEMORY)
def test_ids_outside_the_vocabulary_are_refused_and_leave_the_cache_as_it_was(
    tiny: Tiny, arch: str, token: int
) -> None:
    with LlamaSession(tiny(arch), threads=1, n_ctx=256) as session:
        fill(session, text(10))
        for call in (session.decode, session.prefill):
            with pytest.raises(ValueError, match="token ids"):
                call([token])
        assert list(session.tokens) == text(10)
        np.testing.assert_allclose(session.decode([9])[0], fresh(tiny(arch), [*text(10), 9]), atol=ROUNDING)


@pytest.mark.parametrize("arch", EVERY_MEMORY)
def test_a_pass_that_fails_in_the_middle_leaves_a_true_account_of_the_cache(tiny: Tiny, arch: str) -> None:
    lib = library()
    prototype = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)
    set_abort = lib._handles[0]["llama_set_abort_callback"]
    set_abort.restype, set_abort.argtypes = None, [ctypes.c_void_p, prototype, ctypes.c_void_p]
    stop = prototype(lambda _: True)
    with LlamaSession(tiny(arch), threads=1, n_ctx=256) as session:
        fill(session, text(20))
        set_abort(session._handle, stop, None)
        with pytest.raises(DecodeError, match="interrupted"):
            session.prefill(text(10, seed=1))
        set_abort(session._handle, prototype(), None)
        assert list(session.tokens) == text(20)[: session.length]
        tokens = [*text(20), *text(5, seed=4)]
        fill(session, tokens[:-1])
        np.testing.assert_allclose(session.decode(tokens[-1:])[0], fresh(tiny(arch), tokens), atol=ROUNDING)


def test_the_logits_are_a_view_and_only_a_rounds_worth_is_reserved(gemma: LlamaModel) -> None:
    with LlamaSession(gemma, n_ctx=512, max_draft=4) as session:
        session.prefill([2, 5, 6, 7])
        rows = session.decode([8, 9])
        assert not rows.flags.owndata
        assert session.decode([10])[0].ctypes.data == rows.ctypes.data
        compute = [line for line in library().log.lines() if "compute buffer size" in line]
        assert float(compute[-1].split("=")[1].split()[0]) < 40  # 512 rows of logits alone would be 512 MiB


def test_views_follow_the_logits_when_their_buffer_moves(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    with LlamaSession(tiny("llama"), threads=1, n_ctx=256) as session:
        session.decode([9])
        elsewhere = np.arange(session.n_vocab, dtype=np.float32)
        with monkeypatch.context() as patch:
            patch.setattr(session, "_logits_c", lambda _: elsewhere.ctypes.data)
            np.testing.assert_array_equal(session.decode([9])[0], elsewhere)
        np.testing.assert_allclose(session.decode([9])[0], fresh(tiny("llama"), [9, 9, 9]), atol=ROUNDING)


def test_warming_up_leaves_an_empty_cache(tiny: Tiny) -> None:
    for arch in EVERY_MEMORY:
        with LlamaSession(tiny(arch), threads=1, n_ctx=256) as session:
            session.warm_up()
            assert session.length == 0
            np.testing.assert_allclose(session.decode([9])[0], fresh(tiny(arch), [9]), atol=ROUNDING)


@pytest.mark.parametrize("n_ctx", [1, 2, 5])
def test_contexts_of_a_few_tokens_work(tiny: Tiny, n_ctx: int) -> None:
    for arch in EVERY_MEMORY:
        with LlamaSession(tiny(arch), threads=1, n_ctx=n_ctx) as session:
            session.warm_up()
            assert session.decode([9]).shape == (1, session.n_vocab)


def test_a_context_beyond_what_the_model_was_trained_for_is_allowed(tiny: Tiny) -> None:
    with LlamaSession(tiny("llama"), threads=1, n_ctx=8192) as session:
        assert session.n_ctx > session.n_ctx_train


def test_a_quantised_v_cache_works_with_flash_attention_and_is_refused_without(tiny: Tiny) -> None:
    with pytest.raises(SettingsError, match="flash attention"):
        LlamaSession(tiny("llama"), threads=1, n_ctx=256, type_v="q8_0", flash_attention="off")
    with LlamaSession(tiny("llama"), threads=1, n_ctx=256, type_k="q8_0", type_v="q8_0") as session:
        assert np.isfinite(session.decode([9])).all()


def test_a_context_that_no_memory_holds_is_refused_with_the_reason(tiny: Tiny) -> None:
    with pytest.raises(ModelLoadError, match="context of 2,000,000,000 tokens"):
        LlamaSession(tiny("llama"), threads=1, n_ctx=2_000_000_000)


def test_numbers_that_are_no_numbers_are_not_handed_on(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    with LlamaSession(tiny("llama"), threads=1, n_ctx=256) as session:
        session.decode([9])[:] = np.nan
        monkeypatch.setattr(session, "_decode_c", lambda *_: 0)
        with pytest.raises(DecodeError, match="NaN"):
            session.decode([9])


def test_a_closed_session_says_so(tiny: Tiny) -> None:
    session = LlamaSession(tiny("llama"), threads=1, n_ctx=64)
    session.close()
    session.close()
    for call in (session.decode, session.prefill):
        with pytest.raises(DecodeError, match="closed"):
            call([1])
