"""The processor time of a run that is served from the cache, beside that of the libraries which it must import.

    python benchmarks/cached_run.py MODEL [--rounds 5] [--search-seconds 20]

The model is run once, which fills a cache of its own; then the same run and a bare import of onnxruntime, onnx and
numpy take turns. Printed are the medians in seconds, user and system time together, of each with its children; below 1
is the aim.
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
        lanes = {"cached_run": run, "imports": list(IMPORTS)}
        for command in (run, run, lanes["imports"]):
            processor_seconds(command, environment)
        found: dict[str, list[float]] = {name: [] for name in lanes}
        for _ in range(asked.rounds):
            for name, command in lanes.items():
                found[name].append(processor_seconds(command, environment))
    print(json.dumps({name: round(statistics.median(each), 3) for name, each in found.items()}, indent=2))
    return 0


def processor_seconds(command: list[str], environment: dict[str, str]) -> float:
    """User and system time of a command and of all that it waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
