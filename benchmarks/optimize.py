"""What ``optim run`` makes of models: ratio to the backend's default on fresh rounds, drift, size and time taken.

    python benchmarks/optimize.py model.onnx=feeds.npz:0.05 other.onnx=:lossless ...

Each argument is a model, its feeds (empty: synthesized) and its budget (a drift, or ``lossless``). Every result is
timed anew by ``optim bench``, interleaved with the original, and compared anew by ``optim verify``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from typing import Any

COLUMNS = (("budget", 8), ("status", 10), ("ratio", 6), ("interval", 14), ("drift", 8), ("size", 5), ("run s", 6))


def main() -> int:
    """Print a line for each model."""
    print("model".ljust(32), *(word.rjust(width) for word, width in COLUMNS))
    failed = 0
    for argument in sys.argv[1:]:
        model, _, rest = argument.partition("=")
        data, _, budget = rest.rpartition(":")
        failed += not measure(model, data, budget)
    return min(failed, 1)


def measure(model: str, data: str, budget: str) -> bool:
    """One model, from an empty cache."""
    feeds = ["--data", data] if data else []
    limit = ["--lossless"] if budget == "lossless" else ["--max-drift", budget]
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out"
        started = time.monotonic()
        report = optim("run", model, "-o", out, *feeds, *limit, "--fresh")
        seconds = time.monotonic() - started
        if "error" in report:
            print(f"{model:32s} {budget:>8s} {report['error']['what']}")
            return False
        timed = optim("bench", model, out, *feeds)["models"][1]
        drift = optim("verify", model, out, *feeds, "--max-drift", "9")["drift"]["relative_l2"]
    low, high = timed["latency_ratio_ci"]
    size = report["result"]["size_bytes"] / report["original"]["size_bytes"]
    print(
        f"{model[-32:]:32s} {budget:>8s} {report['status']:>10s} {timed['latency_ratio']:6.3f} "
        f"[{low:.3f}, {high:.3f}] {drift:8.2g} {size:5.2f} {seconds:6.0f}",
        flush=True,
    )
    return True


def optim(*arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    command = [sys.executable, "-m", "optim", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
