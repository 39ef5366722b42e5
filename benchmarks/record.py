"""Record the traces that ``regret.py`` replays: small trained models, several budgets, quiet or beside busy processes.

    python benchmarks/record.py --work FOLDER --out benchmarks/traces                 # a quarter of an hour
    python benchmarks/record.py --work FOLDER --out benchmarks/traces --beside 4
    python benchmarks/record.py --work FOLDER --out OTHER --models digits-vit --seconds 120

The models are those of ``models/digits.py``, trained in seconds. Each is run with each budget, and once with orders of
its own (``--with`` a pass that today's policy tries late or not at all), so that a trace covers more than today's
policy asks for. A file is named after model, seconds, load and order.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MODELS = ("digits-cnn", "digits-resnet", "digits-vit")
SECONDS = (30, 60, 120)
ORDERS = ("ort.quantize-dynamic", "ort.quantize-static")
"""Passes that are named, each in a run of its own, of the middle budget."""

_HERE = Path(__file__).parent


def main() -> None:
    """Record what was asked for; what is there already stays."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="for models, caches and run folders")
    parser.add_argument("--out", type=Path, required=True, help="for the traces")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--seconds", nargs="+", type=int, default=SECONDS)
    parser.add_argument("--beside", type=int, default=0, help="so many busy processes")
    chosen = parser.parse_args()
    for folder in (chosen.work, chosen.out):
        folder.mkdir(parents=True, exist_ok=True)
    orders = [(SECONDS[1], order) for order in ORDERS] if SECONDS[1] in chosen.seconds and not chosen.beside else []
    with _busy(chosen.beside):
        for model in chosen.models:
            _make(model, chosen.work)
            for seconds, order in [*((one, "") for one in chosen.seconds), *orders]:
                load = f"-beside-{chosen.beside}" if chosen.beside else ""
                name = f"{model}-{seconds}s{load}" + (f"-{order}" if order else "")
                _record(model, chosen.work, chosen.out / f"{name}.trace", seconds, order)


def _make(model: str, work: Path) -> None:
    if not (work / f"{model}.onnx").is_file():
        command = [
            sys.executable,
            str(_HERE / "models" / "digits.py"),
            model.removeprefix("digits-"),
            "--out",
            str(work),
        ]
        subprocess.run(command, check=True)


def _record(model: str, work: Path, trace: Path, seconds: int, order: str) -> None:
    if trace.is_file():
        return
    part = trace.with_suffix(".part")
    words = ["--search-seconds", str(seconds), "--data", str(work / f"{model}.calib.npz"), "--trace", str(part)]
    words += ["-o", str(work / trace.stem), *(["--with", order] if order else [])]
    command = [sys.executable, "-m", "optim", "run", str(work / f"{model}.onnx"), *words]
    environment = {**os.environ, "OPTIM_CACHE_DIR": str(work / "cache")}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(f"{trace.stem}: exit status {run.returncode}, {(run.stdout or run.stderr).splitlines()[:1]}", flush=True)
    if part.is_file():
        part.replace(trace)


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.kill()


if __name__ == "__main__":
    main()
