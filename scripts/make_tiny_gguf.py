"""Write a tiny random GGUF that llama.cpp loads and runs: for tests that need a real model, not a good one.

Every file has the same small, complete vocabulary (byte-level BPE: any text can be tokenised), so any two of them
pass the pair check. The architectures cover the kinds of memory a session must handle:

    llama    plain KV cache: rewinds anywhere
    gemma3   sliding window of 32 tokens in every other layer: rewinds, but forgets
    mamba    recurrent, no snapshots: cannot rewind
    lfm2     hybrid with snapshots: rewinds as far as `n_rs_seq`
    jamba    hybrid without snapshots: cannot rewind

Each weight depends on the seed and the tensor's name only, so padding the vocabulary or adding a layer leaves the
others alone. Control and padding tokens have zero output weights: greedy decoding of a random model never stops early.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import gguf
import numpy as np
from numpy.typing import NDArray

HEAD_DIM = 32
CONTEXT = 4096
WINDOW = 32
EPSILON = 1e-5
LOGIT_SCALE = 3.0

ENDOFTEXT, BOS, IM_START, IM_END, PAD = range(5)
CONTROL = ("<|endoftext|>", "<|begin|>", "<|im_start|>", "<|im_end|>", "<|pad|>")
"""Control tokens, ids 0 to 4. `<|im_end|>` is EOS; llama.cpp counts `<|endoftext|>` as end of generation too."""
USER_DEFINED = ("<think>", "</think>", "=" * 48)
"""User-defined tokens, ids from 5; one is longer than the 32 bytes that some detokenisers allow a piece."""
WORDS = (
    " the", " and", " of", " to", " in", " is", " it", " was", " he", " she", " that", " for", " with", " a", " you",
    " one", " time", " day", " little", " said", " what", " who", " there", "ing", "er", "ed", "ou", "re", "st", "on",
)  # fmt: skip
"""Words that the merges build, shortest prefix first."""

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the files differ in."""

    layers: int = 2
    width: int = 64
    seed: int = 0
    noise: float = 0.0

    @property
    def heads(self) -> int:
        return self.width // HEAD_DIM

    @property
    def kv_heads(self) -> int:
        """Half as many key and value heads where that divides evenly, as grouped-query attention has them."""
        return self.heads // 2 if self.heads % 2 == 0 else self.heads

    @property
    def ffn(self) -> int:
        return 2 * self.width

    @property
    def attention_layers(self) -> list[bool]:
        """Of a hybrid: every second layer attends, the others are recurrent."""
        return [i % 2 == 1 for i in range(self.layers)]


class Weights:
    """Random tensors, each from a generator of its own, written as float32 so that results hardly depend on kernels."""

    def __init__(self, writer: gguf.GGUFWriter, shape: Shape) -> None:
        self.writer = writer
        self.shape = shape

    def matrix(self, name: str, rows: int, columns: int, scale: float = 1.0) -> None:
        """Normal weights, shape (rows, columns), that bring a unit input to `scale`."""
        self.add(name, self.draw(name, rows, columns) * np.float32(scale / np.sqrt(columns)))

    def draw(self, name: str, rows: int, columns: int) -> Matrix:
        """Standard normal numbers, shape (rows, columns), with the share of foreign ones that `noise` asks for."""
        own = self._normal(name, rows, columns)
        if not self.shape.noise:
            return own
        foreign = self._normal(f"noise of {name}", rows, columns)
        return np.asarray((own + self.shape.noise * foreign) / np.hypot(1.0, self.shape.noise), dtype=np.float32)

    def ones(self, *names: str, size: int) -> None:
        for name in names:
            self.add(name, np.ones(size, dtype=np.float32))

    def add(self, name: str, tensor: Matrix) -> None:
        self.writer.add_tensor(name, np.ascontiguousarray(tensor, dtype=np.float32))

    def _normal(self, name: str, rows: int, columns: int) -> Matrix:
        generator = np.random.default_rng([self.shape.seed, zlib.crc32(name.encode())])
        return generator.standard_normal((rows, columns), dtype=np.float32)


def write_tiny(
    path: str | Path,
    arch: str = "llama",
    *,
    layers: int = 2,
    width: int = 64,
    seed: int = 0,
    noise: float = 0.0,
    vocab_extra: int = 0,
    template: bool = True,
    add_bos: bool = True,
) -> Path:
    """Write one file and return its path.

    Args:
        arch: one of ARCHITECTURES.
        width: of the residual stream, a multiple of 32.
        seed: files with different seeds are unrelated models.
        noise: share of foreign weights; a file with the same seed and a little noise is a fair draft for this one.
        vocab_extra: padding tokens at the end of the vocabulary.
        template: include a ChatML chat template.
        add_bos: tell the tokenizer to begin every text with BOS.
    """
    if arch not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {arch!r}, expected one of {', '.join(ARCHITECTURES)}")
    if layers < 1 or width < HEAD_DIM or width % HEAD_DIM or vocab_extra < 0 or noise < 0:
        raise ValueError(f"layers from 1, width a multiple of {HEAD_DIM}, extra tokens and noise not negative")
    shape = Shape(layers, width, seed, noise)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"tiny {arch} {seed}")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_layer_norm_rms_eps(EPSILON)
    n_vocab = add_vocabulary(writer, vocab_extra, add_bos)
    if template:
        writer.add_chat_template(CHATML)
    weights = Weights(writer, shape)
    add_embeddings(weights, n_vocab, vocab_extra, norm="token_embd_norm" if arch == "lfm2" else "output_norm")
    ARCHITECTURES[arch](writer, weights, shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def byte_characters() -> dict[int, str]:
    """The printable character that stands for each byte in a byte-level BPE vocabulary, as GPT-2 defined it."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def merges() -> list[tuple[str, str]]:
    """Merges that build WORDS one character at a time, each once."""
    characters = byte_characters()
    found: dict[tuple[str, str], None] = {}
    for word in WORDS:
        spelled = "".join(characters[byte] for byte in word.encode())
        for end in range(1, len(spelled)):
            found[spelled[:end], spelled[end]] = None
    return list(found)


def add_vocabulary(writer: gguf.GGUFWriter, extra: int, add_bos: bool) -> int:
    """Write the tokenizer; return the number of tokens."""
    pairs = merges()
    ordinary = [*byte_characters().values(), *(left + right for left, right in pairs)]
    padding = [f"<|padding_{i}|>" for i in range(extra)]
    kinds = gguf.TokenType
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*CONTROL, *USER_DEFINED, *ordinary, *padding])
    writer.add_token_types(
        [kinds.CONTROL] * len(CONTROL)
        + [kinds.USER_DEFINED] * len(USER_DEFINED)
        + [kinds.NORMAL] * len(ordinary)
        + [kinds.UNUSED] * extra
    )
    writer.add_token_merges([f"{left} {right}" for left, right in pairs])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(IM_END)
    writer.add_unk_token_id(ENDOFTEXT)
    writer.add_pad_token_id(PAD)
    writer.add_add_bos_token(add_bos)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    return len(CONTROL) + len(USER_DEFINED) + len(ordinary) + extra


def add_embeddings(weights: Weights, n_vocab: int, extra: int, norm: str) -> None:
    """Input embeddings for all but padding tokens, output embeddings for all but control and padding tokens."""
    width, real = weights.shape.width, n_vocab - extra
    embeddings = np.zeros((n_vocab, width), dtype=np.float32)
    embeddings[:real] = weights.draw("token_embd", real, width)
    weights.add("token_embd.weight", embeddings)
    output = np.zeros((n_vocab, width), dtype=np.float32)
    output[:real] = weights.draw("output", real, width) * np.float32(LOGIT_SCALE / np.sqrt(width))
    output[: len(CONTROL)] = 0.0
    weights.add("output.weight", output)
    weights.ones(f"{norm}.weight", size=width)


def add_attention_keys(writer: gguf.GGUFWriter, shape: Shape, kv_heads: int | list[int]) -> None:
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(10000.0)


def add_attention(weights: Weights, prefix: str) -> None:
    shape = weights.shape
    weights.matrix(f"{prefix}.attn_q.weight", shape.width, shape.width, scale=2.0)
    weights.matrix(f"{prefix}.attn_k.weight", shape.kv_heads * HEAD_DIM, shape.width)
    weights.matrix(f"{prefix}.attn_v.weight", shape.kv_heads * HEAD_DIM, shape.width)
    weights.matrix(f"{prefix}.attn_output.weight", shape.width, shape.width)


def add_ffn(weights: Weights, prefix: str) -> None:
    shape = weights.shape
    weights.ones(f"{prefix}.ffn_norm.weight", size=shape.width)
    weights.matrix(f"{prefix}.ffn_gate.weight", shape.ffn, shape.width)
    weights.matrix(f"{prefix}.ffn_up.weight", shape.ffn, shape.width)
    weights.matrix(f"{prefix}.ffn_down.weight", shape.width, shape.ffn)


def add_llama(writer: gguf.GGUFWriter, weights: Weights, shape: Shape) -> None:
    add_attention_keys(writer, shape, shape.kv_heads)
    for i in range(shape.layers):
        weights.ones(f"blk.{i}.attn_norm.weight", size=shape.width)
        add_attention(weights, f"blk.{i}")
        add_ffn(weights, f"blk.{i}")


def add_gemma3(writer: gguf.GGUFWriter, weights: Weights, shape: Shape) -> None:
    add_attention_keys(writer, shape, shape.kv_heads)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_sliding_window(WINDOW)
    writer.add_sliding_window_pattern([i % 2 == 0 for i in range(shape.layers)])
    for i in range(shape.layers):
        prefix = f"blk.{i}"
        weights.ones(f"{prefix}.attn_norm.weight", size=shape.width)
        add_attention(weights, prefix)
        weights.ones(f"{prefix}.attn_q_norm.weight", f"{prefix}.attn_k_norm.weight", size=HEAD_DIM)
        add_ffn(weights, prefix)
        # The scaled embeddings are `sqrt(width)` large: let the layers speak as loudly.
        for name in ("post_attention_norm", "post_ffw_norm"):
            weights.add(f"{prefix}.{name}.weight", np.full(shape.width, np.sqrt(shape.width), dtype=np.float32))


def add_mamba_keys(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(2 * shape.width)
    writer.add_ssm_state_size(16)
    writer.add_ssm_time_step_rank(4)


def add_mamba_block(weights: Weights, prefix: str) -> None:
    width, inner, state, rank = weights.shape.width, 2 * weights.shape.width, 16, 4
    weights.matrix(f"{prefix}.ssm_in.weight", 2 * inner, width)
    weights.matrix(f"{prefix}.ssm_conv1d.weight", inner, 4, scale=1.5)
    weights.add(f"{prefix}.ssm_conv1d.bias", np.zeros(inner, dtype=np.float32))
    weights.matrix(f"{prefix}.ssm_x.weight", rank + 2 * state, inner)
    weights.matrix(f"{prefix}.ssm_dt.weight", inner, rank)
    weights.add(f"{prefix}.ssm_dt.bias", np.full(inner, -2.0, dtype=np.float32))
    decay = -np.arange(1, state + 1, dtype=np.float32) / state
    weights.add(f"{prefix}.ssm_a", np.tile(decay, (inner, 1)))
    weights.add(f"{prefix}.ssm_d", np.ones(inner, dtype=np.float32))
    weights.matrix(f"{prefix}.ssm_out.weight", width, inner, scale=2.0)


def add_mamba(writer: gguf.GGUFWriter, weights: Weights, shape: Shape) -> None:
    add_mamba_keys(writer, shape)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    for i in range(shape.layers):
        weights.ones(f"blk.{i}.attn_norm.weight", size=shape.width)
        add_mamba_block(weights, f"blk.{i}")


def add_jamba(writer: gguf.GGUFWriter, weights: Weights, shape: Shape) -> None:
    add_attention_keys(writer, shape, [shape.kv_heads if attends else 0 for attends in shape.attention_layers])
    add_mamba_keys(writer, shape)
    for i, attends in enumerate(shape.attention_layers):
        prefix = f"blk.{i}"
        weights.ones(f"{prefix}.attn_norm.weight", size=shape.width)
        if attends:
            add_attention(weights, prefix)
        else:
            add_mamba_block(weights, prefix)
            weights.ones(f"{prefix}.ssm_dt_norm.weight", size=4)
            weights.ones(f"{prefix}.ssm_b_norm.weight", f"{prefix}.ssm_c_norm.weight", size=16)
        add_ffn(weights, prefix)


def add_lfm2(writer: gguf.GGUFWriter, weights: Weights, shape: Shape) -> None:
    add_attention_keys(writer, shape, [shape.kv_heads if attends else 0 for attends in shape.attention_layers])
    writer.add_shortconv_l_cache(3)
    for i, attends in enumerate(shape.attention_layers):
        prefix = f"blk.{i}"
        weights.ones(f"{prefix}.attn_norm.weight", size=shape.width)
        if attends:
            add_attention(weights, prefix)
            weights.ones(f"{prefix}.attn_q_norm.weight", f"{prefix}.attn_k_norm.weight", size=HEAD_DIM)
        else:
            weights.matrix(f"{prefix}.shortconv.conv.weight", shape.width, 3, scale=1.5)
            weights.matrix(f"{prefix}.shortconv.in_proj.weight", 3 * shape.width, shape.width)
            weights.matrix(f"{prefix}.shortconv.out_proj.weight", shape.width, shape.width)
        add_ffn(weights, prefix)


ARCHITECTURES: dict[str, Callable[[gguf.GGUFWriter, Weights, Shape], None]] = {
    "llama": add_llama,
    "gemma3": add_gemma3,
    "mamba": add_mamba,
    "lfm2": add_lfm2,
    "jamba": add_jamba,
}


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--arch", type=click.Choice(list(ARCHITECTURES)), default="llama")
@click.option("--layers", type=click.IntRange(1), default=2)
@click.option("--width", type=click.IntRange(HEAD_DIM), default=64, help="A multiple of 32.")
@click.option("--seed", type=click.IntRange(0), default=0)
@click.option("--noise", type=click.FloatRange(0), default=0.0, help="Share of foreign weights, for a related draft.")
@click.option("--vocab-extra", type=click.IntRange(0), default=0, help="Padding tokens after the vocabulary.")
@click.option("--no-template", is_flag=True, help="Leave out the chat template, as a base model does.")
@click.option("--no-bos", is_flag=True, help="Do not begin texts with BOS.")
def main(
    path: Path, arch: str, layers: int, width: int, seed: int, noise: float, vocab_extra: int, no_template: bool,
    no_bos: bool,
) -> None:  # fmt: skip
    if width % HEAD_DIM:
        raise click.BadParameter(f"must be a multiple of {HEAD_DIM}", param_hint="--width")
    write_tiny(
        path, arch, layers=layers, width=width, seed=seed, noise=noise, vocab_extra=vocab_extra,
        template=not no_template, add_bos=not no_bos,
    )  # fmt: skip
    click.echo(f"{path}: {arch}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
