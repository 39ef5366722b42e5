"""The memory and the processors of this process: what it may use, by its control groups too, and what it has used.

Containers and batch systems set limits by control groups of Linux. A limit can stand in the process's own group or in
any above it, so all are read and the tightest counts. Inside a container the groups above are not seen; version 1 names
a path there that is not mounted, and its own files then lie at the top. Names of files:
https://docs.kernel.org/admin-guide/cgroup-v2.html, and cgroup-v1/memory.html beside it.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


def usable_cores() -> int:
    """Processors that this process may run on, which can be fewer than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_processors() -> int:
    """Returns the number of processors that this process may use, or fewer if a quota has less time.

    A quota of one and a half gives two. Runtimes start a thread for each core of the machine, whatever this process may
    use.
    """
    quota = ControlGroups().processors()
    return usable_cores() if quota is None else max(1, min(usable_cores(), math.ceil(quota)))


def usable_memory_bytes() -> int:
    """The memory of the machine, or of the container where that may use less."""
    import psutil

    total, limit = int(psutil.virtual_memory().total), ControlGroups().memory_bytes()
    return total if limit is None else min(total, limit)


def free_memory_bytes() -> int:
    """Memory that can be had without swapping, of the machine, or of the container where less is left there."""
    import psutil

    available, free = int(psutil.virtual_memory().available), ControlGroups().free_memory_bytes()
    return available if free is None else min(available, free)


def ended_for_memory() -> int:
    """How many processes Linux has ended since it started because memory was short, of a container too."""
    counts = dict(line.split() for line in _text(Path("/proc/vmstat")).splitlines())
    return int(counts.get("oom_kill", 0))


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


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The limits of one process; none where no control groups are.

    Attributes:
        mounted: where the groups lie.
        own: the file that names the process's groups.
    """

    mounted: Path = Path("/sys/fs/cgroup")
    own: Path = Path("/proc/self/cgroup")

    def memory_bytes(self) -> int | None:
        """The most that may be used; None without a limit. Version 1 says some 2^63 for none."""
        return min((most for most, _ in self._memory_limits()), default=None)

    def free_memory_bytes(self) -> int | None:
        """What is left below the tightest limit, pages of files counted as free: they go when memory is short."""
        return min((max(0, most - _used_bytes(counter)) for most, counter in self._memory_limits()), default=None)

    def processors(self) -> float | None:
        """How many processors' time may be used, such as 1.5; None without a quota."""
        found = []
        for folder in self._folders("cpu"):
            quota, _, period = _text(folder / "cpu.max").partition(" ")
            if not quota:
                quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
            if quota.isdigit() and period.isdigit() and int(period):
                found.append(int(quota) / int(period))
        return min(found, default=None)

    def _memory_limits(self) -> Iterator[tuple[int, Path]]:
        """Of each group with a limit: the limit in bytes, and the file that says what is used of it."""
        for folder in self._folders("memory"):
            for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
                most = _text(folder / limit)
                if most.isdigit():
                    yield int(most), folder / used

    def _folders(self, controller: str) -> Iterator[Path]:
        """The process's group and all above it, innermost first, as far as they are seen."""
        for line in _text(self.own).splitlines() or [f"1:{controller}:/", "0::/"]:
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if number != "0" and controller not in controllers.split(","):
                continue
            top = self.mounted if number == "0" else self.mounted / controller
            group = PurePosixPath(*(part for part in PurePosixPath(path).parts if part not in ("/", "..")))
            yield from (top / folder for folder in (group, *group.parents) if (top / folder).is_dir())


def _used_bytes(counter: Path) -> int:
    """Memory that a group uses, without pages of files.

    Version 1 has two figures of each kind, of the group alone and, ``total_``, with all below it: the larger counts.
    """
    lines = (line.partition(" ") for line in _text(counter.with_name("memory.stat")).splitlines())
    found = {name: _number(value) for name, _, value in lines}
    kinds = ("inactive_file", "active_file")
    of_files = sum(max(found.get(kind, 0), found.get(f"total_{kind}", 0)) for kind in kinds)
    return max(0, _number(_text(counter)) - of_files)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
