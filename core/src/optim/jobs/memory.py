"""Peak resident memory of this process."""

from __future__ import annotations

import sys
from pathlib import Path


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
