"""Peak memory of every process of ``optim run``: the largest resident set of the parent and of each worker.

    python benchmarks/runs/memory.py model.onnx [arguments of optim run ...]

Linux only: VmHWM of all descendants is read from /proc several times a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    """Run ``optim run`` with an empty cache and print the peaks."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OPTIM_CACHE_DIR": f"{folder}/cache"}
        command = [sys.executable, "-m", "optim", "run", *sys.argv[1:], "-o", f"{folder}/out"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peaks: dict[int, int] = {}
        while process.poll() is None:
            for pid in descendants(process.pid):
                peaks[pid] = max(peaks.get(pid, 0), high_water_bytes(pid))
            time.sleep(0.03)
    workers = [size for pid, size in peaks.items() if pid != process.pid]
    print(f"exit status {process.returncode}, {len(workers)} workers")
    print(f"parent          {peaks.get(process.pid, 0) / 1e6:8.0f} MB")
    print(f"largest worker  {max(workers, default=0) / 1e6:8.0f} MB")
    return process.returncode


def descendants(root: int) -> list[int]:
    """A process and everything below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def high_water_bytes(pid: int) -> int:
    """VmHWM of a process, 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


if __name__ == "__main__":
    sys.exit(main())
