"""Static quantization in onnxruntime's own 8-bit operators.

Before::

    y = Relu(Conv(x, W, b))      z = Add(y, r)      p = Add(MatMul(a, V), c)

After, with scale and zero point of each tensor::

    x_q = QuantizeLinear(x)                             where x is not integers already
    y_q = QLinearConv(x_q, W_q, b_q)                    ReLU is the lower end of y's range
    z_q = com.microsoft.QLinearAdd(y_q, r_q)
    h_q = Clip(y_q)                                     HardSigmoid, where scales fit (:mod:`.clipped_gates`)
    h_q = com.microsoft.QLinearAdd(y_q, c_q)                a * y + c; else HardSigmoid, clipped by the range of h
    s_q = QuantizeLinear(com.microsoft.QuickGelu(DequantizeLinear(y_q)))        SiLU; Gelu so, too
    z = DequantizeLinear(z_q)                           where something reads floats
    p = com.microsoft.MatMulIntegerToFloat(QuantizeLinear(a), V_q, c)

Operators: onnxruntime ``docs/ContribOperators.md``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from optim.arrays import Array
from optim_plugins.ort.fuse.convolution.affine_steps import Affine
from optim_plugins.ort.graph.products import Product
from optim_plugins.ort.quantize.product_rewriter import MICROSOFT
from optim_plugins.ort.quantize.static.clipped_gates import clip_bounds
from optim_plugins.ort.quantize.static.integer_initializers import StaticRewriter
from optim_plugins.ort.quantize.static.scales_and_zero_points import constant_integers
from optim_plugins.ort.quantize.static.static_plan import SAME_RANGE, Quantized


class OperatorRewriter(StaticRewriter):
    """Rewrites nodes in the graph's order, then products, then :meth:`finish`."""

    def rewrite(self, one: Quantized) -> bool:
        """Replace a convolution or a carrier; False where it stays float."""
        node = self._new_node(one)
        if node is None:
            self.refused.append(one.name)
            return False
        assert one.node.graph is not None
        for result, output in zip(one.results, node.outputs, strict=True):
            output.name, output.shape = self.names.take(f"{result.name}_quantized"), result.shape
            output.type = self.integer_type(result.name or "")
            self._made[result] = output
        node.metadata_props.update(one.node.metadata_props)
        one.node.graph.insert_before(one.node, node)
        self._done.append(one)
        return True

    def rewrite_product(self, product: Product) -> bool:
        """Replace a product; False where it stays float."""
        stored = self.product(product)
        if stored is None:
            self.refused.append(product.name)
            return False
        scale, zero = self.scale(product.a.name or "")
        weight = stored.weight
        operands = [self._integer(product.a), weight.integers, scale, weight.scale, zero, weight.zero]
        if stored.vector is not None:
            operands.append(stored.vector)
        name = f"{product.name}_quantized"
        self.put_in_place(product, [ir.node("MatMulIntegerToFloat", operands, domain=MICROSOFT, name=name)])
        return True

    def finish(self) -> None:
        """Give floats to whatever still reads them, and drop what is not read any more."""
        replaced = {one.node for one in self._done}
        replaced |= {one.activation for one in self._done if one.activation is not None}
        for result in [value for one in self._done for value in one.results]:
            integers = self._made[result]
            readers = [use for use in result.uses() if use.node not in replaced]
            if not readers and not result.is_graph_output():
                continue
            name = result.name
            result.name = self.names.take(f"{name}_float")
            node = ir.node("DequantizeLinear", [integers, *self.scale(name or "")], name=f"{name}_dequantize")
            node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = name, result.type, result.shape
            self.behind(integers, [node])
            ir.convenience.replace_all_uses_with(result, node.outputs[0], replace_graph_outputs=True)
        super().finish()

    def _integer(self, value: ir.Value) -> ir.Value:
        """A tensor as integers; quantized behind its producer where that gives floats."""
        if value not in self._made:
            node = ir.node("QuantizeLinear", [value, *self.scale(value.name or "")], name=f"{value.name}_quantize")
            output = node.outputs[0]
            output.name, output.shape = self.names.take(f"{value.name}_quantized"), value.shape
            output.type = self.integer_type(value.name or "")
            self.behind(value, [node])
            self._made[value] = node.outputs[0]
        return self._made[value]

    def _new_node(self, one: Quantized) -> ir.Node | None:
        operator = one.node.op_type
        if operator == "Conv":
            return self._convolution(one)
        if one.linear is not None:
            return self._linear(one, one.linear)
        if one.floats:
            return self._in_floats(one)
        if operator in SAME_RANGE:
            operands = [self._integer(one.sources[0]), *one.node.inputs[1:]]
            attributes, name = one.node.attributes.copy(), f"{one.name}_quantized"
            return ir.node(operator, operands, attributes, num_outputs=len(one.results), name=name)
        return _FORMS[operator](self, one)

    def _convolution(self, one: Quantized) -> ir.Node | None:
        stored = self.convolution(one)
        if stored is None:
            return None
        source = one.node.inputs[0]
        assert source is not None
        weight, name = stored.weight, source.name or ""
        operands = [
            self.filled(self._integer(source), name, stored),
            *self.scale(name),
            weight.integers,
            weight.scale,
            weight.zero,
            *self.scale(one.result.name or ""),
        ]
        if stored.bias is not None:
            operands.append(stored.bias.integers)
        return ir.node("QLinearConv", operands, one.node.attributes.copy(), name=f"{one.name}_quantized")

    def _bounds(self, one: Quantized, step: Affine) -> tuple[Array, Array] | None:
        """Those of a HardSigmoid that has the integers of its source."""
        if one.node.op_type != "HardSigmoid":
            return None
        return clip_bounds(step, self.scales[one.sources[0].name or ""], self.scales[one.result.name or ""])

    def _linear(self, one: Quantized, step: Affine) -> ir.Node:
        """``a * x + c`` as a sum of integers: a goes into the scale of x; the range of the result clips."""
        source, name = one.sources[0], one.name
        if (bounds := self._bounds(one, step)) is not None:
            named = zip(("least", "most"), bounds, strict=True)
            operands = [self.initializer(f"{name}_{part}", bound) for part, bound in named]
            return ir.node("Clip", [self._integer(source), *operands], name=f"{name}_quantized")
        scale, zero = self.scales[source.name or ""].scale, self.scales[source.name or ""].zero
        factored = self.initializer(f"{name}_factor", np.asarray(scale * step.factor, np.float32))
        addend = constant_integers(step.shift, zero.dtype, len(one.result.shape or ()))
        operands = [self._integer(source), factored, self.scale(source.name or "")[1]]
        operands += [self.initializer(f"{name}_{part}", array) for part, array in addend.items()]
        operands += self.scale(one.result.name or "")
        return ir.node("QLinearAdd", operands, domain=MICROSOFT, name=f"{name}_quantized")

    def _in_floats(self, one: Quantized) -> ir.Node:
        """Floats for one operator: a table of Sigmoid and a product of integers take longer, and round once more.

        One thread of AVX512, nanoseconds a number: 0.32 for these three nodes, 0.46 for the two of integers. Of a Gelu
        that is written out onnxruntime makes none where it begins with integers: each reader gets floats of its own.
        """
        source, result, name = one.sources[0], one.result, one.name
        given = [self._integer(source), *self.scale(source.name or "")]
        floats = ir.node("DequantizeLinear", given, name=f"{name}_floats")
        attributes = {"alpha": 1.0} if one.floats == "QuickGelu" else {}
        computed = ir.node(one.floats, [floats.outputs[0]], attributes, domain=MICROSOFT, name=f"{name}_computed")
        for node in (floats, computed):
            output = node.outputs[0]
            output.name, output.type, output.shape = self.names.take(node.name or ""), result.type, result.shape
        assert one.node.graph is not None
        one.node.graph.insert_before(one.node, [floats, computed])
        return ir.node(
            "QuantizeLinear", [computed.outputs[0], *self.scale(result.name or "")], name=f"{name}_quantized"
        )

    def _elementwise(self, one: Quantized) -> ir.Node:
        """Every input with its numbers, then the numbers of the result."""
        operands: list[ir.Value] = []
        for source in one.sources:
            operands += [self._integer(source), *self.scale(source.name or "")]
        operands += self.scale(one.result.name or "")
        attributes = one.node.attributes.copy()
        name = f"{one.name}_quantized"
        return ir.node(f"QLinear{one.node.op_type}", operands, attributes, domain=MICROSOFT, name=name)

    def _concatenation(self, one: Quantized) -> ir.Node:
        """The numbers of the result, then every input with its numbers."""
        operands: list[ir.Value] = [*self.scale(one.result.name or "")]
        for source in one.sources:
            operands += [self._integer(source), *self.scale(source.name or "")]
        attributes = one.node.attributes.copy()
        return ir.node("QLinearConcat", operands, attributes, domain=MICROSOFT, name=f"{one.name}_quantized")


_FORMS: dict[str, Callable[[OperatorRewriter, Quantized], ir.Node]] = {
    "Add": OperatorRewriter._elementwise,
    "Mul": OperatorRewriter._elementwise,
    "GlobalAveragePool": OperatorRewriter._elementwise,
    "AveragePool": OperatorRewriter._elementwise,
    "Sigmoid": OperatorRewriter._elementwise,
    "LeakyRelu": OperatorRewriter._elementwise,
    "Concat": OperatorRewriter._concatenation,
}
