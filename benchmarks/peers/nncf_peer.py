"""NNCF alone, as its own users call it: int8 on the ONNX graph, and int8 by its accuracy control.

    python benchmarks/peers/nncf_peer.py int8|control model.onnx samples.npz made.onnx MAX_DRIFT

Accuracy control measures the mean drift on the samples, as optim's gate defines it, and may drop by MAX_DRIFT.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nncf
import nncf.onnx
import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from samples import drifts, samples_of

Sample = dict[str, Any]


def main(way: str, path: str, data: str, made: str, most: float) -> None:
    """Quantize."""
    model, samples = onnx.load(path), samples_of(data)
    transformer = any(node.op_type == "Softmax" for node in model.graph.node)
    kind = nncf.ModelType.TRANSFORMER if transformer else None
    asked: dict[str, Any] = {"model_type": kind, "subset_size": len(samples)}
    dataset = nncf.Dataset(samples)
    if way == "int8":
        onnx.save(nncf.quantize(model, dataset, preset=nncf.QuantizationPreset.MIXED, **asked), made)
        return
    expected = outputs(model, samples)

    def closeness(candidate: onnx.ModelProto, given: Iterable[Sample]) -> tuple[float, list[float]]:
        """One less the mean drift, and that of each sample: higher is better."""
        found = outputs(candidate, list(given))
        each = [1 - one for one in drifts(zip(expected, found, strict=False))]
        return float(np.mean(each)), each

    controlled = nncf.quantize_with_accuracy_control(
        model, dataset, nncf.Dataset(samples), closeness, max_drop=most, drop_type=nncf.DropType.ABSOLUTE, **asked
    )
    onnx.save(controlled, made)


def outputs(model: onnx.ModelProto, samples: list[Sample]) -> list[Sample]:
    """All outputs for each sample by name, by onnxruntime."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(None, sample), strict=True)) for sample in samples]


if __name__ == "__main__":
    main(*sys.argv[1:5], most=float(sys.argv[5]))
