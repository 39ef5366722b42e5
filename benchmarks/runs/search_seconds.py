"""What more search seconds buy: the same run with several of them, each from an empty cache, then timed together.

    python benchmarks/runs/search_seconds.py model.onnx --calib calib.npz --data feeds.npz --max-drift 0.05

Prints a row for each: how long the run took, how many steps it computed, and what it came to beside the original on
data that it was not given: by ``optim bench`` in three races of fresh processes, their median and what they span, and
by ``optim verify``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from commands import fresh_run, optim

RACES = 3


def main() -> int:
    """Make the results, then time and compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--calib", required=True, help="samples that the runs are given")
    parser.add_argument("--data", required=True, help="other samples, for timing and comparing")
    parser.add_argument("--max-drift", default="0.05")
    parser.add_argument("--each", nargs="+", default=["10", "30", "60", "120"], metavar="SECONDS")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = {seconds: f"{folder}/{seconds}" for seconds in chosen.each}
        said = {seconds: make(chosen, seconds, out) for seconds, out in made.items()}
        arguments = (chosen.model, *made.values(), "--data", chosen.data, "--seconds", "15")
        timed = pool([optim("bench", *arguments)["models"] for _ in range(RACES)])[1:]
        print("| `--search-seconds` | run s | steps computed | ratio | 95 % | drift on other data |")
        print("|---|---|---|---|---|---|")
        for (seconds, out), found in zip(made.items(), timed, strict=True):
            if "error" in found:
                raise SystemExit(f"{out} cannot be timed: {found['error']}")
            compared = optim("verify", chosen.model, out, "--data", chosen.data, "--max-drift", "9")
            interval = found["latency_ratio_ci"]
            drift = compared["drift"]["relative_error"]
            sure = f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else "too few rounds"
            ratio = f"{found['latency_ratio']:.3f} | {sure}"
            print(f"| {seconds} | {said[seconds]} | {ratio} | {drift:.2g} |", flush=True)
    return 0


def make(chosen: argparse.Namespace, seconds: str, out: str) -> str:
    """Run optim from an empty cache; the time that took and the steps computed, as columns."""
    limits = ("--max-drift", chosen.max_drift, "--search-seconds", seconds)
    report, took = fresh_run(chosen.model, "-o", out, "--data", chosen.calib, *limits)
    if not Path(out, "model.onnx").is_file():
        raise SystemExit(f"no model with {seconds} s: {report}")
    print(f"{seconds} s: {report['reason']}", file=sys.stderr, flush=True)
    return f"{took:.0f} | {report['search']['computed']}"


def pool(races: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """By model, what several races in fresh processes came to: their median, and an interval that holds all of theirs.

    Two processes with the same model differ by some percent (where its memory lies), which no single race can see.
    """
    found = []
    for entries in zip(*races, strict=True):
        failed = next((entry["error"] for entry in entries if entry["error"]), None)
        if failed:
            found.append({"error": failed})
            continue
        middle = sorted(entries, key=lambda entry: entry["latency_ratio"])[len(entries) // 2]
        ends = [entry["latency_ratio_ci"] for entry in entries]
        interval = [min(low for low, _ in ends), max(high for _, high in ends)] if all(ends) else None
        found.append({"latency_ratio": middle["latency_ratio"], "latency_ratio_ci": interval})
    return found


if __name__ == "__main__":
    sys.exit(main())
