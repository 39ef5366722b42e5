"""How often `optim blame` names the node that is wrong: faults put into fused and quantized models, one at a time.

    python benchmarks/faults.py --models FOLDER                  # twenty faults in all, four of each kind
    python benchmarks/faults.py --models FOLDER --each 20        # so many in each model and variant

FOLDER holds what `benchmarks/models/exports.py` writes; what is missing is exported. For each model two others are
made: what onnxruntime's own optimizer fuses (level EXTENDED), and a quantized one (weights and activations by
quantize_dynamic for transformers, QDQ by quantize_static for convolutions). Faults of five kinds are put into these;
the reference is the original. A fault counts where the outputs move beyond the budget; it is found where the first
blamed part has the faulty node among its nodes. Prints a row for each, and both shares at the end; ends with status 1
where fewer than 90 % are found or a clean pair is blamed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

BUDGET = 1e-3
"""Drift beyond which a fault counts, or ``_BEYOND`` times that of the clean one: 1e-6 fused, 0.03 to 0.3 quantized."""

_BEYOND = 1.25

_ASKED = 0.9
"""Share of the faults that count which must be found."""


@dataclass(frozen=True)
class Fault:
    """A changed model and the nodes that the change is in."""

    kind: str
    nodes: tuple[str, ...]


def weight_noise(model: onnx.ModelProto, pair: Pair, pick: random.Random) -> Fault | None:
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
    array = _array(weights[name], pair.folder)
    noise = np.random.default_rng(pick.randrange(1 << 30)).standard_normal(array.shape) * 0.5 * array.std()
    changed = np.clip(array + noise, *_range(array.dtype)).astype(array.dtype)
    weights[name].CopyFrom(numpy_helper.from_array(changed, name))
    return Fault("weight noise", _readers(model, node))


def wrong_axis(model: onnx.ModelProto, pair: Pair, pick: random.Random) -> Fault | None:
    """An axis one too early, where the shape stays as it is."""
    del pair
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


def wrong_epsilon(model: onnx.ModelProto, pair: Pair, pick: random.Random) -> Fault | None:
    """A normalization whose epsilon is as large as what it normalizes."""
    del pair
    found = [node for node in model.graph.node if any(one.name == "epsilon" for one in node.attribute)]
    if not found:
        return None
    node = pick.choice(found)
    next(one for one in node.attribute if one.name == "epsilon").f = 10.0
    return Fault("wrong epsilon", (node.name,))


def overflow(model: onnx.ModelProto, pair: Pair, pick: random.Random) -> Fault | None:
    """A value that goes through float16 scaled so that its large elements overflow."""
    del pair
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


def bad_scale(model: onnx.ModelProto, pair: Pair, pick: random.Random) -> Fault | None:
    """A quantization scale ten times too small; in a model without one, a pair with such a scale is put in.

    A fixed scale would not do: for some values it is the right one.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    found = [
        node
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and len(node.input) > 1 and node.input[1] in weights
    ] or [node for node in model.graph.node if node.op_type == "Mul" and node.input[1].endswith("_scale")]
    scaled = [(node, name) for node in found for name in node.input if name in weights and name.endswith("_scale")]
    if scaled:
        node, name = pick.choice(scaled)
        array = _array(weights[name], pair.folder)
        weights[name].CopyFrom(numpy_helper.from_array((array / 10).astype(array.dtype), name))
        return Fault("bad quantization scale", _readers(model, node))
    node = pick.choice([node for node in model.graph.node if node.op_type in ("MatMul", "Gemm", "Conv", "FusedConv")])
    value, names = node.output[0], (f"{node.name}_down", f"{node.name}_up")
    scale = np.float32(np.abs(_seen(model, pair, value)).max() / 127 / 10)
    node.output[0] = f"{value}_before"
    model.graph.initializer.append(numpy_helper.from_array(scale, f"{value}_scale"))
    model.graph.initializer.append(numpy_helper.from_array(np.int8(0), f"{value}_zero"))
    pair = [f"{value}_scale", f"{value}_zero"]
    place = list(model.graph.node).index(node)
    make = onnx.helper.make_node
    up = make("DequantizeLinear", [f"{value}_integers", *pair], [value], names[1])
    model.graph.node.insert(place + 1, up)
    down = make("QuantizeLinear", [f"{value}_before", *pair], [f"{value}_integers"], names[0])
    model.graph.node.insert(place + 1, down)
    return Fault("bad quantization scale", names)


KINDS: tuple[Callable[[onnx.ModelProto, Pair, random.Random], Fault | None], ...] = (
    weight_noise,
    wrong_axis,
    wrong_epsilon,
    overflow,
    bad_scale,
)


def _seen(model: onnx.ModelProto, pair: Pair, value: str) -> np.ndarray:
    """A value of the model on its feeds."""
    import onnxruntime as ort

    looked_into = onnx.ModelProto.FromString(model.SerializeToString())
    looked_into.graph.output.append(onnx.ValueInfoProto(name=value))
    path = pair.made.with_suffix(".value.onnx")
    onnx.save(looked_into, path)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    with np.load(pair.data) as feeds:
        (found,) = session.run([value], {one.name: feeds[one.name] for one in session.get_inputs()})
    return np.asarray(found)


def _array(tensor: onnx.TensorProto, folder: Path) -> np.ndarray:
    return numpy_helper.to_array(tensor, base_dir=str(folder))


def _range(dtype: np.dtype) -> tuple[float, float]:
    return (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def _readers(model: onnx.ModelProto, node: onnx.NodeProto) -> tuple[str, ...]:
    """A node, and what reads it where it only unpacks a weight: a weight has no node of its own."""
    if node.op_type != "DequantizeLinear":
        return (node.name,)
    return (node.name, *(other.name for other in model.graph.node if set(node.output) & set(other.input)))


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


def blame(reference: Path, other: Path, data: Path) -> tuple[dict, float]:
    """What `optim blame` says, and its seconds."""
    command = [sys.executable, "-m", "optim", "blame", str(reference), str(other), "--data", str(data), "--json"]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout), time.perf_counter() - started


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
            exporter = str(Path(__file__).parent / "models" / "exports.py")
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
        fault = KINDS[number % len(KINDS)](proto, self, draw)
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
        found, seconds = blame(pair.reference, pair.made, pair.data)
        pair.clean_drift = found["drift"]
        self.clean, self.clean_blamed = self.clean + 1, self.clean_blamed + bool(found["blamed"])
        drift, count = found["drift"], len(found["blamed"])
        print(f"{pair.name} {pair.variant} clean: drift {drift}, blamed {count}, {seconds:.1f} s", flush=True)
        for one in found["blamed"][:3]:
            print("   ", one["nodes"][:4], one["operators"][:4], one["local"], one["limit"], one["alone"])

    def look_at(self, pair: Pair, number: int, fault: Fault, broken: Path) -> None:
        """Blame the faulty node first."""
        found, seconds = blame(pair.reference, broken, pair.data)
        counts = found["drift"] is None or found["drift"] > max(BUDGET, _BEYOND * (pair.clean_drift or 0.0))
        first = found["blamed"][0]["nodes"] if found["blamed"] else []
        hit = bool(set(first) & set(fault.nodes))
        self.moved, self.right = self.moved + counts, self.right + (counts and hit)
        drift = "lost" if found["drift"] is None else f"{found['drift']:.4}"
        verdict = "right" if hit else "missed" if not first else "WRONG"
        print(
            f"{pair.name} {pair.variant} {number:2} {fault.kind:23} {verdict:7}"
            f" drift {drift:>8}{'' if counts else ' (within)'}"
            f" of {len(first)} nodes, {len(found['blamed'])} blamed, {seconds:.1f} s: {fault.nodes[0]}",
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
