"""``ort.gemm-to-matmul``: a Gemm as a MatMul, because quantization only reaches MatMul.

Before::

    y = Gemm(a, W, bias, alpha=1, beta=1, transA=0, transB=t)

After::

    y = Add(MatMul(a, W), bias)                 W transposed once, when it is a constant and t is 1

A transposed weight is new data. The gate keeps it only if a later pass needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Role, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx_ir as ir


_KNOWN = {"Gemm": ("alpha", "beta", "transA", "transB")}
_NONE = "no Gemm with a constant weight and alpha = beta = 1"


class GemmToMatMul(Pass):
    """Gemm as MatMul and Add."""

    name = "ort.gemm-to-matmul"
    summary = "writes Gemm as MatMul and Add, because quantization supports MatMul"
    role = Role.ENABLE
    before = ("ort.quantize-dynamic",)

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If a Gemm is a plain product with a constant weight."""
        if next(_plain_gemms(model.ir_to_read()), None) is None:
            return Applicable.no(_NONE)
        return APPLICABLE

    def apply(self, model: Model, options: object, context: Context) -> PassResult:
        """Replace every such Gemm."""
        from onnx_ir.passes.common import RemoveUnusedNodesPass

        from optim_plugins.ort.graph.fixed_weights import fix_weights
        from optim_plugins.ort.graph.known_attributes import notes_on_unknown

        graph = model.ir()
        fix_weights(graph)
        before = len(graph.graph.initializers)
        found = rewrite_gemms(graph)
        if not found:
            return PassResult(model, changed=False, notes=notes_on_unknown(graph) or (_NONE,))
        transposed = len(graph.graph.initializers) - before
        RemoveUnusedNodesPass()(graph)
        counts = {"Gemm": found, "weights transposed": transposed}
        return PassResult(context.save(graph, model), changed=True, counts=counts)


def rewrite_gemms(graph: ir.Model) -> int:
    """Replace every plain Gemm in place; how many."""
    transposed: dict[ir.Value, ir.Value] = {}
    found = list(_plain_gemms(graph))
    for node, weight, is_transposed in found:
        _replace(node, _transposed(graph, weight, transposed) if is_transposed else weight)
    return len(found)


def _plain_gemms(graph: ir.Model) -> Iterator[tuple[ir.Node, ir.Value, bool]]:
    from optim_plugins.ort.graph.known_attributes import are_known
    from optim_plugins.ort.graph.products import gemm_weight

    for node in graph.graph.all_nodes():
        found = gemm_weight(node) if node.op_type == "Gemm" and node.domain in ("", "ai.onnx") else None
        if found is not None and are_known([node], _KNOWN):
            yield node, *found


def _replace(node: ir.Node, weight: ir.Value) -> None:
    import onnx_ir as ir

    assert node.graph is not None
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    result = node.outputs[0]
    product = ir.node("MatMul", [node.inputs[0], weight], name=node.name)
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


def _transposed(graph: ir.Model, weight: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    from optim_plugins.ort.graph.transposed_weights import add_transposed

    if weight not in known:
        known[weight] = add_transposed(graph, weight, (1, 0))
    return known[weight]
