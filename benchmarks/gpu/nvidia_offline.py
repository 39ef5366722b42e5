"""What optim makes for NVIDIA's GPUs on a machine without one, for the four models of the benchmark: in one command.

    python benchmarks/gpu/nvidia_offline.py --models FOLDER                    # exports what is missing there
    python benchmarks/gpu/nvidia_offline.py --models FOLDER --only minilm

For each model and both targets ``cuda-offline`` and ``tensorrt-offline`` it has ``optim run`` make the graph that
docs/vendor-targets.md names, and looks at the folder: the checker accepts the graph, the provider's settings are in
``session.json``, the drift on the CPU is within the budget, and report and card say that nothing ran on a GPU. The plan
of the target itself is printed as well (``--dry-run``). Ends with status 1 where one of these does not hold. No times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

MODELS = ("minilm", "gpt2", "llama", "resnet50")

MARK = "nothing was run on a GPU"
"""What the report says of such a run."""

SEARCH_S = "5"
"""Passes that are named are tried whatever the seconds; others need none here."""


@dataclass(frozen=True)
class Way:
    """What one target is asked for.

    Attributes:
        passes: that are named.
        budget: of drift.
        provider: whose settings the result has.
        stored: type of weights that the result has: the lossy step was not dropped.
    """

    passes: tuple[str, ...]
    budget: float
    provider: str
    stored: int


WAYS = {
    "cuda-offline": Way(
        ("ort.fuse-transformer", "ort.convert-float16", "cuda.tune-provider:tf32=true"),
        0.01,
        "CUDAExecutionProvider",
        onnx.TensorProto.FLOAT16,
    ),
    "tensorrt-offline": Way(
        ("tensorrt.quantize", "tensorrt.tune-provider:builder_level=4"),
        0.15,
        "TensorrtExecutionProvider",
        onnx.TensorProto.INT8,
    ),
}


def main() -> int:
    """Make, look, print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=MODELS, default=MODELS)
    asked = parser.parse_args()
    asked.models.mkdir(parents=True, exist_ok=True)
    for target in WAYS:
        print(f"plan for {target.removesuffix('-offline')}:", ", ".join(planned(target.removesuffix("-offline"))))
    held = True
    for name in asked.only:
        model = asked.models / f"{name}-dynamo.onnx"
        if not model.is_file():
            exporter = str(Path(__file__).parents[1] / "models" / "exports.py")
            subprocess.run([sys.executable, exporter, name, "--out", str(asked.models)], check=True)
        for target, way in WAYS.items():
            started = time.monotonic()
            wrong = list(problems(*made(model, target, way), way))
            print(f"{name} {target}: {'; '.join(wrong) or 'holds'}, {time.monotonic() - started:.0f} s", flush=True)
            held = held and not wrong
    return 0 if held else 1


def planned(target: str) -> list[str]:
    """Passes that a run for this target would try, without a device."""
    command = [sys.executable, "-m", "optim", "run", "model.onnx", "--target", target, "--dry-run", "--json"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [one["pass"] for one in said["passes"]]


def made(model: Path, target: str, way: Way) -> tuple[Path, str]:
    """The run folder, and what the run said."""
    folder = model.with_name(f"{model.stem}.{target}")
    words = ["run", str(model), "--target", target, "--data", str(model.with_name(f"{model.stem[:-7]}.calib.npz"))]
    words += [word for name in passes(model, way) for word in ("--with", name)]
    words += ["--max-drift", str(way.budget), "--search-seconds", SEARCH_S, "-o", str(folder)]
    done = subprocess.run([sys.executable, "-m", "optim", *words], capture_output=True, text=True, check=False)
    return folder, done.stderr if done.returncode else ""


def passes(model: Path, way: Way) -> list[str]:
    """Those that are named; attention and normalizations are fused where there are some."""
    operators = {node.op_type for node in onnx.load(model, load_external_data=False).graph.node}
    return [name for name in way.passes if name != "ort.fuse-transformer" or "Conv" not in operators]


def problems(folder: Path, failed: str, way: Way) -> Iterator[str]:
    """What does not hold; the drift is printed as well."""
    if failed:
        yield f"the run failed: {failed[-300:]}"
        return
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    result = report["result"]
    drift, megabytes = result["drift"]["relative_error"], result["size_bytes"] / 1e6
    print(f"   drift {drift:.2g} of {way.budget}, {megabytes:.1f} MB")
    try:
        onnx.checker.check_model(str(folder / "model.onnx"))
    except onnx.checker.ValidationError as error:
        yield f"the checker refuses it: {error}"
    if drift > way.budget:
        yield "it drifts beyond the budget"
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    if way.stored not in {tensor.data_type for tensor in graph.initializer}:
        yield f"no weight is of type {onnx.TensorProto.DataType.Name(way.stored)}"
    session = json.loads((folder / "session.json").read_text(encoding="utf-8"))
    if not session["tuned_provider_options"].get(way.provider):
        yield f"no settings of {way.provider}"
    if not any(MARK in note for note in report["notes"]) or MARK not in (folder / "README.md").read_text("utf-8"):
        yield "report or card do not say that nothing ran on a GPU"


if __name__ == "__main__":
    sys.exit(main())
