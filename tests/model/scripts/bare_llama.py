"""A few calls of llama.cpp with nothing of EdgeSpec in between, for checking the files that scripts write.

Run as a program, `python bare_llama.py < job.json` answers a job in a process of its own: native code aborts on files
it dislikes, and that must fail one test, not all.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray


class BareModel:
    """One model, one context, and the position that follows what it has read."""

    def __init__(self, path: str, n_ctx: int = 512, n_rs_seq: int = 0) -> None:
        params = llama_cpp.llama_model_default_params()
        params.use_extra_bufts = False
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise SystemExit(f"llama.cpp refused {path}")
        context = llama_cpp.llama_context_default_params()
        context.n_ctx = context.n_batch = n_ctx
        context.n_rs_seq = n_rs_seq
        context.n_threads = context.n_threads_batch = 1
        self.context = llama_cpp.llama_init_from_model(self.model, context)
        if not self.context:
            raise SystemExit(f"llama.cpp made no context for {path}")
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.position = 0

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Logits of every token, shape (len(tokens), n_vocab)."""
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, self.position + i, 1, 1
            batch.seq_id[i][0] = 0
        status = llama_cpp.llama_decode(self.context, batch)
        llama_cpp.llama_batch_free(batch)
        if status:
            raise SystemExit(f"llama_decode returned {status}")
        self.position += len(tokens)
        pointer = llama_cpp.llama_get_logits(self.context)
        return np.ctypeslib.as_array(pointer, (len(tokens), self.n_vocab)).copy()

    def rewind(self, length: int) -> bool:
        done = bool(llama_cpp.llama_memory_seq_rm(self.memory, 0, length, -1))
        self.position = length if done else self.position
        return done

    def clear(self) -> None:
        llama_cpp.llama_memory_clear(self.memory, True)
        self.position = 0

    def tokenize(self, text: str, special: bool = True) -> list[int]:
        raw = text.encode()
        buffer = (llama_cpp.llama_token * (len(raw) + 8))()
        count = llama_cpp.llama_tokenize(self.vocab, raw, len(raw), buffer, len(buffer), special, special)
        return list(buffer[:count])

    def text(self, tokens: Sequence[int]) -> str:
        pieces = []
        for token in tokens:
            buffer = ctypes.create_string_buffer(256)
            size = llama_cpp.llama_token_to_piece(self.vocab, token, buffer, 256, 0, True)
            pieces.append(buffer.raw[:size])
        return b"".join(pieces).decode()

    def greedy(self, tokens: Sequence[int], count: int) -> list[int]:
        """The argmax continuation, one token a pass."""
        self.clear()
        reply = [int(self.decode(tokens)[-1].argmax())]
        while len(reply) < count:
            reply.append(int(self.decode(reply[-1:])[0].argmax()))
        return reply


def inspect(path: str, text: str, count: int) -> dict[str, Any]:
    """What a model is, and what it makes of a text."""
    model = BareModel(path, n_rs_seq=4)
    tokens = model.tokenize(text)
    rows = model.decode(tokens)
    rewinds = model.rewind(len(tokens) - 2)
    again = model.decode(tokens[-2:]) if rewinds else rows[-2:]
    return {
        "tokens": tokens,
        "text": model.text(tokens),
        "finite": bool(np.isfinite(rows).all()),
        "spread": float(rows.std()),
        "rewinds": rewinds,
        "rewind_error": float(np.abs(again - rows[-2:]).max()),
        "end_of_generation": [i for i in range(model.n_vocab) if llama_cpp.llama_vocab_is_eog(model.vocab, i)],
        "snapshots": llama_cpp.llama_n_rs_seq(model.context),
        "window": llama_cpp.llama_model_n_swa(model.model),
        "recurrent": bool(llama_cpp.llama_model_is_recurrent(model.model)),
        "hybrid": bool(llama_cpp.llama_model_is_hybrid(model.model)),
        "greedy": model.greedy(tokens, count),
    }


def compare(path: str, other: str, text: str, count: int) -> dict[str, Any]:
    """How often `other` has the same argmax as `path` along the greedy continuation that `path` gives the text."""
    model = BareModel(path)
    tokens = model.tokenize(text)
    tokens += model.greedy(tokens, count)
    model.clear()
    rows, other_rows = model.decode(tokens), BareModel(other).decode(tokens)
    return {
        "agreement": float((rows.argmax(1) == other_rows.argmax(1)).mean()),
        "error": float(np.abs(rows - other_rows).max()),
        "positions": len(tokens),
    }


def in_child(task: str, **arguments: Any) -> dict[str, Any]:
    """Run one of the functions above in a fresh process."""
    job = json.dumps({"task": task, "arguments": arguments})
    run = subprocess.run([sys.executable, str(Path(__file__))], input=job, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{task} ended with status {run.returncode}: {run.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(run.stdout)
    return result


if __name__ == "__main__":
    tasks: dict[str, Callable[..., dict[str, Any]]] = {"inspect": inspect, "compare": compare}
    request = json.load(sys.stdin)
    print(json.dumps(tasks[request["task"]](**request["arguments"])))
