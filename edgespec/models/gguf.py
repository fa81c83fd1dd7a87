"""Model files without native code: read a header, check a whole file.

The two questions that everything else asks before llama.cpp sees a file.
"""

from __future__ import annotations

from edgespec.models.header import GgufHeader, Tensor, read_header
from edgespec.models.shards import CheckedModel, check_file, check_gguf
from edgespec.models.vocabulary import Vocabulary

__all__ = ["CheckedModel", "GgufHeader", "Tensor", "Vocabulary", "check_file", "check_gguf", "read_header"]
