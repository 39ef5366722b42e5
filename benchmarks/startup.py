"""How long ``optim --plugins list`` takes as a whole process, and that it loads no heavy library.

usage: python benchmarks/startup.py [--runs 30]

The exit status is 1 where the median is beyond 0.25 s, or where a heavy library was loaded.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 0.25
HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "torch", "transformers")
_LOADED = """
import json, sys
from optim.cli.main import main
status = main(["--plugins", "list"])
print(json.dumps([status, sorted(sys.modules)]))
"""


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=30, help="processes to time, after three that do not count")
    runs = parser.parse_args().runs
    loaded = heavy_libraries()
    seconds = [time_once() for _ in range(runs + 3)][3:]
    median = statistics.median(seconds)
    print(f"optim --plugins list: median {median:.3f} s of {runs}, {min(seconds):.3f} to {max(seconds):.3f} s")
    print(f"limit {LIMIT_S} s; heavy libraries loaded: {', '.join(loaded) or 'none'}")
    return 1 if loaded or median > LIMIT_S else 0


def time_once() -> float:
    """Wall time of one process, in seconds."""
    beside = Path(sys.executable).with_name("optim")
    command = str(beside) if beside.exists() else shutil.which("optim") or "optim"
    started = time.perf_counter()
    subprocess.run([command, "--plugins", "list"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def heavy_libraries() -> list[str]:
    """What of HEAVY the command has loaded when it is done."""
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    status, modules = json.loads(done.stdout.splitlines()[-1])
    if status != 0:
        raise SystemExit(f"optim --plugins list ended with exit status {status}\n{done.stderr}")
    return [name for name in HEAVY if name in modules]


if __name__ == "__main__":
    sys.exit(main())
