"""What the search must know of the machine: what a timing depends on, and how much memory is free."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine_key() -> str:
    """What a timing depends on of the machine."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{platform.node()}/{model}/{os.cpu_count()}"


def available_memory_bytes() -> int:
    """Memory that may be used without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)
