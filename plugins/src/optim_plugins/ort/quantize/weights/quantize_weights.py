"""``ort.quantize-weights``: weights of matrix products in 8, 4 or 2 bits, activations left in float.

Before::

    y = Add(MatMul(a, W), bias)                                  W float32 [K, N], constant
    e = Gather(T, indices)                                       T float32 [N, K], constant

After::

    y = com.microsoft.MatMulNBits(a, W_q, W_scale, W_zero, -, bias)
    e = com.microsoft.GatherBlockQuantized(T_q, indices, T_scale, T_zero)

Each block of 16 to 256 weights of a column has a scale of its own. At accuracy level 4 the product quantizes ``a``
while running, block by block, so no data is needed and outliers of one block do not hurt the others. Weights are worked
on some columns at a time, one weight after the other. Operators: onnxruntime ``docs/ContribOperators.md``.

The pass is fast for one or a few rows at a time (a decoder's step), which wait for weights to come from memory. With
many rows ``ort.quantize-dynamic`` is faster. A Gemm and a head tied to the embedding are quantized as they are. If
table and head are rounded alike, a file holds their bytes once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, KernelUse, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim_plugins.ort.quantize.weights.block_graph import BlockRewriter
    from optim_plugins.ort.quantize.weights.quantize_weights_options import QuantizeWeightsOptions


_LEAST_SHARE = 0.25
_IN_INTEGERS = 4
"""Accuracy level at which products are computed in 8-bit integers."""

_FAST_BITS = 4
"""At the other levels onnxruntime has fast kernels for these only."""


class QuantizeWeights(Pass):
    """Weights in blocks of few bits."""

    name = "ort.quantize-weights"
    summary = "stores weights in 8, 4 or 2 bits, for models that memory limits, such as decoders; needs no samples"
    options = "optim_plugins.ort.quantize.weights.quantize_weights_options:QuantizeWeightsOptions"
    lossy = True
    after = ("ort.gemm-to-matmul",)
    alternatives = "quantization"
    suits = ("generate",)  # a token waits for weights to come from memory
    hardware = "x86-64 with AVX2, better AVX512-VNNI or AVX-VNNI; Arm with dot product"

    def __init__(self) -> None:
        from optim_plugins.ort.quantize.weights.rounded_before import RoundedBefore

        self._before = RoundedBefore()

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the model has a matrix product or an embedding with a large constant weight."""
        from optim_plugins.ort.quantize.quantized_already import nothing_to_quantize
        from optim_plugins.ort.quantize.weights.block_plan import LEAST_ELEMENTS, find_places

        if not find_places(model.ir_to_read()):
            return nothing_to_quantize(
                model, f"no MatMul, Gemm or Gather has a constant float32 weight of {LEAST_ELEMENTS} numbers"
            )
        return APPLICABLE

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """Where products and tables hold many of the weights, and blocks are computed with as they are."""
        from optim_plugins.ort.hardware import multiplies_blocks
        from optim_plugins.ort.kernels import CPU_PROVIDER, WASM
        from optim_plugins.ort.quantize.weights.block_plan import share_of_weights

        share = share_of_weights(model.ir_to_read())
        if share < _LEAST_SHARE:
            return Applicable.no(f"its products and tables hold {share:.0%} of the weights, Conv and others the rest")
        if goal == "latency" and target.made_for == CPU_PROVIDER and not multiplies_blocks():
            return Applicable.no("onnxruntime has no fast kernel for it without AVX2 or Arm's dot product")
        if goal == "latency" and target.made_for == WASM:
            return Applicable.no("onnxruntime-web has no fast kernel for it on WASM: it took 1.2 to 3.7 times as long")
        return APPLICABLE

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizeWeightsOptions]:
        """Eight bits in large blocks are fast, in small ones close; four bits where few rows make them faster still.

        On processors four bits come in large blocks without zero points first, with 8 for what attentions average: of
        a Llama of 200 million random weights they are closer than small ones (drift .33; .36 with zero points, .41 to
        nearest) in 0.67 to 0.82 of the time for a token and 0.75 for 64 (AVX512-VNNI, one thread, the products alone,
        in a cache and from memory). Then they come in small blocks, and with 8 for what errs most. Computed in floats
        they come where integers are not added in 32 bits: with VNNI floats take 2.4 to 3.7 times as long for a token,
        and 1.3 times for 64. The clock says which is worth it.
        """
        from optim_plugins.ort.hardware import multiplies_integers_exactly
        from optim_plugins.ort.kernels import CPU_PROVIDER
        from optim_plugins.ort.measure.sample_rows import FEW_ROWS, rows_at_a_time
        from optim_plugins.ort.quantize.weights.block_plan import (
            method_for,
            names_around_attention,
            names_that_err_most,
        )
        from optim_plugins.ort.quantize.weights.quantize_weights_options import QuantizeWeightsOptions

        yield QuantizeWeightsOptions(block_size=128)
        if rows_at_a_time(model, context) >= FEW_ROWS:
            return
        graph = model.ir_to_read()
        method = method_for(graph, samples_given=context.feeds_given)
        on_processor = target.made_for == CPU_PROVIDER
        if on_processor:
            yield QuantizeWeightsOptions(bits=4, block_size=128, method=method, finer=names_around_attention(graph))
        yield QuantizeWeightsOptions(block_size=32)
        four = QuantizeWeightsOptions(bits=4, block_size=32, symmetric=False, method=method)
        yield four
        if finer := names_that_err_most(graph):
            yield four.model_copy(update={"finer": finer})
        if on_processor and not multiplies_integers_exactly():
            yield four.model_copy(update={"accuracy_level": 1})

    def keepable(self, model: Model, options: QuantizeWeightsOptions) -> list[str]:
        """Every product and look-up it would quantize."""
        from optim_plugins.ort.quantize.weights.block_plan import find_places

        return [place.name for place in find_places(model.ir_to_read(), tables=bool(options.embedding_bits))]

    def refinable(self, model: Model, options: QuantizeWeightsOptions) -> list[str]:
        """Everything that has fewer than 8 bits."""
        from optim_plugins.ort.graph.products import Product
        from optim_plugins.ort.quantize.weights.block_plan import FINER_BITS, find_places

        found = find_places(model.ir_to_read(), tables=options.embedding_bits in range(1, FINER_BITS))
        return [one.name for one in found if options.bits < FINER_BITS or not isinstance(one, Product)]

    def kernels(self, options: QuantizeWeightsOptions) -> tuple[KernelUse, ...]:
        """Those of the integers or floats that it writes."""
        from optim_plugins.ort import kernel_probes

        return (KernelUse(("MatMul",), kernel_probes.blocks_of(options.bits)),)

    def apply(self, model: Model, options: QuantizeWeightsOptions, context: Context) -> PassResult:
        """Rewrite every product and look-up that is not kept."""
        from optim_plugins.ort.graph.fixed_weights import fix_weights
        from optim_plugins.ort.graph.products import Product
        from optim_plugins.ort.quantize.weights.block_graph import BlockRewriter
        from optim_plugins.ort.quantize.weights.block_plan import find_places, gptq_groups, rounding_of
        from optim_plugins.ort.quantize.weights.scaling import scale_channels
        from optim_plugins.ort.quantize.weights.seen_inputs import gather_inputs

        graph = model.ir()
        fix_weights(graph)
        found = find_places(graph, tables=bool(options.embedding_bits))
        work = [(place, rounding) for place in found if (rounding := rounding_of(place, options)) is not None]
        rewriter = BlockRewriter(graph, {} if options.awq else self._before.of(model, context))
        counts = {"products quantized": 0, "tables quantized": 0}
        done = 0
        for group in gptq_groups(work):
            by_samples = [(p, rounding) for p, rounding in group if rounding.by_samples and isinstance(p, Product)]
            wanted = [p for p, rounding in by_samples if not rewriter.knows(p, rounding)]
            inputs = gather_inputs(model, context, wanted, squares_only=options.method != "gptq")
            if options.awq:
                inputs, scaled = scale_channels(graph, group, inputs)
                counts["scaled before them"] = counts.get("scaled before them", 0) + scaled
            for place, rounding in group:
                kind = "products quantized" if isinstance(place, Product) else "tables quantized"
                counts[kind] += rewriter.rewrite(place, rounding, inputs)
                done += 1
                context.report_progress(done / len(work), "rounding weights")
        notes = tuple(_notes(options, {place.name for place in found}, rewriter))
        rounded = counts["products quantized"] + counts["tables quantized"]
        if not rounded:
            return PassResult(model, changed=False, notes=(*notes, "no weight is left to quantize"))
        rewriter.finish()
        counts["left in float"] = len(found) - rounded
        return PassResult(context.save(graph, model), changed=True, notes=notes, counts=counts)


def _notes(options: QuantizeWeightsOptions, names: set[str], rewriter: BlockRewriter) -> Iterator[str]:
    from optim_plugins.ort.quantize.chosen_nodes import ChosenNodes

    yield from ChosenNodes.of(options).notes(names, options.finer)
    if options.accuracy_level < _IN_INTEGERS and options.bits != _FAST_BITS:
        yield (
            f"known not to have a fast kernel: onnxruntime makes floats of weights of {options.bits} bits at each run "
            f"at accuracy level {options.accuracy_level}; level {_IN_INTEGERS} computes with them as they are"
        )
    yield from (f"left in float, its weight is not finite: {name}" for name in rewriter.refused)
    if rewriter.without_samples:
        yield (
            f"k-quant in place of {options.method}, no sample shows what they are given: "
            f"{len(rewriter.without_samples)} nodes, first {rewriter.without_samples[0]}"
        )
