"""``ort.quantize-dynamic``: weights of matrix products as 8-bit integers, activations quantized while running.

Before::

    y = Add(MatMul(a, W), bias)                                  W float32 [K, N], constant

After, with one quantization of ``a`` for all products that read it::

    a_q, a_scale, a_zero = DynamicQuantizeLinear(a)
    y = com.microsoft.MatMulIntegerToFloat(a_q, W_q, a_scale, W_scale, a_zero, W_zero, bias)

``W_q`` is int8, symmetric, per column (or one scale for all): ``W ~ W_q * W_scale``. A product that is alone with its
input becomes one ``com.microsoft.DynamicQuantizeMatMul``. Weights are quantized one at a time, so memory stays
near that of the largest. Operators: onnxruntime ``docs/ContribOperators.md``.

A weight that reaches the product through a constant Transpose (a head tied to the embedding) is quantized in its
transposed form, and the embedding keeps its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray

    from optim_plugins.ort.quantize_dynamic_options import QuantizeDynamicOptions

_LEAST_ELEMENTS = 4096
"""Smaller weights gain nothing."""


class QuantizeDynamic(Pass):
    """Dynamic int8 quantization of matrix products."""

    name = "ort.quantize-dynamic"
    summary = "matrix products in 8-bit integers, activations quantized while running; needs no data"
    options = "optim_plugins.ort.quantize_dynamic_options:QuantizeDynamicOptions"
    lossy = True
    after = ("ort.gemm-to-matmul",)
    alternatives = "quantization"
    hardware = "x86-64 with VNNI (AVX512-VNNI or AVX-VNNI) or Arm with dot product; without them range is reduced"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Where there is a matrix product with a large constant weight."""
        del target
        if next(_products(model.ir()), None) is None:
            return Applicable.no("no MatMul with a constant float32 weight of at least 4096 elements")
        return APPLICABLE

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizeDynamicOptions]:
        """Per column first: as fast, and closer."""
        del model, target, context
        from optim_plugins.ort.hardware import multiplies_integers_exactly
        from optim_plugins.ort.quantize_dynamic_options import QuantizeDynamicOptions

        reduce_range = not multiplies_integers_exactly()
        yield QuantizeDynamicOptions(per_channel=True, reduce_range=reduce_range)
        yield QuantizeDynamicOptions(per_channel=False, reduce_range=reduce_range)

    def keepable(self, model: Model, options: QuantizeDynamicOptions) -> list[str]:
        """Every product it would quantize."""
        del options
        return [node.name or "" for node, _, _ in _products(model.ir())]

    def apply(self, model: Model, options: QuantizeDynamicOptions, context: Context) -> PassResult:
        """Rewrite every product that is not kept."""
        graph = model.ir()
        rewriter = _Rewriter(graph, options)
        found = list(_products(graph))
        known = {node.name for node, _, _ in found}
        unknown = [name for name in options.keep if name not in known]
        kept = 0
        for done, (node, weight, transposed) in enumerate(found):
            if node.name in options.keep:
                kept += 1
                continue
            rewriter.rewrite(node, weight, transposed)
            context.report_progress(done / len(found), "quantizing weights")
        if not rewriter.count:
            return PassResult(model, changed=False, notes=("every product it could quantize is kept in float",))
        rewriter.finish()
        notes = (f"keep names no quantizable node: {', '.join(unknown)}",) if unknown else ()
        counts = {"MatMul quantized": rewriter.count, "MatMul kept": kept}
        return PassResult(context.save(graph, model), changed=True, notes=notes, counts=counts)


def _products(graph: ir.Model) -> Iterator[tuple[ir.Node, ir.Value, bool]]:
    """Products with a quantizable weight: the node, the initializer, and whether it is read transposed."""
    import onnx_ir as ir

    for node in graph.graph.all_nodes():
        if node.op_type == "FusedMatMul" and node.domain == "com.microsoft" and _is_plain_transposed(node):
            value, transposed = node.inputs[1], True
        elif node.op_type == "MatMul" and node.domain in ("", "ai.onnx"):
            value, transposed = node.inputs[1], False
        else:
            continue
        producer = value.producer() if value is not None else None
        if producer is not None and producer.op_type == "Transpose" and not transposed:
            permutation = producer.attributes.get("perm")
            if permutation is None or list(permutation.as_ints()) == [1, 0]:
                value, transposed = producer.inputs[0], True
        tensor = value.const_value if value is not None and value.is_initializer() else None
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or len(tensor.shape) != 2:
            continue
        if tensor.size >= _LEAST_ELEMENTS:
            assert value is not None
            yield node, value, transposed


def _is_plain_transposed(node: ir.Node) -> bool:
    """Whether a FusedMatMul is ``a @ b.T`` and nothing else."""
    numbers = {name: float(attribute.value) for name, attribute in node.attributes.items()}
    return numbers.pop("transB", 0) == 1 and numbers.pop("alpha", 1.0) == 1.0 and not any(numbers.values())


class _Rewriter:
    """Holds what products share: quantized inputs and quantized weights."""

    def __init__(self, graph: ir.Model, options: QuantizeDynamicOptions) -> None:
        self.count = 0
        self._graph = graph
        self._options = options
        self._inputs: dict[ir.Value, tuple[ir.Value, ir.Value, ir.Value]] = {}
        self._weights: dict[tuple[str, bool], tuple[ir.Value, ir.Value, ir.Value]] = {}
        self._readers = _readers(graph)

    def rewrite(self, node: ir.Node, weight: ir.Value, transposed: bool) -> None:
        """Replace one product, with the constant bias added to it where there is one."""
        import onnx_ir as ir

        activation = node.inputs[0]
        assert activation is not None and node.graph is not None
        quantized, scale, zero = self._weight(node.graph, weight, transposed)
        last, bias = _following_bias(node)
        name = f"{node.name}_quantized"
        result = last.outputs[0]
        if self._readers.get(activation, 0) == 1 and self._options.fuse_alone:
            new = ir.node("DynamicQuantizeMatMul", [activation, quantized, scale, zero, *([bias] if bias else [])],
                          domain="com.microsoft", name=name)  # fmt: skip
            node.graph.insert_before(last, new)
        else:
            a, a_scale, a_zero = self._input(node, activation)
            new = ir.node("MatMulIntegerToFloat", [a, quantized, a_scale, scale, a_zero, zero, *([bias] if bias else [])],
                          domain="com.microsoft", name=name)  # fmt: skip
            node.graph.insert_before(last, new)
        new.outputs[0].shape, new.outputs[0].type, new.outputs[0].name = result.shape, result.type, result.name
        new.metadata_props.update(node.metadata_props)
        _replace(result, new.outputs[0])
        for old in dict.fromkeys((last, node)):
            assert old.graph is not None
            old.graph.remove(old, safe=True)
        self.count += 1

    def finish(self) -> None:
        """Drop weights and Transposes that nothing reads any more, and say which operators are used."""
        from onnx_ir.passes.common import RemoveUnusedNodesPass

        RemoveUnusedNodesPass()(self._graph)
        self._graph.graph.opset_imports.setdefault("com.microsoft", 1)

    def _input(self, node: ir.Node, activation: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        import onnx_ir as ir

        if activation not in self._inputs:
            quantize = ir.node("DynamicQuantizeLinear", [activation], num_outputs=3, name=f"{activation.name}_quantize")
            for output, suffix in zip(quantize.outputs, ("quantized", "scale", "zero_point"), strict=True):
                output.name = f"{activation.name}_{suffix}"
            producer = activation.producer()
            assert node.graph is not None
            if producer is not None and producer.graph is node.graph:
                node.graph.insert_after(producer, quantize)
            else:
                node.graph.insert_before(node.graph[0], quantize)
            self._inputs[activation] = (quantize.outputs[0], quantize.outputs[1], quantize.outputs[2])
        return self._inputs[activation]

    def _weight(self, graph: ir.Graph, weight: ir.Value, transposed: bool) -> tuple[ir.Value, ir.Value, ir.Value]:
        import numpy as np

        key = (weight.name or "", transposed)
        if key not in self._weights:
            assert weight.const_value is not None
            array = weight.const_value.numpy()
            quantized, scale = quantize_columns(
                array.T if transposed else array, self._options.per_channel, self._options.reduce_range
            )
            zero = np.zeros(scale.shape, quantized.dtype)
            base = f"{weight.name}{'_transposed' if transposed else ''}"
            self._weights[key] = (
                self._initializer(f"{base}_quantized", quantized),
                self._initializer(f"{base}_scale", scale),
                self._initializer(f"{base}_zero_point", zero),
            )
        del graph
        return self._weights[key]

    def _initializer(self, name: str, array: NDArray[np.generic]) -> ir.Value:
        import onnx_ir as ir

        tensor = ir.tensor(array, name=name)
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        self._graph.graph.register_initializer(value)
        return value


def quantize_columns(
    weight: NDArray[np.float32], per_channel: bool, reduce_range: bool
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Symmetric int8 of a weight.

    Args:
        weight: [K, N].
        per_channel: one scale a column; else one for all.
        reduce_range: use 7 of the 8 bits, for processors that add pairs of products in 16 bits.

    Returns:
        Quantized weight [K, N], contiguous, and scales [N] or scalar; ``weight ~ quantized * scale``.
    """
    import numpy as np

    largest = 63 if reduce_range else 127
    extent = np.abs(weight).max(axis=0) if per_channel else np.abs(weight).max()
    scale = np.maximum(extent, np.finfo(np.float32).tiny * 1e3).astype(np.float32) / np.float32(largest)
    quantized = np.empty(weight.shape, np.int8)
    for start in range(0, weight.shape[0], 1024):
        piece = np.rint(weight[start : start + 1024] / scale)
        quantized[start : start + 1024] = np.clip(piece, -largest, largest)
    return quantized, np.asarray(scale, np.float32)


def _following_bias(node: ir.Node) -> tuple[ir.Node, ir.Value | None]:
    """The Add of a constant vector that alone reads the product, and the vector; else the product itself."""
    output = node.outputs[0]
    readers = list(output.uses())
    if len(readers) != 1 or output.is_graph_output():
        return node, None
    add = readers[0].node
    if add.op_type != "Add" or add.graph is not node.graph:
        return node, None
    other = add.inputs[1] if add.inputs[0] is output else add.inputs[0]
    if other is None or not other.is_initializer() or other.const_value is None:
        return node, None
    weight_columns = output.shape[-1] if output.shape is not None else None
    shape = tuple(other.const_value.shape)
    if len(shape) != 1 or (isinstance(weight_columns, int) and shape[0] != weight_columns) or shape[0] == 1:
        return node, None
    return add, other


def _readers(graph: ir.Model) -> dict[ir.Value, int]:
    """How many quantizable products read each activation."""
    counts: dict[ir.Value, int] = {}
    for node, _, _ in _products(graph):
        activation = node.inputs[0]
        if activation is not None:
            counts[activation] = counts.get(activation, 0) + 1
    return counts


def _replace(old: ir.Value, new: ir.Value) -> None:
    """Let every reader, and the graph's outputs, read ``new``."""
    import onnx_ir as ir

    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
