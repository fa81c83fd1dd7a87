"""Memory in use: the engine's process and this one, of all there is."""

from __future__ import annotations

import os


def in_use(pid: int | None) -> tuple[int, int] | None:
    """Bytes that the engine and the app hold, and of the whole machine; None where the engine is gone."""
    import psutil

    if pid is None:
        return None
    try:
        pids = {pid, os.getpid()}
        return sum(psutil.Process(each).memory_info().rss for each in pids), psutil.virtual_memory().total
    except psutil.Error:
        return None
