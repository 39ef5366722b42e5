"""Where the processor time of a command goes, by kind of process; and how busy a machine is at its clock and else.

    python benchmarks/cluster/processor_time.py batch recipe.toml -o NEW [--cluster local:2]

runs ``optim`` with these arguments and prints a row for each kind of process: jobs by their module, runs of a batch,
programs (fork servers among them, with what they import). How many there were, and their seconds of user and system
together. What is killed together with whoever waits for it is not seen. Times of a busy machine are larger, by what
others take from the caches; counts are not. Linux alone; OPTIM_CACHE_DIR should be a new folder.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from optim._engine.search.turns import CLOCK
from optim.folders import lock_folder

_SUBREAPER = 36
"""``PR_SET_CHILD_SUBREAPER``."""

_LOOK_S = 0.01
"""Between two looks at who holds the clock: the kernel counts processor time in as many seconds."""


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "accounted"
        path = [str(Path(__file__).parent / "accounted"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "ACCOUNTED_IN": str(file), "PYTHONPATH": os.pathsep.join(filter(None, path))}
        subprocess.run([sys.executable, "-m", "optim", *sys.argv[1:]], env=environment, check=False)
        processor_s()  # waits for what was left
        lines = [json.loads(line) for line in file.read_text().splitlines()]
    kinds = {line["process"]: line["kind"] for line in lines if "kind" in line}
    used: dict[int, float] = {}
    for known in ("waited_for_s", "used_s"):  # what it says itself is without what it has started
        used |= {line["process"]: line[known] for line in lines if known in line}
    rows: defaultdict[str, list[float]] = defaultdict(list)
    for process, seconds in used.items():
        rows[kinds.get(process, "other programs")].append(seconds)
    for kind, each in sorted(rows.items(), key=lambda row: -sum(row[1])):
        print(f"{sum(each):7.2f} s  {len(each):4} times {1e3 * sum(each) / len(each):6.0f} ms  {kind}")
    print(f"{sum(map(sum, rows.values())):7.2f} s  in all")


def processor_s() -> float:
    """Of all that this process has started, and what that has: what was left behind comes to it, and is waited for."""
    if sys.platform != "linux":
        return 0.0
    import resource

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass
class Busy:
    """How a machine was used for some time.

    Attributes:
        timing_s: in which somebody had the clock.
        else_s: in which nobody had.
        timing_busy_s: processor seconds, of all cores and of everybody, while somebody had the clock.
        else_busy_s: the same while nobody had.
    """

    timing_s: float = 0.0
    else_s: float = 0.0
    timing_busy_s: float = 0.0
    else_busy_s: float = 0.0

    def bound(self, cores: int) -> float:
        """How many times as many runs two workers finish at best, where all else waits while one times.

        Two runs, one after the other, take twice the seconds of both kinds. Side by side those at the clock stay, and
        the rest takes as long as all cores need for its processor time.
        """
        return 2 * (self.timing_s + self.else_s) / (2 * self.timing_s + 2 * self.else_busy_s / cores)


@contextmanager
def watched_clock() -> Iterator[Busy]:
    """Look at the clock of this user and at the processors until the block is left; Linux alone, else nothing is seen.

    The list of the kernel's locks is read: taking the lock to see whether it is free would be in others' way.
    """
    found, ended = Busy(), threading.Event()
    thread = threading.Thread(target=_look, args=(found, ended), daemon=True)
    if sys.platform == "linux":
        thread.start()
    try:
        yield found
    finally:
        ended.set()
        if thread.is_alive():
            thread.join()


def _look(found: Busy, ended: threading.Event) -> None:
    path = lock_folder() / f"{CLOCK}.lock"
    path.touch()
    inode = f":{path.stat().st_ino} "
    looked, busy = time.monotonic(), _busy_s()
    while not ended.wait(_LOOK_S):
        is_held = inode in Path("/proc/locks").read_text()
        now, used = time.monotonic(), _busy_s()
        if is_held:
            found.timing_s += now - looked
            found.timing_busy_s += used - busy
        else:
            found.else_s += now - looked
            found.else_busy_s += used - busy
        looked, busy = now, used


def _busy_s() -> float:
    """Processor seconds of everybody since the machine began: of users, niced, of the system and of interrupts."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, soft, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
