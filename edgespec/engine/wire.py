"""Messages as bytes and back.

The parent trusts nothing that comes out of a process that runs native code on files from the internet, so messages
are pickled plainly but unpickled through a list of known classes.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from edgespec import types
from edgespec.decoding.auto_report import AutoReport, Use
from edgespec.decoding.sampling import SamplingParams
from edgespec.decoding.stats import GenerationStats
from edgespec.engine import messages as m

_KNOWN = {
    (cls.__module__, cls.__qualname__): cls
    for cls in (
        m.Load, m.LoadOptions, m.Generate, m.GenerateOptions, m.Message, m.Examine, m.Cancel, m.Shutdown,
        m.Loaded, m.ModelInfo, m.PrefillProgress, m.PrefillDone, m.RoundDone, m.Notice, m.GenerationDone,
        m.Examined, m.Candidate, m.Failed, m.Measure, m.Measured, m.DeviceMemory, types.Mode,
        types.FinishReason, types.Origin, types.Draft, types.Verdict, types.Round, types.Prefilling,
        types.Prefilled, types.Judged, types.RoundDetails, SamplingParams, GenerationStats, AutoReport, Use,
    )
}  # fmt: skip


class _KnownClassesOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} may not cross the engine's pipe") from None


def encode(message: m.Command | m.Event) -> bytes:
    """One message as bytes."""
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def decode(data: bytes) -> Any:
    """The message in these bytes. Raises pickle.UnpicklingError for anything but a known class."""
    return _KnownClassesOnly(io.BytesIO(data)).load()
