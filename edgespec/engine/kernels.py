"""Which of llama.cpp's CPU kernels a target may use without its text depending on how many tokens a pass has.

A draft is checked in a wide pass, plain decoding makes narrow ones. Where llama.cpp multiplies both in the same way,
their logits agree bit for bit and greedy replies are equal in every mode. Three of its optimisations do not:

- **Repacked k-quants.** From 4 rows up, Q4_K weights are multiplied by another kernel (ggml-cpu/repack.cpp), which
  rounds activations differently. On Gemma 3 270M Q4_K_M that moves logits by 0.2 on average and by up to 1.5, enough
  to change a greedy word now and then. Repacked Q4_0 was tried too and agrees exactly, as does what is not repacked
  (Q4_1 among others). What was not tried counts as if it did not agree.
- **The tiled kernel** for other k-quants, from 8 rows up (ggml-cpu/tiled), moves logits as much.
- **Attention split over the context** (use_split_kv_path in ggml-cpu/ops.cpp): with several threads and more than 256
  tokens of context a pass of one token adds up in another order than wider ones. There is no switch for it, but values
  cached as bf16 (`--cache-type-v bf16`) are never split, and reading a prompt then takes up to three times as long
  (docs/benchmarks.md). So f16 is the default, this one stays, and words that are nearly as likely may come out
  differently there. With one thread it changes nothing.

EXACT does without the first two; FAST takes all that llama.cpp has, at the price of replies that may differ between
modes by more than ties. The draft model is always loaded fast: its numbers decide how much is accepted, never what is
said.
"""

from __future__ import annotations

import os

from edgespec.models.header import GgufHeader

EXACT = "exact"
FAST = "fast"

REPACKED = frozenset({"Q2_K", "Q4_K", "IQ4_NL", "MXFP4"})
"""Types that llama.cpp repacks on x86 and whose repacked kernels are not known to agree."""


def choose_kernels(kernels: str) -> None:
    """Set llama.cpp's switch, before its first multiplication; a value that the user has set is respected."""
    os.environ.setdefault("GGML_CPU_TILED_MM", "1" if kernels == FAST else "0")


def may_repack(header: GgufHeader, kernels: str) -> bool:
    """May the target be loaded with repacked weights?"""
    return kernels == FAST or not any(tensor.type.name in REPACKED for tensor in header.tensors)
