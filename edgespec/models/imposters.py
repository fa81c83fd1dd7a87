"""Files that are named .gguf and are something else, recognised by their first bytes."""

from __future__ import annotations

from edgespec.errors import ModelFileError
from edgespec.models.units import format_size

MAGIC = b"GGUF"

_FETCH = "Fetch the model itself, such as with `edgespec download user/repo/file.gguf`."


def what_is(beginning: bytes, size: int) -> tuple[str, str] | None:
    """What a file with this beginning is instead of a GGUF, and what to do; None if it may be a GGUF."""
    if size == 0:
        return "is empty", "Download it again; if the disk was full, make room first."
    if len(beginning) < len(MAGIC):
        return f"holds only {format_size(size)}", "Download it again: a model file begins with the four letters GGUF."
    if beginning.startswith(MAGIC):
        return None
    if beginning.startswith(b"version https://git-lfs"):
        return (
            "is a git-LFS pointer, not the model it stands for",
            f"Run `git lfs pull` in its repository. {_FETCH}",
        )
    text = beginning.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<!--", b"<?xml")):
        return "is a web page saved under a model's name", f"The link led to a page instead of the file. {_FETCH}"
    if text.startswith((b"{", b"[")):
        return _json(beginning)
    return _binary(beginning)


def _json(beginning: bytes) -> tuple[str, str]:
    if b'"error"' in beginning or b'"message"' in beginning:
        return "is a server's error message (JSON), not a model", f"Was the name right, and is a login needed? {_FETCH}"
    return "is a JSON file, not a model", _FETCH


def _binary(beginning: bytes) -> tuple[str, str]:
    convert = "Get a GGUF of this model, or convert it with llama.cpp's convert_hf_to_gguf.py."
    if beginning[8:9] == b"{" and beginning[4:8] == b"\0\0\0\0":
        return "is a safetensors file", convert
    if beginning.startswith(b"PK\x03\x04"):
        return "is a zip archive or a PyTorch checkpoint", f"Unpack it if a .gguf is inside. {convert}"
    if beginning.startswith((b"\x1f\x8b", b"\xfd7zXZ", b"(\xb5/\xfd", b"BZh", b"7z\xbc\xaf")):
        return "is a compressed file", "Unpack it first."
    if beginning.startswith((b"lmgg", b"fmgg", b"tjgg", b"ggml", b"ggmf", b"ggjt")):
        return "is in the old GGML format of 2023", "Get a newer conversion of this model, in GGUF."
    if not beginning.strip(b"\0"):
        return "begins with zeros: its first part was never written", "Download it again."
    start = beginning[:8].decode("ascii", "backslashreplace")
    return f"is not a GGUF: it begins with {start!r} instead of GGUF", _FETCH


def refuse_imposter(name: str, size: int, beginning: bytes) -> None:
    """Raises ModelFileError for a file that cannot be a GGUF."""
    found = what_is(beginning, size)
    if found is not None:
        raise ModelFileError(f"{name} {found[0]}.", found[1])
