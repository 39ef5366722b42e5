"""What a graph computes from its weights alone, by ONNX Runtime: transposed, folded, quantized, whatever they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

PRODUCTS = ("MatMul", "Gemm", "MatMulNBits")


def depends_on_inputs(value: ir.Value | None, known: dict[ir.Value, bool]) -> bool:
    """Whether a value changes with what a run is fed.

    Args:
        value: of a graph.
        known: answers so far, by value; filled.
    """
    if value is None:
        return False
    todo = [value]
    while todo:
        one = todo[-1]
        node = one.producer()
        if one in known:
            todo.pop()
        elif node is None:
            known[one] = one.const_value is None or one.is_graph_input()
        else:
            inputs = [given for given in node.inputs if given is not None]
            open_ones = [given for given in inputs if given not in known]
            if open_ones:
                todo += open_ones
            else:
                known[one] = any(known[given] for given in inputs) or bool(_subgraphs(node))
    return known[value]


def constant_value(graph: ir.Model, value: ir.Value) -> NDArray[Any]:
    """The array that a value always has.

    Args:
        graph: that it is of.
        value: that depends on no input.
    """
    if value.const_value is not None:
        return np.asarray(value.const_value.numpy())
    return _run(graph, value, _ancestors(value, None), None, {})


def matrix_of(graph: ir.Model, product: ir.Node) -> NDArray[Any]:
    """The matrix that a product multiplies its data with, shape (in, out): what it makes of the unit matrix.

    Args:
        graph: that it is of.
        product: a node of :data:`PRODUCTS` without a bias, whose first input is the data and whose others are constant.
    """
    data = product.inputs[0]
    assert data is not None
    width = _width(graph, product)
    floats = product.inputs[2 if product.op_type == "MatMulNBits" else 1]  # scales, or the weight itself
    assert floats is not None
    unit = np.eye(width, dtype=data.dtype.numpy() if data.dtype is not None else constant_value(graph, floats).dtype)
    return _run(graph, product.outputs[0], _ancestors(product.outputs[0], data), data, {"unit": unit})


def _width(graph: ir.Model, product: ir.Node) -> int:
    if product.op_type == "MatMulNBits":
        return int(product.attributes.get_int("K", 0))
    weight = product.inputs[1]
    assert weight is not None
    shape = weight.shape if weight.shape is not None and weight.shape.is_static() else None
    sizes = shape.numpy() if shape is not None else constant_value(graph, weight).shape
    transposed = product.op_type == "Gemm" and "transB" in product.attributes and product.attributes["transB"].as_int()
    return int(sizes[1] if transposed else sizes[0])


def _ancestors(value: ir.Value, until: ir.Value | None) -> list[ir.Node]:
    """The nodes that make a value, in graph order, up to another value."""
    found: dict[ir.Node, None] = {}
    todo = [value]
    while todo:
        one = todo.pop()
        node = one.producer()
        if one is until or node is None or node in found:
            continue
        found[node] = None
        todo += [given for given in node.inputs if given is not None]
    graph = value.graph
    return [node for node in graph if node in found] if graph is not None else list(found)


def _run(
    graph: ir.Model, output: ir.Value, nodes: Sequence[ir.Node], data: ir.Value | None, feeds: dict[str, NDArray[Any]]
) -> NDArray[Any]:
    """Run nodes whose only input, if any, is ``data``."""
    import onnx
    import onnxruntime

    made = {value for node in nodes for value in node.outputs}
    given = {value for node in nodes for value in node.inputs if value is not None} - made - {data}
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in graph.opset_imports.items()]
    proto = onnx.helper.make_model(onnx.GraphProto(name="constant"), opset_imports=opsets, ir_version=graph.ir_version)
    proto.graph.node.extend(map(ir.serde.serialize_node, nodes))
    for node in proto.graph.node:
        for index, one in enumerate(node.attribute):
            if one.name == "accuracy_level":  # the weights are asked for, not a product in int8
                del node.attribute[index]
                break
        for index, name in enumerate(node.input):
            if data is not None and name == data.name:
                node.input[index] = "unit"
    for value in given:
        assert value.const_value is not None, value.name
        array = onnx.numpy_helper.from_array(np.ascontiguousarray(value.const_value.numpy()), value.name)
        proto.graph.initializer.append(array)
    for name, fed in feeds.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(fed.dtype)
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, fed.shape))
    proto.graph.output.append(onnx.helper.make_empty_tensor_value_info(output.name or ""))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def _subgraphs(node: ir.Node) -> bool:
    return any(one.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for one in node.attributes.values())
