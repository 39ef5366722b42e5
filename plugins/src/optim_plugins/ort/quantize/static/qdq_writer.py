"""Static quantization as float operators between QuantizeLinear and DequantizeLinear, which any runtime can read.

Before::

    y = Relu(Conv(x, W, b))      p = Add(MatMul(a, V), c)

After, with scale and zero point of each tensor::

    y = Relu(Conv(DQ(Q(x)), DQ(W_q), DQ(b_q)))        whatever reads y reads DQ(Q(y))
    p = Add(MatMul(DQ(Q(a)), DQ(V_q)), c)             where a is a matrix, Gemm(DQ(Q(a)), DQ(V_q), DQ(c_q))

A runtime with 8-bit kernels fuses each group; onnxruntime does from optimization level EXTENDED on
(https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from optim.onnx import read_constant
from optim_plugins.ort.graph.products import Product
from optim_plugins.ort.quantize.static.integer_initializers import StaticRewriter, Stored, StoredConvolution
from optim_plugins.ort.quantize.static.static_plan import Quantized


class PairRewriter(StaticRewriter):
    """Rewrites nodes in the graph's order, then products, then :meth:`finish`."""

    integer_biases: ClassVar[bool] = True
    """Whether biases become integers of the accumulator."""

    def rewrite(self, one: Quantized) -> bool:
        """Put pairs before and behind a convolution or a carrier; False where it stays float."""
        has_weight = one.node.op_type == "Conv" and self.style.dtype != "float32"
        stored = self.convolution(one) if has_weight else None
        if has_weight and stored is None:
            self.refused.append(one.name)
            return False
        for place, source in enumerate(one.sources):
            one.node.replace_input_with(place, self._pair(source))
        if stored is not None:
            if stored.missing:
                one.node.replace_input_with(0, self._filled_pair(one.sources[0], stored))
            one.node.replace_input_with(1, self._floats(stored.weight, one.node, axis=0))
            if stored.bias is not None:
                self._set_bias(one.node, stored.bias)
        self._done.append(one)
        for result in one.results:
            self._pair_behind(result)
        return True

    def rewrite_product(self, product: Product) -> bool:
        """Replace a product; False where it stays float."""
        if self.style.dtype == "float32":
            product.node.replace_input_with(0, self._pair(self.original(product.a)))
            return True
        stored = self.product(product)
        if stored is None:
            self.refused.append(product.name)
            return False
        operands = [self._pair(self.original(product.a)), self._floats(stored.weight, product.node, axis=1)]
        bias = self.product_bias(product, stored) if self.integer_biases and _is_matrix(product) else None
        operator = "MatMul" if bias is None else "Gemm"
        if bias is not None:
            operands.append(self._floats(bias, product.node, axis=0))
        new = [ir.node(operator, operands, name=f"{product.name}_quantized")]
        if stored.vector is not None and bias is None:
            new.append(ir.node("Add", [new[0].outputs[0], stored.vector], name=f"{product.name}_bias"))
        self.put_in_place(product, new)
        return True

    def _set_bias(self, node: ir.Node, stored: Stored) -> None:
        """Give a convolution its bias as what its integers stand for."""
        if not self.integer_biases:
            return
        if len(node.inputs) < 3:
            node.resize_inputs(3)
        node.replace_input_with(2, self._floats(stored, node, axis=0))

    def _pair(self, value: ir.Value) -> ir.Value:
        """A tensor as what its integers stand for, for one reader; other readers keep the float tensor."""
        if value not in self._made:
            self._made[value] = self._new_pair(value)
        return self._made[value]

    def _filled_pair(self, value: ir.Value, stored: StoredConvolution) -> ir.Value:
        """The same with more channels, added between QuantizeLinear and DequantizeLinear."""
        name = value.name or ""
        integers = self._pair(value).producer().inputs[0]  # type: ignore[union-attr]
        assert integers is not None
        filled = self.filled(integers, name, stored)
        node = ir.node("DequantizeLinear", [filled, *self.scale(name)], name=f"{name}_filled_dequantize")
        output = node.outputs[0]
        output.name, output.type, output.shape = self.names.take(f"{name}_filled_floats"), value.type, filled.shape
        self.behind(filled, [node])
        return output

    def _pair_behind(self, result: ir.Value) -> None:
        """The same for every reader."""
        name = result.name
        floats = self._made[result] = self._new_pair(result)
        self._originals[floats] = result
        quantize = floats.producer().predecessors()[0]  # type: ignore[union-attr]
        ir.convenience.replace_all_uses_with(result, floats, replace_graph_outputs=True)
        quantize.replace_input_with(0, result)
        if floats.is_graph_output():
            result.name, floats.name = self.names.take(f"{name}_float"), name

    def _new_pair(self, value: ir.Value) -> ir.Value:
        numbers = self.scale(value.name or "")
        quantize = ir.node("QuantizeLinear", [value, *numbers], name=f"{value.name}_quantize")
        dequantize = ir.node("DequantizeLinear", [quantize.outputs[0], *numbers], name=f"{value.name}_dequantize")
        integers = quantize.outputs[0]
        integers.name, integers.type = self.names.take(f"{value.name}_quantized"), self.integer_type(value.name or "")
        output = dequantize.outputs[0]
        output.name = self.names.take(f"{value.name}_dequantized")
        output.type, output.shape = value.type, value.shape
        self.behind(value, [quantize, dequantize])
        return output

    def _floats(self, stored: Stored, reader: ir.Node, *, axis: int) -> ir.Value:
        """A weight as what its integers stand for."""
        name = stored.integers.name
        per_channel = bool(stored.scale.shape is not None and len(stored.scale.shape))
        attributes = {"axis": axis} if per_channel else {}
        integers, numbers = stored.integers, (stored.scale, stored.zero)
        if self.style.pairs and integers.dtype is not ir.DataType.INT32:  # QuantizeLinear makes no integers of 32 bits
            quantize = ir.node(
                "QuantizeLinear", [self._weight_in_floats(stored, axis), *numbers], attributes, name=f"{name}_quantize"
            )
            assert reader.graph is not None
            reader.graph.insert_before(reader, quantize)
            quantize.outputs[0].name, quantize.outputs[0].type = self.names.take(f"{name}_integers"), integers.type
            integers = quantize.outputs[0]
        node = ir.node("DequantizeLinear", [integers, *numbers], attributes, name=self.names.take(f"{name}_dequantize"))
        node.outputs[0].name = self.names.take(f"{name}_dequantized")
        node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
        assert reader.graph is not None
        reader.graph.insert_before(reader, node)
        return node.outputs[0]

    def _weight_in_floats(self, stored: Stored, axis: int) -> ir.Value:
        """What the integers of a weight stand for, which QuantizeLinear makes the same integers of."""
        integers, scale, zero = (read_constant(value) for value in (stored.integers, stored.scale, stored.zero))
        assert integers is not None
        assert scale is not None
        assert zero is not None
        shape = [-1 if place == axis else 1 for place in range(integers.ndim)] if scale.ndim else []
        floats = (integers.astype(np.float32) - zero.astype(np.float32).reshape(shape)) * scale.reshape(shape)
        return self.initializer(f"{stored.integers.name}_floats", floats.astype(np.float32))

    def finish(self) -> None:
        """As for every rewriter, and each reader of a tensor gets a pair of its own, if that is asked for."""
        if self.style.readers_apart:
            for node in list(self.graph.graph):
                quantize = node.inputs[0].producer() if node.op_type == "DequantizeLinear" and node.inputs[0] else None
                if quantize is not None and quantize.op_type == "QuantizeLinear":
                    self._part_readers(quantize, node)
        super().finish()

    def _part_readers(self, quantize: ir.Node, dequantize: ir.Node) -> None:
        """A copy of the pair for each use but the first; an output of the graph keeps the first."""
        floats = dequantize.outputs[0]
        for use in list(floats.uses())[0 if floats.is_graph_output() else 1 :]:
            copies: list[ir.Node] = []
            source = quantize.inputs[0]
            for one in (quantize, dequantize):
                operands = [source, *one.inputs[1:]]
                name = self.names.take(f"{one.name}_of_{use.node.name}")
                copies.append(ir.node(one.op_type, operands, dict(one.attributes), name=name))
                source = copies[-1].outputs[0]
                source.name, source.type = self.names.take(f"{name}_output"), one.outputs[0].type
                source.shape = one.outputs[0].shape
            assert dequantize.graph is not None
            dequantize.graph.insert_after(dequantize, copies)
            use.node.replace_input_with(use.idx, source)


class FloatBiasRewriter(PairRewriter):
    """Leaves biases in float: TensorRT reads no integers of 32 bits, and puts floats into the accumulator itself."""

    integer_biases = False


def _is_matrix(product: Product) -> bool:
    """Whether onnxruntime would make a Gemm of product and bias, before it looks for integers."""
    shape = product.a.shape
    return product.node.op_type == "Gemm" or (shape is not None and len(shape) == 2)
