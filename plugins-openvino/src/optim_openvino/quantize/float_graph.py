"""The graph that NNCF is given, which nodes of it can be quantized, and the samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from optim import Applicable, Context, Model
from optim_openvino.quantize import nncf_library
from optim_openvino.quantize.folded import fold_gemms, fold_transposes, transposes_a_weight

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from optim.arrays import Feeds

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_BESIDE_CONVOLUTIONS = ("Add", "AveragePool", "GlobalAveragePool", "Mul")
"""What else NNCF computes in integers in a convolutional net, where they lie between products."""

_MARKS = ("QuantizeLinear", "DequantizeLinear", "QLinear", "MatMulNBits", "MatMulInteger", "ConvInteger")


def applicable(model: Model, operators: Sequence[str], *, opset: int) -> Applicable:
    """Where NNCF is there, and a product has a constant float weight."""
    if reason := nncf_library.missing():
        return Applicable.no(reason)
    graph = model.ir().graph
    kinds = sorted({node.op_type for node in graph.all_nodes() if node.op_type.startswith(_MARKS)})
    if kinds:
        return Applicable.no(f"the model is quantized already ({', '.join(kinds)})")
    if model.opset.get("", 1) < opset:
        return Applicable.no(f"the model has opset {model.opset.get('', 1)}; NNCF needs {opset} here")
    if not weighted(model, operators):
        return Applicable.no(f"no {', '.join(operators)} has a constant float weight")
    return Applicable(True)


def weighted(model: Model, operators: Sequence[str]) -> list[str]:
    """Names of nodes with a constant float weight, in graph order."""
    import onnx_ir as ir

    floats = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
    return [
        str(node.name)
        for node in model.ir().graph
        if node.domain in ("", "ai.onnx") and node.op_type in operators
        if any(value is not None and _type_of_weight(value) in floats for value in node.inputs[:2])
    ]


def _type_of_weight(value: ir.Value) -> ir.DataType | None:
    """Of a constant, or of one that a node transposes, as exports that share weights with a checkpoint have them."""
    node = value.producer()
    weight = node.inputs[0] if node is not None and transposes_a_weight(node) else value
    return weight.dtype if weight is not None and weight.is_initializer() else None


def quantizable(model: Model) -> list[str]:
    """Names of the nodes that NNCF may compute in integers, in graph order."""
    graph = model.ir().graph
    operators = {*PRODUCTS, *(_BESIDE_CONVOLUTIONS if is_convolutional(model) else ())}
    return [str(node.name) for node in graph if node.domain in ("", "ai.onnx") and node.op_type in operators]


def is_convolutional(model: Model) -> bool:
    """Whether it is a net of convolutions, and none of attention."""
    kinds = {node.op_type for node in model.ir().graph}
    return "Conv" in kinds and "Softmax" not in kinds


def read(model: Model, keep: Sequence[str], *, in_blocks: bool = False) -> onnx.ModelProto:
    """The graph with its weights in memory, as NNCF takes it up to 2 GB.

    NNCF quantizes a weight for all who read it. So what ``keep`` names gets weights of its own where it shares them.
    It knows no weight that a node transposes: those are written as they are read.

    Args:
        model: in the store.
        keep: names of nodes that stay as they are.
        in_blocks: whether weights will share scales in blocks.
    """
    import onnx_ir as ir

    graph = model.ir()
    ir.external_data.load_to_model(graph)
    fold_transposes(graph.graph)
    if in_blocks:
        fold_gemms(graph.graph)
    left = frozenset(keep)
    for node in graph.graph:
        if node.name in left:
            _give_own_weights(graph.graph, node, left)
    return ir.to_proto(graph)


def _give_own_weights(graph: ir.Graph, node: ir.Node, left: frozenset[str]) -> None:
    import onnx_ir as ir

    for place, value in enumerate(node.inputs):
        if value is None or not value.is_initializer() or all(user.name in left for user, _ in value.uses()):
            continue
        name = f"{value.name}_of_{node.name}"
        own = ir.Value(name=name, type=value.type, shape=value.shape, const_value=value.const_value)
        graph.register_initializer(own)
        node.replace_input_with(place, own)


def restore(made: onnx.ModelProto, given: onnx.ModelProto, keep: Sequence[str]) -> None:
    """Let the nodes that ``keep`` names read what they read before; ``made`` is changed.

    SmoothQuant scales the weights of all who read an activation, also of those that NNCF leaves alone.
    """
    left = frozenset(keep)
    weights = {tensor.name: tensor for tensor in given.graph.initializer}
    there = {tensor.name: tensor for tensor in made.graph.initializer}
    before = {node.name: node for node in given.graph.node if node.name in left}
    for node in made.graph.node:
        if node.name not in before:
            continue
        for place, name in enumerate(before[node.name].input):
            node.input[place] = name
            if name in weights and there.get(name) != weights[name]:
                node.input[place] = f"{name}_kept"
                if node.input[place] not in there:
                    own = made.graph.initializer.add()
                    own.CopyFrom(weights[name])
                    own.name = node.input[place]
                    there[own.name] = own


def samples(model: Model, context: Context, most: int) -> list[Feeds]:
    """What the graph is fed, one sample after the other; at most so many."""
    names = [info.name for info in model.inputs]
    return [{name: feeds[name] for name in names} for feeds in islice(context.samples(), most)]


def write(graph: onnx.ModelProto, context: Context, model: Model) -> Model:
    """Bring what NNCF made into the store; it imports no domain for the operators of ONNX Runtime that it writes."""
    import onnx

    imported = {one.domain for one in graph.opset_import}
    for domain in sorted({node.domain for node in graph.graph.node if node.domain not in ("", "ai.onnx")} - imported):
        graph.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    path = context.scratch / "quantized.onnx"
    onnx.save(graph, path, save_as_external_data=True, location="quantized.onnx.data", size_threshold=1024)
    return context.adopt(path, model)


def ignored(nncf: Any, keep: Sequence[str], types: Sequence[str] = ()) -> Any:
    """What NNCF leaves alone."""
    return nncf.IgnoredScope(names=list(keep), types=list(types), validate=False)
