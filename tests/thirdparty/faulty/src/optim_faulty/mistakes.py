"""The mistake of this process: what happens, where, and to which models."""

from __future__ import annotations

import os
import time


def planted(what: str, where: str) -> bool:
    """Whether a mistake was planted, e.g. ``swap run``."""
    return os.environ.get("FAULTY", "").split()[:2] == [what, where]


def happen(where: str, *, is_candidate: bool = False) -> None:
    """Abort, hang or raise, if that was planted here, for the original or for a candidate."""
    _, _, whom = os.environ.get("FAULTY", "").partition(where)
    if ("candidate" in whom.split()) != is_candidate:
        return
    if planted("abort", where):
        os.abort()
    if planted("hang", where):
        time.sleep(3600)
    if planted("error", where):
        raise RuntimeError("ERR_0x80000008: the device was lost")
    if planted("exit", where):
        os._exit(0)
