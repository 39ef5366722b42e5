"""Times the run of a model, and then that of its next export: other weights, by the other exporter of torch.

    python benchmarks/runs/second_runs.py --work FOLDER --make mpnet ast qwen2 minilm   # exports; are they near?
    python benchmarks/runs/second_runs.py --work FOLDER mpnet ast qwen2 minilm          # runs both; prints a table

The first export is by torch.export (``dynamo=True``), the second by TorchScript (``dynamo=False``, opset 17). The
second weights have noise of 1 % of their deviation. MiniLM is trained; the others are architectures of
models/configs.py with random weights. Both runs have the default budget and seconds, and one cache.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))

from commands import optim

EXPORTERS = ("dynamo", "ts")
NOISE = 0.01


def main() -> None:
    """Make the models, or run optim on them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="minilm, or a name of models/configs.py")
    parser.add_argument("--work", type=Path, required=True, help="for models, the cache and results")
    parser.add_argument("--make", action="store_true", help="only make the models")
    chosen = parser.parse_args()
    work = chosen.work.resolve()
    if chosen.make:
        for name in chosen.models:
            print(
                f"{name}: {make(name, work):.0%} of the multiplications are by weights of the same shapes", flush=True
            )
        return
    print(f"load {os.getloadavg()[0]:.1f} before")
    print("| model | first run | second run | of its seconds | what the second run says |\n|---|--:|--:|--:|---|")
    for name in chosen.models:
        first, second = (searched(name, exporter, work) for exporter in EXPORTERS)
        early = [note for note in second[0]["notes"] if "ended early" in note]
        said = early[0] if early else "it searched everything"
        cells = " | ".join(f"{seconds:.0f} s, {figures(report)}" for report, seconds in (first, second))
        print(f"| {name} | {cells} | {second[1] / first[1]:.0%} | {said} |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} after")


def make(name: str, work: Path) -> float:
    """Export a model twice, unless it is there already; returns what both have in common, 0..1."""
    import torch
    from configs import MODELS, built_of
    from exports import export, seeded, write_samples

    from optim._engine.search.experience import Architecture
    from optim.onnx.operators import work_by_weight

    work.mkdir(parents=True, exist_ok=True)
    paths = [work / f"{name}-{exporter}.onnx" for exporter in EXPORTERS]
    if not all(path.is_file() for path in paths):
        built = built_of(MODELS[name]) if name in MODELS else seeded(name)
        write_samples(work / f"{name}.npz", built.samples[-8:])
        with torch.no_grad():
            for path, exporter in zip(paths, EXPORTERS, strict=True):
                export(built, path, exporter)
                for weight in built.module.parameters():
                    weight += NOISE * weight.std() * torch.randn_like(weight) if weight.numel() > 1 else 0.0
    one, other = (Architecture(work_by_weight(path), 1) for path in paths)
    return one.likeness(other)


def searched(name: str, exporter: str, work: Path) -> tuple[dict[str, Any], float]:
    """The report of a run, and the seconds of the whole command."""
    words = (str(work / f"{name}-{exporter}.onnx"), "--data", str(work / f"{name}.npz"))
    began = time.monotonic()
    report = optim("run", *words, "-o", str(work / f"{name}-{exporter}-out"), cache=str(work / "cache"))
    return report, time.monotonic() - began


def figures(report: dict[str, Any]) -> str:
    """The ratio of a result, with its drift; else the verdict."""
    result = report["result"]
    if report["status"] != "improved":
        return str(report["status"])
    return f"{result['latency_ratio']:.2f} (drift {result['drift']['relative_error']:.3f})"


if __name__ == "__main__":
    main()
