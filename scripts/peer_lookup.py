"""llama-cpp-python's own prompt lookup, for scripts/bench_peers.py: one JSON request a line in, one answer a line out.

The argument is a JSON object: model, ctx, threads, gpu_layers, max_ngram_size, num_pred_tokens.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from time import perf_counter
from typing import Any

import llama_cpp
import numpy as np
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
from numpy.typing import NDArray


class Counting(LlamaPromptLookupDecoding):
    """Counts what it drafts, and how often it was asked: once a pass, the prompt's included."""

    drafted = 0
    calls = 0

    def __call__(self, input_ids: NDArray[np.intc], /, **kwargs: Any) -> NDArray[np.intc]:
        draft = super().__call__(input_ids, **kwargs)
        self.calls += 1
        self.drafted += len(draft)
        return draft


def piece(vocab: Any, token: int) -> bytes:
    buffer = ctypes.create_string_buffer(1024)
    length: int = llama_cpp.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, False)
    return buffer.raw[: max(0, length)]


def answer(llama: llama_cpp.Llama, lookup: Counting, prompt: list[int], limit: int) -> dict[str, Any]:
    """A greedy reply from an empty cache; the first token comes from the prompt's pass and starts the clock."""
    llama.reset()  # type: ignore[no-untyped-call]
    lookup.drafted = lookup.calls = 0
    tokens: list[int] = []
    begin = now = 0.0
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    for token in llama.generate(prompt, temp=0.0, repeat_penalty=1.0):
        now = perf_counter()
        begin = begin or now
        tokens.append(token)
        if len(tokens) == limit or llama_cpp.llama_vocab_is_eog(vocab, token):
            break
    text = b"".join(piece(vocab, token) for token in tokens).decode("utf-8", "replace")
    return {
        "text": text, "tokens": len(tokens), "seconds": now - begin, "drafted": lookup.drafted,
        "accepted": max(0, len(tokens) - 1 - lookup.calls),
    }  # fmt: skip


def main() -> None:
    options = json.loads(sys.argv[1])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints must not get between the answers
    lookup = Counting(options["max_ngram_size"], options["num_pred_tokens"])
    # A history longer than a batch breaks llama-cpp-python's speculation, so the batch is as long as the context.
    llama = llama_cpp.Llama(
        options["model"], n_ctx=options["ctx"], n_batch=options["ctx"], n_ubatch=512, n_threads=options["threads"],
        n_threads_batch=options["threads"], n_gpu_layers=options["gpu_layers"], flash_attn=True, draft_model=lookup,
        verbose=False,
    )  # fmt: skip
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            result = answer(llama, lookup, request["prompt"], request["tokens"])
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(result), file=out, flush=True)


if __name__ == "__main__":
    main()
