"""What an exporter may lose without a word: inputs, outputs, dimensions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import pytest

from optim.arrays import Feeds, Outputs
from optim.errors import OptimError
from optim.model import TensorInfo
from optim.source import Component, Trial
from optim_plugins.export.export_job import set_dimensions
from optim_plugins.export.structure import require_structure


def component(example: tuple[int, ...] = (2, 3)) -> Component:
    def trials() -> Iterator[Trial]:
        yield from ()

    def run(feeds: Feeds) -> Outputs:
        return feeds

    infos = (TensorInfo("x", "float32", ("batch", "length")), TensorInfo("mask", "float32", ("batch", "length")))
    outputs = (TensorInfo("y", "float32", ("batch", "length")),)
    arrays = {"x": np.ones(example, np.float32), "mask": np.ones(example, np.float32)}
    return Component("model", None, infos, outputs, arrays, trials, run)


def graph(x: list[int | str], *, reads_mask: bool = True, output: str = "y") -> ir.Model:
    kind = ir.TensorType(ir.DataType.FLOAT)
    mask = ir.Value(name="mask", shape=ir.Shape(["s0", "s1"]), type=kind)
    inputs = [ir.Value(name="x", shape=ir.Shape(x), type=kind), mask]
    node = ir.Node("", "Mul", [inputs[0], inputs[1] if reads_mask else inputs[0]])
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = output, kind, ir.Shape(["s0", "s1"])
    return ir.Model(ir.Graph(inputs, node.outputs, nodes=[node], opset_imports={"": 20}), ir_version=10)


def refusal(model: ir.Model, example: tuple[int, ...] = (2, 3)) -> OptimError:
    with pytest.raises(OptimError) as caught:
        require_structure(model, component(example))
    return caught.value


def test_a_whole_graph_passes_and_gets_the_declared_names() -> None:
    model = graph(["s0", "s1"])
    require_structure(model, component())
    set_dimensions(model, component())
    assert [str(size) for value in (*model.graph.inputs, *model.graph.outputs) for size in value.shape or ()] == (
        ["batch", "length"] * 3
    )


def test_an_input_that_no_node_reads_is_named() -> None:
    error = refusal(graph(["s0", "s1"], reads_mask=False))
    assert error.reference == "export-input-dropped" and "'mask'" in error.what


def test_a_dimension_that_became_a_constant_is_named_with_the_example_s_size() -> None:
    error = refusal(graph(["s0", 1]), (2, 1))
    assert error.reference == "export-dimension-fixed"
    assert "'length'" in error.what and "size 1" in error.cause and "--dynamic x=batch," in error.fix


def test_a_missing_output_is_named() -> None:
    error = refusal(graph(["s0", "s1"], output="z"))
    assert error.reference == "export-output-missing" and "'y'" in error.what
