"""How often `optim blame` names the node that is wrong: faults put into fused and quantized models, one at a time.

    python benchmarks/faults.py --models FOLDER [--only minilm,gpt2,resnet50] [--count 20]

FOLDER holds NAME.dynamo.onnx, NAME.inputs.npz and NAME.calib.npz, as a script for real models leaves them. For each
model two others are made: what onnxruntime's own optimizer fuses (level EXTENDED), and a quantized one (weights and
activations by quantize_dynamic for transformers, QDQ by quantize_static for convolutions). Faults of five kinds are put
into these; the reference is the original. A fault counts where the outputs move beyond the budget; it is found where
the first blamed part has the faulty node among its nodes. Prints a row for each, and both shares at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

BUDGET = 1e-3
"""Drift beyond which a fault counts, or ``_BEYOND`` times that of the clean one: 1e-6 fused, 0.03 to 0.3 quantized."""

_BEYOND = 1.25


@dataclass(frozen=True)
class Fault:
    """A changed model and the nodes that the change is in."""

    kind: str
    nodes: tuple[str, ...]


def weight_noise(model: onnx.ModelProto, folder: Path, pick: random.Random) -> Fault | None:
    """Noise of half its own spread on one weight, in whatever type it is stored."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    found = [
        (node, name)
        for node in model.graph.node
        if node.op_type in ("MatMul", "Gemm", "Conv", "MatMulInteger", "DequantizeLinear", "FusedMatMul", "FusedConv")
        for name in node.input
        if name in weights and len(weights[name].dims) >= 2
    ]
    if not found:
        return None
    node, name = pick.choice(found)
    array = _array(weights[name], folder)
    noise = np.random.default_rng(pick.randrange(1 << 30)).standard_normal(array.shape) * 0.5 * array.std()
    changed = np.clip(array + noise, *_range(array.dtype)).astype(array.dtype)
    weights[name].CopyFrom(numpy_helper.from_array(changed, name))
    return Fault("weight noise", _readers(model, node))


def wrong_axis(model: onnx.ModelProto, folder: Path, pick: random.Random) -> Fault | None:
    """An axis one too early, where the shape stays as it is."""
    del folder
    found = [node for node in model.graph.node if node.op_type in ("Softmax", "LayerNormalization")]
    if not found:
        return None
    node = pick.choice(found)
    for attribute in [one for one in node.attribute if one.name == "axis"]:
        node.attribute.remove(attribute)
    if node.op_type == "LayerNormalization":  # over the rows: its scale has another shape there
        node.op_type = "Softmax"
        del node.input[1:]
        for attribute in list(node.attribute):
            node.attribute.remove(attribute)
    node.attribute.append(onnx.helper.make_attribute("axis", -2))
    return Fault("wrong axis", (node.name,))


def wrong_epsilon(model: onnx.ModelProto, folder: Path, pick: random.Random) -> Fault | None:
    """A normalization whose epsilon is as large as what it normalizes."""
    del folder
    found = [node for node in model.graph.node if any(one.name == "epsilon" for one in node.attribute)]
    if not found:
        return None
    node = pick.choice(found)
    next(one for one in node.attribute if one.name == "epsilon").f = 10.0
    return Fault("wrong epsilon", (node.name,))


def overflow(model: onnx.ModelProto, folder: Path, pick: random.Random) -> Fault | None:
    """A value that goes through float16 scaled so that its large elements overflow."""
    del folder
    found = [n for n in model.graph.node if n.op_type in ("MatMul", "Gemm", "Conv", "Add", "FusedMatMul", "FusedConv")]
    floats = {value.name for value in onnx.shape_inference.infer_shapes(model).graph.value_info}
    node = pick.choice([n for n in found if n.output[0] in floats] or found)
    value, names = node.output[0], [f"{node.name}_half_{place}" for place in range(4)]
    inner = [f"{value}_before", f"{value}_scaled", f"{value}_half", f"{value}_back"]
    node.output[0] = inner[0]
    scale = [numpy_helper.from_array(np.float32(number), f"{value}_by_{number:g}") for number in (1e5, 1e-5)]
    model.graph.initializer.extend(scale)
    make = onnx.helper.make_node
    place = list(model.graph.node).index(node)
    for new in (
        make("Mul", [inner[3], scale[1].name], [value], names[3]),
        make("Cast", [inner[2]], [inner[3]], names[2], to=1),
        make("Cast", [inner[1]], [inner[2]], names[1], to=10),
        make("Mul", [inner[0], scale[0].name], [inner[1]], names[0]),
    ):
        model.graph.node.insert(place + 1, new)
    return Fault("overflow in float16", tuple(names))


def bad_scale(model: onnx.ModelProto, folder: Path, pick: random.Random) -> Fault | None:
    """A quantization scale ten times too small; in a model without one, a pair with such a scale is put in."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    found = [
        node
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and len(node.input) > 1 and node.input[1] in weights
    ] or [node for node in model.graph.node if node.op_type == "Mul" and node.input[1].endswith("_scale")]
    scaled = [(node, name) for node in found for name in node.input if name in weights and name.endswith("_scale")]
    if scaled:
        node, name = pick.choice(scaled)
        array = _array(weights[name], folder)
        weights[name].CopyFrom(numpy_helper.from_array((array / 10).astype(array.dtype), name))
        return Fault("bad quantization scale", _readers(model, node))
    node = pick.choice([node for node in model.graph.node if node.op_type in ("MatMul", "Gemm", "Conv", "FusedConv")])
    value, names = node.output[0], (f"{node.name}_down", f"{node.name}_up")
    node.output[0] = f"{value}_before"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(2e-3), f"{value}_scale"))
    model.graph.initializer.append(numpy_helper.from_array(np.int8(0), f"{value}_zero"))
    pair = [f"{value}_scale", f"{value}_zero"]
    place = list(model.graph.node).index(node)
    make = onnx.helper.make_node
    up = make("DequantizeLinear", [f"{value}_integers", *pair], [value], names[1])
    model.graph.node.insert(place + 1, up)
    down = make("QuantizeLinear", [f"{value}_before", *pair], [f"{value}_integers"], names[0])
    model.graph.node.insert(place + 1, down)
    return Fault("bad quantization scale", names)


KINDS: tuple[Callable[[onnx.ModelProto, Path, random.Random], Fault | None], ...] = (
    weight_noise,
    wrong_axis,
    wrong_epsilon,
    overflow,
    bad_scale,
)


def _array(tensor: onnx.TensorProto, folder: Path) -> np.ndarray:
    return numpy_helper.to_array(tensor, base_dir=str(folder))


def _range(dtype: np.dtype) -> tuple[float, float]:
    return (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def _readers(model: onnx.ModelProto, node: onnx.NodeProto) -> tuple[str, ...]:
    """A node, and what reads it where it only unpacks a weight: a weight has no node of its own."""
    if node.op_type != "DequantizeLinear":
        return (node.name,)
    return (node.name, *(other.name for other in model.graph.node if set(node.output) & set(other.input)))


def fused(model: Path, folder: Path) -> Path:
    """What onnxruntime's own optimizer makes of a model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    made = folder / f"{model.name.split('.')[0]}.fused.onnx"
    options.optimized_model_filepath = str(made)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", f"{made.name}.data")
    ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return made


def quantized(model: Path, folder: Path, samples: Path) -> Path:
    """A quantized model: dynamic for transformers, QDQ where there are convolutions."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    made = folder / f"{model.name.split('.')[0]}.quantized.onnx"
    prepared = folder / f"{model.name.split('.')[0]}.prepared.onnx"
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True, save_as_external_data=True)
    operators = {node.op_type for node in onnx.load(model, load_external_data=False).graph.node}
    if "Conv" not in operators:
        quantize_dynamic(prepared, made, weight_type=QuantType.QInt8, use_external_data_format=True)
        return made

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
    return made


def blame(reference: Path, other: Path, data: Path) -> tuple[dict, float]:
    """What `optim blame` says, and its seconds."""
    command = [sys.executable, "-m", "optim", "blame", str(reference), str(other), "--data", str(data), "--json"]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout), time.perf_counter() - started


def main() -> None:
    """Put faults in, one after the other, and print what is blamed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--only", default="minilm,gpt2,resnet50")
    parser.add_argument("--variants", default="fused,quantized")
    parser.add_argument("--count", type=int, default=20, help="of faults for each model and variant")
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    moved = right = 0
    clean_blamed = clean = 0
    for name in asked.only.split(","):
        model, data = asked.models / f"{name}.dynamo.onnx", asked.models / f"{name}.inputs.npz"
        makers = {
            "fused": lambda m=model: fused(m, asked.models),
            "quantized": lambda m=model, n=name: quantized(m, asked.models, asked.models / f"{n}.calib.npz"),
        }
        for variant in asked.variants.split(","):
            made = asked.models / f"{name}.{variant}.onnx"
            if not made.exists():
                makers[variant]()
            found, seconds = blame(model, made, data)
            drift_of_clean = found["drift"]
            clean, clean_blamed = clean + 1, clean_blamed + bool(found["blamed"])
            print(f"{name} {variant} clean: drift {found['drift']}, blamed {len(found['blamed'])}, {seconds:.1f} s")
            for one in found["blamed"][:3]:
                print("   ", one["nodes"][:4], one["operators"][:4], one["local"], one["limit"], one["alone"])
            for number in range(asked.first, asked.count):
                proto = onnx.load(made, load_external_data=False)
                fault = KINDS[number % len(KINDS)](proto, made.parent, random.Random(f"{name} {variant} {number}"))
                if fault is None:
                    continue
                broken = asked.models / f"{name}.{variant}.broken.onnx"
                onnx.save(proto, broken)
                found, seconds = blame(model, broken, data)
                counts = found["drift"] is None or found["drift"] > max(BUDGET, _BEYOND * drift_of_clean)
                first = found["blamed"][0]["nodes"] if found["blamed"] else []
                hit = bool(set(first) & set(fault.nodes))
                moved, right = moved + counts, right + (counts and hit)
                drift = "lost" if found["drift"] is None else f"{found['drift']:.4}"
                verdict = "right" if hit else "missed" if not first else "WRONG"
                print(
                    f"{name} {variant} {number:2} {fault.kind:23} {verdict:7}"
                    f" drift {drift:>8}{'' if counts else ' (within)'}"
                    f" of {len(first)} nodes, {len(found['blamed'])} blamed, {seconds:.1f} s: {fault.nodes[0]}",
                    flush=True,
                )
                if counts and not hit:
                    print("   ", [(b["nodes"][:3], b["local"], b["limit"], b["alone"]) for b in found["blamed"][:3]])
                    print("    the error grows most at", (found["steepest"] or {}).get("node"))
    print(f"{right} of {moved} faults named first; clean pairs blamed: {clean_blamed} of {clean}")


if __name__ == "__main__":
    main()
