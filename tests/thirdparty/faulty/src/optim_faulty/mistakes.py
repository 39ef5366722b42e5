"""The mistake of this process: what happens, where, and to which models."""

from __future__ import annotations

import os
import time


def planted() -> tuple[str, str, str]:
    """What happens (abort, hang, error), where (open, run, time_runs, ...), and to what (original, candidate)."""
    what, _, rest = os.environ.get("FAULTY", "").partition(" ")
    where, _, whom = rest.partition(" ")
    return what, where, whom or "original"


def happen(where: str, *, is_candidate: bool = False) -> None:
    """Make the mistake, if it was planted here."""
    what, planted_where, whom = planted()
    if where != planted_where or (whom == "candidate") != is_candidate:
        return
    if what == "abort":
        os.abort()
    if what == "hang":
        time.sleep(3600)
    if what == "error":
        raise RuntimeError("ERR_0x80000008: the device was lost")
