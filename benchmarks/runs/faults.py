"""How often `optim blame` names the node that is wrong: faults put into fused and quantized models, one at a time.

    python benchmarks/runs/faults.py --models FOLDER                  # twenty faults in all, four of each kind
    python benchmarks/runs/faults.py --models FOLDER --each 20        # so many in each model and variant

FOLDER holds what `benchmarks/models/exports.py` writes; what is missing is exported. For each model two others are
made: what onnxruntime's own optimizer fuses (level EXTENDED), and a quantized one (weights and activations by
quantize_dynamic for transformers, QDQ by quantize_static for convolutions). Faults of five kinds are put into these;
the reference is the original. A fault counts where the outputs move beyond the budget; it is found where the first
blamed part has the faulty node among its nodes. Prints a row for each, with seconds and the peak memory of the largest
process (Linux), and both shares at the end; ends with status 1 where fewer than 90 % are found or a clean pair is
blamed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import onnx
from fault_kinds import KINDS, Fault, Place

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from memory import descendants, high_water_bytes

BUDGET = 1e-3
"""Drift beyond which a fault counts, or ``_BEYOND`` times that of the clean one: 1e-6 fused, 0.03 to 0.3 quantized."""

_BEYOND = 1.25

_LOOK_S = 0.05
"""Between looks at the memory of processes: each keeps its own peak, so only one that is as short is not seen."""

_ASKED = 0.9
"""Share of the faults that count which must be found."""


def fused(model: Path, made: Path) -> None:
    """What onnxruntime's own optimizer makes of a model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(made)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", f"{made.name}.data")
    ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def quantized(model: Path, made: Path, samples: Path) -> None:
    """A quantized model: dynamic for transformers, QDQ where there are convolutions."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = made.with_suffix(".prepared.onnx")
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True, save_as_external_data=True)
    operators = {node.op_type for node in onnx.load(model, load_external_data=False).graph.node}
    if "Conv" not in operators:
        quantize_dynamic(prepared, made, weight_type=QuantType.QInt8, use_external_data_format=True)
        return

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            arrays = np.load(samples)
            count = 1 + max(int(name.split("/")[0]) for name in arrays.files)
            self._samples = iter(
                [{n.split("/", 1)[1]: arrays[n] for n in arrays.files if n.startswith(f"{i}/")} for i in range(count)]
            )

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._samples, None)

    quantize_static(prepared, made, Reader(), quant_format=QuantFormat.QDQ, use_external_data_format=True)


@dataclass(frozen=True)
class Said:
    """What `optim blame --json` says, and what it takes.

    Attributes:
        answer: as it is printed.
        seconds: of the whole command.
        peak_bytes: largest resident set of any of its processes, mapped weights counted.
    """

    answer: dict[str, Any]
    seconds: float
    peak_bytes: int

    @property
    def cost(self) -> str:
        """E.g. ``20.3 s, 410 MB``."""
        return f"{self.seconds:.1f} s, {self.peak_bytes / 1e6:.0f} MB"


def blame(reference: Path, other: Path, data: Path) -> Said:
    """Have two models compared, in processes that are watched."""
    command = [sys.executable, "-m", "optim", "blame", str(reference), str(other), "--data", str(data), "--json"]
    started, peak = time.perf_counter(), 0
    with TemporaryFile("w+") as said, TemporaryFile("w+") as complained:
        process = subprocess.Popen(command, stdout=said, stderr=complained)
        while process.poll() is None:
            peak = max(peak, *map(high_water_bytes, descendants(process.pid)))
            time.sleep(_LOOK_S)
        for stream in (said, complained):
            stream.seek(0)
        if process.returncode not in (0, 4):
            raise SystemExit(f"{' '.join(command)}\n{complained.read()[-3000:]}")
        return Said(json.load(said), time.perf_counter() - started, peak)


@dataclass
class Pair:
    """A model and one that was made of it."""

    name: str
    variant: str
    folder: Path
    clean_drift: float | None = None

    @property
    def reference(self) -> Path:
        """The model."""
        return self.folder / f"{self.name}-dynamo.onnx"

    @property
    def made(self) -> Path:
        """The other."""
        return self.folder / f"{self.name}-dynamo.{self.variant}.onnx"

    @property
    def data(self) -> Path:
        """What both are run on."""
        return self.folder / f"{self.name}.feeds.npz"

    def prepare(self) -> None:
        """Export and make what is not there."""
        if not self.reference.is_file():
            exporter = str(Path(__file__).parents[1] / "models" / "exports.py")
            subprocess.run([sys.executable, exporter, self.name, "--out", str(self.folder)], check=True)
        if self.made.is_file():
            return
        if self.variant == "fused":
            fused(self.reference, self.made)
        else:
            quantized(self.reference, self.made, self.folder / f"{self.name}.calib.npz")

    def broken(self, number: int) -> tuple[Fault, Path] | None:
        """A copy with a fault, the same for the same number; None where this kind has no node here."""
        proto = onnx.load(self.made, load_external_data=False)
        draw = random.Random(f"{self.name} {self.variant} {number}")
        place = Place(self.folder, self.data, self.made.with_suffix(".value.onnx"))
        fault = KINDS[number % len(KINDS)](proto, place, draw)
        if fault is None:
            return None
        path = self.made.with_name(f"{self.name}.{self.variant}.broken.onnx")
        onnx.save(proto, path)
        return fault, path


@dataclass
class Score:
    """What was found so far."""

    moved: int = 0
    right: int = 0
    clean: int = 0
    clean_blamed: int = 0

    def look_at_clean(self, pair: Pair) -> None:
        """Blame nothing in a pair without a fault."""
        said = blame(pair.reference, pair.made, pair.data)
        found = said.answer
        pair.clean_drift = found["drift"]
        self.clean, self.clean_blamed = self.clean + 1, self.clean_blamed + bool(found["blamed"])
        drift, count = found["drift"], len(found["blamed"])
        print(f"{pair.name} {pair.variant} clean: drift {drift}, blamed {count}, {said.cost}", flush=True)
        for one in found["blamed"][:3]:
            print("   ", one["nodes"][:4], one["operators"][:4], one["local"], one["limit"], one["alone"])

    def look_at(self, pair: Pair, number: int, fault: Fault, broken: Path) -> None:
        """Blame the faulty node first."""
        said = blame(pair.reference, broken, pair.data)
        found = said.answer
        counts = found["drift"] is None or found["drift"] > max(BUDGET, _BEYOND * (pair.clean_drift or 0.0))
        first = found["blamed"][0]["nodes"] if found["blamed"] else []
        hit = bool(set(first) & set(fault.nodes))
        self.moved, self.right = self.moved + counts, self.right + (counts and hit)
        drift = "lost" if found["drift"] is None else f"{found['drift']:.4}"
        verdict = "right" if hit else "missed" if not first else "WRONG"
        print(
            f"{pair.name} {pair.variant} {number:2} {fault.kind:23} {verdict:7}"
            f" drift {drift:>8}{'' if counts else ' (within)'}"
            f" of {len(first)} nodes, {len(found['blamed'])} blamed, {said.cost}: {fault.nodes[0]}",
            flush=True,
        )
        if counts and not hit:
            print("   ", [(b["nodes"][:3], b["local"], b["limit"], b["alone"]) for b in found["blamed"][:3]])
            print("    the error grows most at", (found["steepest"] or {}).get("node"))


def chosen(pairs: Sequence[Pair], count: int, each: int, first: int) -> Iterator[tuple[Pair, int]]:
    """Pairs and numbers of faults: ``each`` for every pair, or ``count`` in all, a kind and a pair after the other."""
    if each:
        yield from ((pair, number) for pair in pairs for number in range(first, each))
        return
    for number in range(first, count):
        start = number % len(pairs)
        pair = next((one for one in (*pairs[start:], *pairs[:start]) if one.broken(number)), None)
        if pair is not None:
            yield pair, number


def main() -> int:
    """Put faults in, one after the other, and print what is blamed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--only", default="minilm,gpt2,resnet50")
    parser.add_argument("--variants", default="fused,quantized")
    parser.add_argument("--count", type=int, default=20, help="of faults in all")
    parser.add_argument("--each", type=int, default=0, help="of faults for each model and variant, in place of that")
    parser.add_argument("--first", type=int, default=0, help="number of the first fault")
    asked = parser.parse_args()
    asked.models.mkdir(parents=True, exist_ok=True)
    names, variants = asked.only.split(","), asked.variants.split(",")
    pairs = [Pair(name, variant, asked.models) for name in names for variant in variants]
    score = Score()
    for pair in pairs:
        pair.prepare()
        score.look_at_clean(pair)
    for pair, number in chosen(pairs, asked.count, asked.each, asked.first):
        if made := pair.broken(number):
            score.look_at(pair, number, *made)
    moved, right = score.moved, score.right
    print(f"{right} of {moved} faults named first; clean pairs blamed: {score.clean_blamed} of {score.clean}")
    return 0 if right >= _ASKED * moved and not score.clean_blamed else 1


if __name__ == "__main__":
    sys.exit(main())
