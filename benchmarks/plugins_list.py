"""How long ``optim --plugins list`` takes as a whole process, with ten plugins of one pass and one target each.

    python benchmarks/plugins_list.py [rounds]

They are written to a temporary folder beside whatever is installed. Prints the median and the range, in seconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLUGINS = 10
SOURCE = """
from optim import APPLICABLE, Pass, PassResult, Target, hookimpl

OPTIM_HOOK_API = 1

class Keep(Pass):
    name, summary = "bench{number}.keep", "Does nothing."
    def applicable(self, model, target): return APPLICABLE
    def apply(self, model, options, context): return PassResult(model, False, ("nothing to do",))

@hookimpl
def optim_fuse(target): return [Keep]

@hookimpl
def optim_targets(): return [Target("bench{number}", "none")]
"""


def main(rounds: int) -> None:
    """Time it, once to warm up and then ``rounds`` times."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(PLUGINS):
            install(Path(folder), number)
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
        seconds = sorted([listing({**os.environ, "PYTHONPATH": path}) for _ in range(rounds + 1)][1:])
    print(f"median {statistics.median(seconds):.3f} s, {seconds[0]:.3f} to {seconds[-1]:.3f}, {rounds} rounds")


def install(folder: Path, number: int) -> None:
    """Leave what pip would leave of a distribution with one plugin."""
    info = folder / f"optim_bench{number}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: optim-bench{number}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[optim.plugins]\nbench{number} = optim_bench{number}\n")
    (folder / f"optim_bench{number}.py").write_text(SOURCE.replace("{number}", str(number)))


def listing(environment: dict[str, str]) -> float:
    """Seconds of one fresh process."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from optim.__main__ import main; sys.exit(main())", "--plugins", "list"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - start
    if f"bench{PLUGINS - 1}" not in done.stdout:
        raise SystemExit(done.stdout + done.stderr)
    return seconds


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
