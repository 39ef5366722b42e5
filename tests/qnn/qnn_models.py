"""Small models for HTP, and what the tests of the plugin ``qnn`` do with them: apply a pass, run on HTP, compare."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from optim import Context, Model, Pass, PassResult
from optim.onnx import read_ir
from optim.onnx.files import save_in_store
from optim.options import parse_options
from optim_qnn.htp.backend import QnnBackend
from optim_qnn.htp.targets import make_targets, qnn_missing

Array = NDArray[Any]
QNN, OFFLINE = make_targets()
BACKEND = QnnBackend()
on_htp = pytest.mark.skipif(qnn_missing() is not None, reason=f"HTP cannot be run here: {qnn_missing()}")
TYPES = {"f4": TensorProto.FLOAT, "b1": TensorProto.BOOL, "i8": TensorProto.INT64}


def context(folder: Path, samples: Sequence[Mapping[str, Array]] = (), target: Any = QNN) -> Context:
    """Everything a pass may use, under a folder of the test."""
    scratch = folder / f"scratch{len(list(folder.glob('scratch*')))}"
    scratch.mkdir()
    given = [dict(sample) for sample in samples]
    return Context(
        target.plain,
        scratch,
        folder / "store",
        0,
        lambda: iter(given),
        logging.getLogger("test"),
        lambda _s, _t: None,
        feeds_given=bool(given),
    )


def stored(path: Path, folder: Path) -> Model:
    """A file as a run sees it."""
    return save_in_store(read_ir(path), folder / "store")


def apply(
    pass_class: type[Pass], model: Model, folder: Path, samples: Sequence[Mapping[str, Array]] = (), **options: Any
) -> PassResult:
    """Apply a pass with these options and the others' defaults."""
    return pass_class().apply(model, parse_options(pass_class, options), context(folder, samples))


def build(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str]],
    weights: Mapping[str, Array] | None = None,
    *,
    opset: int = 18,
    kinds: Mapping[str, str] | None = None,
) -> Model:
    """A model of float32 inputs and outputs, unless ``kinds`` says otherwise."""
    given = kinds or {}

    def info(name: str, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TYPES[given.get(name, "f4")], shape)

    graph = helper.make_graph(
        list(nodes),
        "g",
        [info(*item) for item in inputs.items()],
        [info(*item) for item in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset)])
    onnx.checker.check_model(model)
    path = folder / "built.onnx"
    onnx.save(model, path)
    return stored(path, folder)


def small_net(folder: Path, *, batch: int | str = 1) -> Model:
    """Conv, Relu, Conv, pooling, Gemm on x [batch, 3, 8, 8]."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "k1"], ["c1"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "k2"], ["c2"], name="conv2", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c2"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], name="gemm"),
    ]
    weights = {
        "k1": normal(rng, 8, 3, 3, 3) / 5,
        "k2": normal(rng, 8, 8, 3, 3) / 8,
        "w": normal(rng, 8, 4),
        "b": normal(rng, 4),
    }
    return build(folder, nodes, {"x": [batch, 3, 8, 8]}, {"y": [batch, 4]}, weights)


def images(count: int = 4) -> list[dict[str, Array]]:
    """Samples for :func:`small_net`: of several brightnesses, for noise alone is pooled to one answer for all."""
    rng = np.random.default_rng(1)
    return [{"x": normal(rng, 1, 3, 8, 8) + normal(rng, 1, 3, 1, 1)} for _ in range(count)]


def normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    """Standard normal numbers."""
    return rng.standard_normal(shape).astype(np.float32)


def operators(model: Model) -> list[str]:
    """Operators in the graph's order."""
    return [node.op_type for node in model.ir().graph]


def run(model: Model, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs in float32 on the CPU."""
    with BACKEND.open_reference(model, QNN) as session:
        return dict(session.run(feeds))


def run_on_htp(model: Model, feeds: Mapping[str, Array], target: Any = QNN) -> dict[str, Array]:
    """Outputs on HTP alone."""
    with BACKEND.open(model, replace(target.plain, fallback=False)) as session:
        assert session.executed_on == {"QNNExecutionProvider": 1.0}
        return dict(session.run(feeds))


def relative_l2(expected: Mapping[str, Array], got: Mapping[str, Array]) -> float:
    """The worst L2 distance of an output relative to its length, which a tolerance follows from; no drift."""
    assert list(expected) == list(got)
    worst = 0.0
    for name, array in expected.items():
        assert (array.shape, array.dtype) == (got[name].shape, got[name].dtype)
        distance = np.linalg.norm((got[name].astype("f8") - array.astype("f8")).ravel())
        worst = max(worst, float(distance / max(np.linalg.norm(array.astype("f8").ravel()), 1e-6)))
    return worst
