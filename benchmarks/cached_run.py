"""The processor time of a run that is served from the cache, beside that of the libraries which it must import.

    python benchmarks/cached_run.py MODEL [--rounds 5] [--search-seconds 20]

The model is run once, which fills a cache of its own; then the same run, `optim verify` of two models of some kilobytes
and a bare import of onnxruntime, onnx and numpy take turns. Printed are medians in seconds: of processor time, user and
system together, without the server that forks workers; and of wall time. A cached run is to take less than 1 s of
processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IMPORTS = (sys.executable, "-c", "import onnxruntime, onnx, numpy")


def main() -> int:
    """Fill the cache, take turns, print."""
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("model", type=Path)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--search-seconds", default="20")
    asked = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-m", "optim", "run", str(asked.model.resolve()), "-o", f"{folder}/out"]
        run += ["--search-seconds", asked.search_seconds]
        environment = {**os.environ, "OPTIM_CACHE_DIR": f"{folder}/cache"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have compiled modules
        small = [_small_model(Path(folder, name)) for name in ("one", "other")]
        verify = [sys.executable, "-m", "optim", "verify", *small]
        lanes = {"cached_run": run, "verify_small": verify, "imports": list(IMPORTS)}
        for command in (run, *lanes.values()):
            seconds(command, environment)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in lanes}
        for _ in range(asked.rounds):
            for name, command in lanes.items():
                found[name].append(seconds(command, environment))
    medians = {
        name: [round(statistics.median(each), 3) for each in zip(*rows, strict=True)] for name, rows in found.items()
    }
    print(json.dumps({name: {"processor": own, "wall": wall} for name, (own, wall) in medians.items()}, indent=2))
    return 0


def _small_model(folder: Path) -> str:
    from optim_testing import models

    folder.mkdir()
    return str(models.mlp(folder))


def seconds(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Processor time of a command and of all that it waits for, and its wall time."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


if __name__ == "__main__":
    sys.exit(main())
