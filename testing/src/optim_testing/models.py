"""Tiny real models that passes can be tried on: seeded, valid, run by ONNX Runtime in well under a millisecond.

Each function writes one file into a folder and returns its path. Batch (and sequence) are dynamic, the opset is 17,
and the weights are such that outputs stay near 1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

    Nodes = Sequence[onnx.NodeProto]
    Weights = Mapping[str, NDArray[Any] | np.generic]
    Shapes = Mapping[str, Sequence[str | int]]

_OPSET = 17
_IR_VERSION = 9
_SEED = 7


def identity(folder: Path) -> Path:
    """One Identity, x [batch, 4] to y: there is nothing to do for nearly every pass."""
    return _write(folder, "identity", [_node("Identity", ["x"], ["y"])], {"x": ["batch", 4]}, {"y": ["batch", 4]}, {})


def foreign(folder: Path) -> Path:
    """One node of an operator that nobody has, x [batch, 4] to y: what runs it is not honest."""
    import onnx
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
    node = helper.make_node("Unheard", ["x"], ["y"], name="Unheard_y", domain="an.operator.of.nobody")
    graph = helper.make_graph([node], "foreign", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("an.operator.of.nobody", 1)]
    path = folder / "foreign.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION), path)
    return path


def mlp(folder: Path, width: int = 64) -> Path:
    """Maps x [batch, 32] to y [batch, 10]: MatMul, Add, Relu, an Identity and a Dropout left by an exporter, Gemm.

    ``width`` is that of the hidden layer: some passes have nothing to do for small weights.
    """
    rng = np.random.default_rng(_SEED)
    nodes = [
        _node("MatMul", ["x", "w1"], ["h1"]),
        _node("Add", ["h1", "b1"], ["h2"]),
        _node("Relu", ["h2"], ["h3"]),
        _node("Identity", ["h3"], ["h4"]),
        _node("Dropout", ["h4"], ["h5"]),
        _node("Gemm", ["h5", "w2", "b2"], ["y"]),
    ]
    weights = {
        "w1": _dense(rng, 32, width),
        "b1": _small(rng, width),
        "w2": _dense(rng, width, 10),
        "b2": _small(rng, 10),
    }
    return _write(folder, "mlp", nodes, {"x": ["batch", 32]}, {"y": ["batch", 10]}, weights)


def fixed_mlp(folder: Path) -> Path:
    """Maps x [2, 32] to y [2, 10], with no dynamic dimension: MatMul, Add, Relu, MatMul."""
    nodes, weights = _hidden(np.random.default_rng(_SEED))
    nodes.append(_node("MatMul", ["h3", "w2"], ["y"]))
    return _write(folder, "fixed-mlp", nodes, {"x": [2, 32]}, {"y": [2, 10]}, weights)


def two_outputs(folder: Path) -> Path:
    """Maps x [batch, 32] to first and second, both [batch, 10]: what swaps them computes something else."""
    rng = np.random.default_rng(_SEED)
    nodes, weights = _hidden(rng)
    nodes += [_node("MatMul", ["h3", "w2"], ["first"]), _node("MatMul", ["h3", "w3"], ["second"])]
    outputs: Shapes = {"first": ["batch", 10], "second": ["batch", 10]}
    return _write(folder, "two-outputs", nodes, {"x": ["batch", 32]}, outputs, {**weights, "w3": _dense(rng, 64, 10)})


def long_run(folder: Path) -> Path:
    """Maps x [128, 512] to y of that size by 16 products, half a billion multiplications: some 0.02 s.

    No Relu follows the last product: a column that a Relu lets through in two rows of 256 varies so little that the
    rounding of float32 is 4e-4 of it.
    """
    rng = np.random.default_rng(_SEED)
    nodes, weights, last = list[Any](), {"w": _dense(rng, 512, 512) * np.float32(1.4)}, "x"
    for place in range(15):
        nodes += [_node("MatMul", [last, "w"], [f"m{place}"]), _node("Relu", [f"m{place}"], [f"r{place}"])]
        last = f"r{place}"
    nodes.append(_node("MatMul", [last, "w"], ["y"]))
    return _write(folder, "long-run", nodes, {"x": [128, 512]}, {"y": [128, 512]}, weights)


def _hidden(rng: np.random.Generator) -> tuple[list[onnx.NodeProto], dict[str, NDArray[Any]]]:
    """A hidden layer of 64 from x [..., 32] to h3, and a weight w2 for behind it."""
    nodes = [_node("MatMul", ["x", "w1"], ["h1"]), _node("Add", ["h1", "b1"], ["h2"]), _node("Relu", ["h2"], ["h3"])]
    return nodes, {"w1": _dense(rng, 32, 64), "b1": _small(rng, 64), "w2": _dense(rng, 64, 10)}


def convnet(folder: Path) -> Path:
    """Maps x [batch, 3, 16, 16] to y [batch, 5]: Conv, BatchNormalization, Relu, a residual, pooling, Gemm."""
    rng = np.random.default_rng(_SEED)
    nodes = [
        _node("Conv", ["x", "k1"], ["c1"], pads=[1, 1, 1, 1]),
        _node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["n1"]),
        _node("Relu", ["n1"], ["r1"]),
        _node("Conv", ["r1", "k2", "kb2"], ["c2"], pads=[1, 1, 1, 1]),
        _node("Add", ["c2", "r1"], ["a"]),
        _node("Relu", ["a"], ["r2"]),
        _node("GlobalAveragePool", ["r2"], ["p"]),
        _node("Flatten", ["p"], ["f"]),
        _node("Gemm", ["f", "w", "b"], ["y"]),
    ]
    weights = {
        "k1": _kernel(rng, 8, 3),
        "k2": _kernel(rng, 8, 8),
        "kb2": _small(rng, 8),
        "w": _dense(rng, 8, 5),
        "b": _small(rng, 5),
        "scale": 1 + _small(rng, 8),
        "shift": _small(rng, 8),
        "mean": _small(rng, 8),
        "var": 1 + np.abs(_small(rng, 8)),
    }
    return _write(folder, "convnet", nodes, {"x": ["batch", 3, 16, 16]}, {"y": ["batch", 5]}, weights)


def encoder(folder: Path) -> Path:
    """Maps input_ids, attention_mask [batch, sequence] to hidden [batch, sequence, 32]: a transformer block."""
    rng = np.random.default_rng(_SEED)
    nodes = [
        _node("Gather", ["words", "input_ids"], ["e"]),
        *_mask(),
        *_heads("q", "e"),
        *_heads("k", "e"),
        *_heads("v", "e"),
        *_attention(),
        _node("MatMul", ["joined", "wo"], ["o"]),
        _node("Add", ["o", "e"], ["res1"]),
        _node("LayerNormalization", ["res1", "g1", "s1"], ["n1"], axis=-1),
        _node("MatMul", ["n1", "w1"], ["u"]),
        _node("Relu", ["u"], ["act"]),
        _node("MatMul", ["act", "w2"], ["d"]),
        _node("Add", ["d", "n1"], ["res2"]),
        _node("LayerNormalization", ["res2", "g2", "s2"], ["hidden"], axis=-1),
    ]
    weights: Weights = {
        "words": rng.standard_normal((50, 32), dtype=np.float32),
        **{name: _dense(rng, 32, 32) for name in ("wq", "wk", "wv", "wo")},
        "w1": _dense(rng, 32, 64),
        "w2": _dense(rng, 64, 32),
        **{name: 1 + _small(rng, 32) for name in ("g1", "g2")},
        **{name: _small(rng, 32) for name in ("s1", "s2")},
        "one": np.float32(1),
        "lowest": np.float32(-1e4),
        "axes": np.array([1, 2]),
        "root": np.float32(4),
        "split": np.array([0, 0, 2, 16]),
        "join": np.array([0, 0, 32]),
    }
    inputs = {"input_ids": ["batch", "sequence"], "attention_mask": ["batch", "sequence"]}
    return _write(folder, "encoder", nodes, inputs, {"hidden": ["batch", "sequence", 32]}, weights, integers=inputs)


def _mask() -> Nodes:
    return [
        _node("Cast", ["attention_mask"], ["seen"], to=1),
        _node("Sub", ["one", "seen"], ["hidden_from"]),
        _node("Mul", ["hidden_from", "lowest"], ["low"]),
        _node("Unsqueeze", ["low", "axes"], ["mask"]),
    ]


def _heads(name: str, source: str) -> Nodes:
    order = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
    return [
        _node("MatMul", [source, f"w{name}"], [f"{name}_all"]),
        _node("Reshape", [f"{name}_all", "split"], [f"{name}_4"]),
        _node("Transpose", [f"{name}_4"], [name], perm=order),
    ]


def _attention() -> Nodes:
    return [
        _node("MatMul", ["q", "k"], ["raw"]),
        _node("Div", ["raw", "root"], ["scaled"]),
        _node("Add", ["scaled", "mask"], ["scores"]),
        _node("Softmax", ["scores"], ["shares"], axis=-1),
        _node("MatMul", ["shares", "v"], ["mixed"]),
        _node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        _node("Reshape", ["back", "join"], ["joined"]),
    ]


def _node(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    from onnx import helper

    return helper.make_node(operator, inputs, outputs, name=f"{operator}_{outputs[0]}", **attributes)


def _dense(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.float32]:
    return np.asarray(rng.standard_normal((rows, columns)) / np.sqrt(rows), dtype=np.float32)


def _kernel(rng: np.random.Generator, out: int, channels: int) -> NDArray[np.float32]:
    return np.asarray(rng.standard_normal((out, channels, 3, 3)) / np.sqrt(9 * channels), dtype=np.float32)


def _small(rng: np.random.Generator, size: int) -> NDArray[np.float32]:
    return np.asarray(rng.standard_normal(size) * 0.1, dtype=np.float32)


def _write(
    folder: Path,
    name: str,
    nodes: Nodes,
    inputs: Shapes,
    outputs: Shapes,
    weights: Weights,
    integers: Collection[str] = (),
) -> Path:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    kinds = {key: TensorProto.INT64 if key in integers else TensorProto.FLOAT for key in (*inputs, *outputs)}
    fed = [helper.make_tensor_value_info(key, kinds[key], shape) for key, shape in inputs.items()]
    given = [helper.make_tensor_value_info(key, kinds[key], shape) for key, shape in outputs.items()]
    initializers = [numpy_helper.from_array(np.asarray(array), key) for key, array in weights.items()]
    graph = helper.make_graph(list(nodes), name, fed, given, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path
