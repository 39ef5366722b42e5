"""``ort.quantize-dynamic``: weights of matrix products as 8-bit integers, activations quantized while running.

Before::

    y = Add(MatMul(a, W), bias)                                  W float32 [K, N], constant

After, with one quantization of ``a`` for all products that read it::

    a_q, a_scale, a_zero = DynamicQuantizeLinear(a)
    y = com.microsoft.MatMulIntegerToFloat(a_q, W_q, a_scale, W_scale, a_zero, W_zero, bias)

``W_q`` is int8, symmetric, per column (or one scale for all): ``W ~ W_q * W_scale``. With ``symmetric = false`` a scale
covers the range from the least to the greatest weight, and has a zero point. A product that is alone with its
input becomes one ``com.microsoft.DynamicQuantizeMatMul``. A Gemm is quantized as it is. A bias that an earlier fusion
moved into BiasGelu goes back into the product, where it costs nothing. Weights are quantized one at a time and in
blocks, so memory stays near that of what is written. Operators: onnxruntime ``docs/ContribOperators.md``.

With ``activation_bits = 16``, or for nodes in ``finer``, activations have 16 bits: a node is the sum of two such
products, of ``a_q`` and of what that leaves over::

    r_q, r_scale, r_zero = DynamicQuantizeLinear(a - DequantizeLinear(a_q, a_scale, a_zero))
    y = MatMulIntegerToFloat(a_q, W_q, ..., bias) + MatMulIntegerToFloat(r_q, W_q, ...)

Only the error of the weights is left, in half to three quarters of the time of floats (AVX512-VNNI).

LSTMs of large weights become com.microsoft.DynamicQuantizeLSTM (:mod:`optim_plugins.ort.quantize.dynamic.recurrent`).

A weight that reaches the product through a constant Transpose (a head tied to the embedding) is quantized in its
transposed form, and the embedding keeps its own. Conv stays in float: ConvInteger is slower than it.

With ``correct_bias`` what rounding weights adds on average is taken off the bias, which a product without one gets: see
:mod:`optim_plugins.ort.measure.channel_means`.

With ``scale_rows`` each row of what a product alone is given has a scale of its own: see
:mod:`optim_plugins.ort.quantize.dynamic.row_scales`.

With ``smoothing``, which needs samples, channels of few huge values are scaled down before they are rounded, and their
weights up; see :mod:`optim_plugins.ort.quantize.smoothing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from optim import APPLICABLE, Applicable, Context, KernelUse, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx_ir as ir

    from optim_plugins.ort.graph.products import Product
    from optim_plugins.ort.measure.channel_means import Means
    from optim_plugins.ort.quantize.dynamic.quantize_dynamic_options import QuantizeDynamicOptions
    from optim_plugins.ort.quantize.smoothing import Factors

_LEAST_OPSET = 11
_COARSE_BITS = 8
_LEAST_ELEMENTS = 4096
"""Smaller weights gain nothing."""


class QuantizeDynamic(Pass):
    """Dynamic int8 quantization of matrix products and LSTMs."""

    name = "ort.quantize-dynamic"
    summary = "quantizes matrix products to 8 bits; each run computes the range of activations; samples are optional"
    options = "optim_plugins.ort.quantize.dynamic.quantize_dynamic_options:QuantizeDynamicOptions"
    lossy = True
    after = ("ort.gemm-to-matmul",)
    alternatives = "quantization"
    makes = "int8"
    hardware = "x86-64 with VNNI (AVX512-VNNI, AVX-VNNI) or Arm with dot product; without them some weights get 7 bits"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the model has a matrix product with a large constant weight, and its opset has dynamic quantization."""
        opset = model.opset.get("", 1)
        if opset < _LEAST_OPSET:
            return Applicable.no(f"the model has opset {opset}; DynamicQuantizeLinear came with opset {_LEAST_OPSET}")
        from optim_plugins.ort.graph.products import find_products
        from optim_plugins.ort.quantize.dynamic.recurrent import find_lstms
        from optim_plugins.ort.quantize.quantized_already import nothing_to_quantize

        graph = model.ir_to_read()
        if next(find_products(graph, _LEAST_ELEMENTS), None) is None and next(find_lstms(graph), None) is None:
            return nothing_to_quantize(
                model,
                f"no MatMul or Gemm has a constant float32 weight of {_LEAST_ELEMENTS} elements, and no LSTM is large",
            )
        return APPLICABLE

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizeDynamicOptions]:
        """Plain; then smoothed, where samples have enough rows to show which channels have outliers; then finer.

        Where rows have scales of their own, 0.6 is the better smoothing: less is left for it to do. With 16 bits none
        is tried: a repair of the smoothed one begins with all nodes in that precision, smoothed as that takes it.

        Samples that are the user's correct the bias, which costs nothing; means of made-up ones, or of a few rows, say
        little.

        With a few rows the time goes to reading weights, and two products read them twice. One scale for all columns
        is not tried: it is no faster, and further off.
        """
        from optim_plugins.ort.hardware import multiplies_integers_exactly
        from optim_plugins.ort.measure.sample_rows import FEW_ROWS, rows_at_a_time
        from optim_plugins.ort.quantize.dynamic.quantize_dynamic_options import QuantizeDynamicOptions

        reduce_range: Literal["saturating", False] = False if multiplies_integers_exactly() else "saturating"
        many = rows_at_a_time(model, context) >= FEW_ROWS
        plain = QuantizeDynamicOptions(reduce_range=reduce_range, correct_bias=many and context.feeds_given)
        yield plain
        if many:
            yield plain.model_copy(update={"smoothing": 0.8})
            yield plain.model_copy(update={"smoothing": 0.6, "scale_rows": True})
            yield plain.model_copy(update={"activation_bits": 16})

    def keepable(self, model: Model, options: QuantizeDynamicOptions) -> list[str]:
        """Every product and LSTM it would quantize."""
        from optim_plugins.ort.graph.products import find_products
        from optim_plugins.ort.quantize.dynamic.recurrent import find_lstms, name_of

        graph = model.ir_to_read()
        names = {product.node: product.name for product in find_products(graph, _LEAST_ELEMENTS)}
        names |= {node: name_of(node) for node in find_lstms(graph)}
        return [names[node] for node in graph.graph.all_nodes() if node in names]

    def refinable(self, model: Model, options: QuantizeDynamicOptions) -> list[str]:
        """Every product, where they have not 16 bits all of them."""
        from optim_plugins.ort.graph.products import find_products

        if options.activation_bits > _COARSE_BITS:
            return []
        return [product.name for product in find_products(model.ir_to_read(), _LEAST_ELEMENTS)]

    def kernels(self, options: QuantizeDynamicOptions) -> tuple[KernelUse, ...]:
        """Those of the integers or floats that it writes."""
        from optim_plugins.ort import kernel_probes

        products = 2 if options.activation_bits > _COARSE_BITS else 1
        return (KernelUse(("MatMul",), kernel_probes.DYNAMIC, products),)

    def apply(self, model: Model, options: QuantizeDynamicOptions, context: Context) -> PassResult:
        """Rewrite every product and LSTM that is not kept."""
        from optim_plugins.ort.graph.products import find_products
        from optim_plugins.ort.quantize.chosen_nodes import ChosenNodes, operator_of
        from optim_plugins.ort.quantize.dynamic.dynamic_products import ProductQuantizer
        from optim_plugins.ort.quantize.dynamic.recurrent import find_lstms, name_of, quantize_lstm
        from optim_plugins.ort.quantize.narrow_weights import judged_product, narrow_nodes
        from optim_plugins.ort.quantize.smoothing import find_factors

        applicable = self.applicable(model, context.target)
        if not applicable:
            return PassResult(model, changed=False, notes=(applicable.reason,))
        graph = _fixed(model)
        found = list(find_products(graph, _LEAST_ELEMENTS))
        lstms = list(find_lstms(graph))
        nodes = ChosenNodes.of(options)
        operators = {product.name: operator_of(product) for product in found} | {
            name_of(node): "LSTM" for node in lstms
        }
        left_out = nodes.left_out(operators)
        chosen = [product for product in found if product.name not in left_out]
        factors: Factors = {}
        if options.smoothing:
            factors = find_factors(model, _fixed(model), chosen, options.smoothing, context, options.finer)
        narrow: frozenset[str] = frozenset()
        if options.reduce_range and options.weights == "int8":  # kernels for unsigned weights add in 32 bits
            judged = [judged_product(one, one.a.name or "", factors.get(one.a.name or "")) for one in chosen]
            everywhere = options.reduce_range is True
            narrow = narrow_nodes(lambda: _fixed(model), judged, model, context, everywhere=everywhere)
        means = _means(model, chosen, context) if options.correct_bias else {}
        known = context.known("quantized weights")
        quantizer = ProductQuantizer(graph, chosen, options, factors, narrow, means, known)
        count = 0
        for done, product in enumerate(chosen):
            count += quantizer.rewrite(product)
            context.report_progress((done + 1) / len(chosen), "quantizing weights")
        how = {"per_channel": options.per_channel, "reduce_range": bool(options.reduce_range)}
        left = [node for node in find_lstms(graph) if name_of(node) not in left_out]
        recurrent = sum(quantize_lstm(graph, node, **how) for node in left)
        notes = nodes.notes(operators, options.finer)
        notes += [f"left in float, its weight is not finite: {name}" for name in quantizer.refused]
        if not count + recurrent:
            return PassResult(model, changed=False, notes=(*notes, "no product is left to quantize"))
        quantizer.finish()
        counts = {"products quantized": count, "products kept": len(found) - count}
        if recurrent:
            counts |= {"LSTM quantized": recurrent}
        if finer := [one for one in chosen if options.activation_bits > _COARSE_BITS or one.name in options.finer]:
            counts |= {"with 16-bit activations": len(finer)}
        if options.reduce_range:
            counts |= {"with 7-bit weights": len(narrow)}
        if options.scale_rows:
            counts |= {"rows scaled": quantizer.rows_scaled}
        if options.correct_bias:
            counts |= {"biases corrected": quantizer.corrected}
        if options.smoothing:
            counts |= {"inputs smoothed": len(factors), "smoothed for nothing": quantizer.folded}
        return PassResult(context.save(graph, model), changed=True, notes=tuple(notes), counts=counts)


def _means(model: Model, products: Sequence[Product], context: Context) -> Means:
    """Of what products are given, before anything is rewritten."""
    from optim_plugins.ort.measure.channel_means import channel_means

    return channel_means(_fixed(model), {one.a.name or "": one.rows for one in products}, model, context)


def _fixed(model: Model) -> ir.Model:
    from optim_plugins.ort.graph.fixed_weights import fix_weights

    graph = model.ir()
    fix_weights(graph)
    return graph
