"""``ort.gemm-to-matmul``: makes way for quantization, which reaches MatMul only.

Before::

    y = Gemm(a, W, bias, alpha=1, beta=1, transA=0, transB=t)

After::

    y = Add(MatMul(a, W), bias)                 W transposed once, when it is a constant and t is 1

A transposed weight is new data; it is worth that only if something kept reads it, which the gate finds out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Role, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx_ir as ir


class GemmToMatMul(Pass):
    """Gemm as MatMul and Add."""

    name = "ort.gemm-to-matmul"
    summary = "Gemm as MatMul and Add, which quantization reaches"
    role = Role.ENABLE
    before = ("ort.quantize-dynamic",)

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Where a Gemm is a plain product with a constant weight."""
        del target
        if next(_plain_gemms(model.ir()), None) is None:
            return Applicable.no("no Gemm with a constant weight and alpha = beta = 1")
        return APPLICABLE

    def apply(self, model: Model, options: object, context: Context) -> PassResult:
        """Replace every such Gemm."""
        del options
        graph = model.ir()
        transposed: dict[str, ir.Value] = {}
        found = list(_plain_gemms(graph))
        for node in found:
            _replace(graph, node, transposed)
        if not found:
            return PassResult(model, changed=False, notes=("no Gemm with a constant weight and alpha = beta = 1",))
        from onnx_ir.passes.common import RemoveUnusedNodesPass

        RemoveUnusedNodesPass()(graph)
        return PassResult(context.save(graph, model), changed=True, counts={"Gemm": len(found)})


def _plain_gemms(graph: ir.Model) -> Iterator[ir.Node]:
    for node in graph.graph.all_nodes():
        if node.op_type != "Gemm" or node.domain not in ("", "ai.onnx"):
            continue
        weight = node.inputs[1]
        plain = _number(node, "alpha", 1.0) == 1.0 and _number(node, "beta", 1.0) == 1.0 and not _number(node, "transA", 0)
        if plain and weight is not None and weight.is_initializer() and weight.const_value is not None:
            yield node


def _number(node: ir.Node, name: str, default: float) -> float:
    attribute = node.attributes.get(name)
    return default if attribute is None else float(attribute.value)


def _replace(graph: ir.Model, node: ir.Node, transposed: dict[str, ir.Value]) -> None:
    import onnx_ir as ir

    assert node.graph is not None
    activation, weight = node.inputs[0], node.inputs[1]
    assert weight is not None
    if _number(node, "transB", 0):
        weight = _transposed(graph, weight, transposed)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    result = node.outputs[0]
    product = ir.node("MatMul", [activation, weight], name=node.name)
    product.metadata_props.update(node.metadata_props)
    new = [product]
    if bias is not None:
        product.outputs[0].name, product.outputs[0].type = f"{result.name}_product", result.type
        product.outputs[0].shape = result.shape
        new.append(ir.node("Add", [product.outputs[0], bias], name=f"{node.name}_bias"))
    last = new[-1].outputs[0]
    last.shape, last.type, last.name = result.shape, result.type, result.name
    node.graph.insert_before(node, new)
    ir.convenience.replace_all_uses_with(result, last, replace_graph_outputs=True)
    node.graph.remove(node, safe=True)


def _transposed(graph: ir.Model, weight: ir.Value, known: dict[str, ir.Value]) -> ir.Value:
    import numpy as np
    import onnx_ir as ir

    assert weight.const_value is not None
    name = f"{weight.name}_transposed"
    if name not in known:
        array = np.ascontiguousarray(weight.const_value.numpy().T)
        tensor = ir.tensor(array, name=name)
        known[name] = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        graph.graph.register_initializer(known[name])
    return known[name]
