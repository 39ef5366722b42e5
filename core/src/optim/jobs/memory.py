"""Peak resident memory of this process, and what there is for all."""

from __future__ import annotations

import sys
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says what a container may use, in version 2 of control groups and in version 1."""


def usable_memory_bytes() -> int:
    """The memory of the machine, or of the container where that may use less."""
    import psutil

    total = int(psutil.virtual_memory().total)
    for name in _LIMITS:
        try:
            limit = Path(name).read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            continue
        total = min(total, int(limit)) if limit.isdigit() else total
    return total


def peak_memory_bytes() -> int:
    """The most resident memory that this process has had, in bytes.

    psutil knows it on Windows alone. Linux: VmHWM, since ``ru_maxrss`` of a child starts at its parent's. macOS:
    ``ru_maxrss``.
    """
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
