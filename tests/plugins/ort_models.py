"""Small models and what the tests of the plugin ``ort`` do with them: apply a pass, run, compare."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from optim import Context, Model, Pass, PassResult, Target
from optim.onnx.files import read_ir, save_in_store
from optim.options import parse_options

Array = NDArray[Any]
DATA = Path(__file__).parent / "data"
CPU = Target("cpu", "ort", "CPUExecutionProvider")
EXPORTS = tuple(f"{name}.{exporter}" for name in ("bert", "gpt2", "llama", "convnet") for exporter in ("dynamo", "ts"))
_HIDDEN, _HEADS, _LAYERS, _VOCABULARY = 64, 4, 2, 80


def context(folder: Path, samples: Sequence[Mapping[str, Array]] = ()) -> Context:
    """Everything a pass may use, under a folder of the test."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    given = [dict(sample) for sample in samples]
    log = logging.getLogger("test")
    return Context(CPU, scratch, folder / "store", 0, lambda: iter(given), log, lambda _s, _t: None)


def stored(path: Path, folder: Path) -> Model:
    """A file as a run sees it: in the store, weights beside it."""
    return save_in_store(read_ir(path), folder / "store")


def export(name: str, folder: Path) -> Model:
    """One of the tiny exports, e.g. ``bert.dynamo``."""
    return stored(DATA / f"{name}.onnx", folder)


def apply(
    pass_class: type[Pass], model: Model, folder: Path, samples: Sequence[Mapping[str, Array]] = (), **options: Any
) -> PassResult:
    """Apply a pass with these options and the others' defaults."""
    return pass_class().apply(model, parse_options(pass_class, options), context(folder, samples))


def build(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    weights: Mapping[str, Array],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str]],
    *,
    opset: int = 17,
    ir_version: int = 8,
    weights_are_inputs: bool = False,
) -> Model:
    """A model of float32 inputs and outputs."""
    info = helper.make_tensor_value_info
    values = [info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    if weights_are_inputs:
        values += [info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in weights.items()]
    graph = helper.make_graph(
        list(nodes),
        "g",
        values,
        [info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, ir_version=ir_version, opset_imports=opsets)
    onnx.checker.check_model(model)
    path = folder / "built.onnx"
    onnx.save(model, path)
    return stored(path, folder)


def proto(model: Model) -> onnx.ModelProto:
    """The graph as a file says it, weights left where they are."""
    return onnx.load(model.path, load_external_data=False)


def operators(model: Model) -> list[str]:
    """Operators in the graph's order."""
    return [node.op_type for node in proto(model).graph.node]


def after_fusion(model: Model) -> Counter[str]:
    """Operators that onnxruntime really runs."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    written = options.optimized_model_filepath = str(model.path.with_name("optimized.onnx"))
    ort.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(written, load_external_data=False).graph.node)


def names_and_shapes(model: Model) -> tuple[object, ...]:
    """What a pass must leave as it was."""
    return model.inputs, model.outputs, {domain: model.opset[domain] for domain in ("",)}


def run(model: Model, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs on the CPU, with the model's session settings left out."""
    onnx.checker.check_model(str(model.path))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    wanted = {value.name for value in session.get_inputs()}
    return dict(zip(names, session.run(names, {n: a for n, a in feeds.items() if n in wanted}), strict=True))


def drift(reference: Model, other: Model, feeds: Mapping[str, Array]) -> float:
    """The worst relative distance of two models over their outputs, which must agree in name, shape and dtype."""
    expected, got = run(reference, feeds), run(other, feeds)
    assert list(expected) == list(got)
    worst = 0.0
    for name, array in expected.items():
        assert array.shape == got[name].shape
        assert array.dtype == got[name].dtype
        assert np.isfinite(got[name]).all()
        distance = np.linalg.norm((got[name].astype("f8") - array).ravel())
        worst = max(worst, float(distance / max(np.linalg.norm(array.astype("f8").ravel()), 1e-6 * array.size**0.5)))
    return worst


def feeds_for(name: str, *, batch: int = 2, sequence: int = 3, past: int = 5) -> dict[str, Array]:
    """Inputs for one of the tiny exports, with real padding in the mask."""
    rng = np.random.default_rng(0)
    kind = name.partition(".")[0]
    if kind == "convnet":
        return {"pixel_values": rng.standard_normal((batch, 3, 16, 16)).astype(np.float32)}
    total = sequence if kind == "bert" else sequence + past
    mask = np.ones((batch, total), np.int64)
    feeds: dict[str, Array] = {"input_ids": rng.integers(0, _VOCABULARY, (batch, sequence)), "attention_mask": mask}
    if kind == "bert":
        mask[-1, sequence - 1 :] = 0
        return feeds | {"token_type_ids": np.zeros((batch, sequence), np.int64)}
    mask[-1, :2] = 0
    feeds["position_ids"] = np.tile(np.arange(past, past + sequence), (batch, 1))
    heads = 2 if kind == "llama" else _HEADS
    for layer in range(_LAYERS):
        for half in ("key", "value"):
            array = rng.standard_normal((batch, heads, past, _HIDDEN // _HEADS)).astype(np.float32) / 2
            feeds[f"past_key_values.{layer}.{half}"] = array
    return feeds


def random_weight(*shape: int, seed: int = 0) -> Array:
    """Normal numbers, float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def conv_weights(**shapes: tuple[int, ...]) -> dict[str, Array]:
    """Weights of convolutions by name, scaled so that what comes out is about as large as what goes in; and biases."""
    found = {}
    for number, (name, shape) in enumerate(shapes.items()):
        found[name] = random_weight(*shape, seed=number) / np.float32(np.sqrt(np.prod(shape[1:])))
        found[f"{name}_bias"] = random_weight(shape[0], seed=number + 50) / 4
    return found
