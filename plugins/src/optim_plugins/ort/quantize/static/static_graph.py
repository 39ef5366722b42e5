"""From a model to its statically quantized graph: prepare, plan, measure, rewrite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from optim import Context, Model, OptimError, PassResult, SessionConfig
from optim.errors import unknown_name
from optim_plugins.ort.graph.fixed_weights import fix_weights
from optim_plugins.ort.hardware import signed_are_slow
from optim_plugins.ort.measure.calibrate import CalibratedRanges, SeenRanges, calibrate
from optim_plugins.ort.measure.integer_ranges import Range
from optim_plugins.ort.prepare.converted_graph import convert_graph
from optim_plugins.ort.quantize.chosen_nodes import ChosenNodes
from optim_plugins.ort.quantize.dynamic.recurrent import quantize_lstm
from optim_plugins.ort.quantize.narrow_weights import judged_convolution, judged_product, narrow_nodes
from optim_plugins.ort.quantize.smoothing import Factors, add_smoothed, connect_smoothed, find_factors, fold_smoothing
from optim_plugins.ort.quantize.static.activations import activation_behind
from optim_plugins.ort.quantize.static.clipped_gates import gate_scales
from optim_plugins.ort.quantize.static.integer_initializers import StaticRewriter
from optim_plugins.ort.quantize.static.qdq_writer import FloatBiasRewriter, PairRewriter
from optim_plugins.ort.quantize.static.qoperator_writer import OperatorRewriter
from optim_plugins.ort.quantize.static.quantizable_operators import make_friendly
from optim_plugins.ort.quantize.static.scales_and_zero_points import FLOAT8, IntScale, WeightStyle, scale_of
from optim_plugins.ort.quantize.static.static_plan import StaticPlan, make_plan

if TYPE_CHECKING:
    from optim_plugins.ort.quantize.static.quantize_static_options import QuantizeStaticOptions

_NAMED = 5
"""Nodes that a note names."""

_LEAST_OPSET = {"uint8": 13, "int8": 13, FLOAT8: 19, "uint16": 21, "int16": 21}
"""Scales per channel came with 13, floats of 8 bits with 19, 16-bit integers with 21."""

_AS_WRITTEN = SessionConfig(
    session_config={"session.disable_quant_qdq": "1"}, disabled_optimizers=("ClipQuantRewrite", "ReluQuantRewrite")
)
"""onnxruntime 1.31 takes floats of 8 bits for integers: it makes 8-bit operators of their pairs, and refuses its own
graph; and it drops a Relu before QuantizeLinear, as if no number lay below a zero point of 0."""

_STEPS = {"uint16": 1 << 16, "int16": 1 << 16}
"""Numbers that a type has, where they are not 256."""


def prepared(model: Model, activations: str) -> ir.Model:
    """The float graph that is quantized: weights fixed, opset raised, operators that have 8-bit forms.

    Raises:
        OptimError[opset-not-raised]: the converter refuses.
    """
    graph = model.ir()
    fix_weights(graph)
    least = _LEAST_OPSET[activations]
    if graph.graph.opset_imports.get("", 1) < least and (reason := convert_graph(graph, least)):
        raise OptimError(
            "opset-not-raised",
            f"{model.path.name} cannot be quantized",
            f"it has opset {model.opset['']}, quantization needs {least}, and the converter refuses: {reason}",
            "export the model with a newer opset",
        )
    make_friendly(graph)
    return graph


def quantize_graph(model: Model, options: QuantizeStaticOptions, context: Context) -> PassResult:
    """What ``ort.quantize-static`` makes of a model."""
    graph = prepared(model, options.activations)
    nodes = ChosenNodes.of(options)
    plan = make_plan(
        graph,
        nodes,
        products=options.products,
        lstms=options.quantizes_lstms,
        in_floats=options.format == "qoperator",
        activation_products=options.activation_products,
    )
    notes = nodes.notes(plan.choices)
    notes += [f"known not to have a fast kernel: {why}"] if (why := _known_to_be_slow(options)) else []
    if not plan.measured():
        return PassResult(model, changed=False, notes=(*notes, "no node is left to quantize"))
    factors = _factors(plan, model, options, context)
    smoothed = add_smoothed(graph, factors)
    given = {product.name: product.a.name or "" for product in plan.products}
    connect_smoothed(plan.products, smoothed)
    measured = _measured(plan, factors, model, options, context)
    if not measured.samples:
        return PassResult(model, changed=False, notes=(*notes, "there is no sample to measure ranges on: give --data"))
    scales = _scales(plan, measured, options)
    style = WeightStyle(
        options.weights,
        options.per_channel,
        fill_channels=options.fill_channels,
        pairs=options.pairs_at_weights,
        readers_apart=options.pairs_per_reader,
    )
    pairs = PairRewriter if options.biases == "int32" else FloatBiasRewriter
    writer = OperatorRewriter if options.format == "qoperator" else pairs
    narrow = _narrow(plan, given, factors, scales, model, options, context)
    by_smoothed = {value.name or "": factors[name] for name, value in smoothed.items()}
    rewriter = writer(graph, measured, scales, style, by_smoothed, narrow, correct_bias=options.correct_bias)
    counts, left = _rewrite(plan, rewriter, scales, context)
    how = {"per_channel": options.per_channel, "reduce_range": bool(options.reduce_range)}
    if recurrent := sum(quantize_lstm(graph, node, **how) for node in plan.lstms):
        counts |= {"LSTM quantized": recurrent}
    if not any(counts.values()):
        return PassResult(model, changed=False, notes=(*notes, *left, "no node is left to quantize"))
    if options.reduce_range:
        counts |= {"with 7-bit weights": len(narrow)}
    if options.smoothing:
        counts |= {"inputs smoothed": len(smoothed), "smoothed for nothing": fold_smoothing(graph, smoothed)}
    rewriter.finish()
    samples = "1 sample" if measured.samples == 1 else f"{measured.samples} samples"
    notes += [*left, f"ranges of {len(measured.ranges)} tensors from {samples}"]
    made = context.save(graph, model)
    if options.activations == FLOAT8:
        made = made.with_session(_AS_WRITTEN)
    return PassResult(made, changed=True, notes=tuple(notes), counts=counts)


def _known_to_be_slow(options: QuantizeStaticOptions) -> str:
    """Why onnxruntime is slow with such integers on a processor; empty where it is not."""
    if options.activations == FLOAT8:
        return "products with float8_e4m3fn run in float between conversions; they are for accelerators"
    if options.activations.endswith("16"):
        return f"products with {options.activations} run in float between conversions; they are for accelerators"
    if options.weights == "float32":
        return "with weights float32 products run in float between conversions; they are for accelerators"
    if options.activations == "int8" and options.format == "qoperator" and signed_are_slow():
        return "8-bit operators with int8 activations run slower than float on x86; uint8, or format qdq, does not"
    return ""


def _factors(plan: StaticPlan, model: Model, options: QuantizeStaticOptions, context: Context) -> Factors:
    """For products of floats: integers that come from a convolution are not made floats to be scaled."""
    if not options.smoothing:
        return {}
    integers = {value for one in plan.nodes for value in one.results}
    products = [product for product in plan.products if product.a not in integers]
    return find_factors(model, prepared(model, options.activations), products, options.smoothing, context)


def _measured(
    plan: StaticPlan, factors: Factors, model: Model, options: QuantizeStaticOptions, context: Context
) -> SeenRanges:
    behind = {value.name or "": activation_behind(value, plan.gelus) for value in plan.measured()}
    activations = {name: activation for name, activation in behind.items() if activation is not None}
    how = CalibratedRanges(options.calibration, options.percentile, _STEPS.get(options.activations, 256), activations)
    channels: dict[str, int | None] = {}
    if options.correct_bias:
        channels |= {one.sources[0].name or "": None for one in plan.nodes if one.node.op_type == "Conv"}
        channels |= {product.a.name or "": product.rows for product in plan.products if product.vector is not None}

    def measurable() -> ir.Model:
        graph = prepared(model, options.activations)
        add_smoothed(graph, factors)
        return graph

    names = [value.name or "" for value in plan.measured()]
    if unknown := sorted(options.ranges.keys() - names):
        raise unknown_name("tensor", unknown[0], names, fix="correct the name in ranges, or leave it out")
    found = calibrate(measurable, names, channels, how, model, context)
    given = {name: Range.around(low, high) for name, (low, high) in options.ranges.items()}
    return replace(found, ranges=found.ranges | given)


def _narrow(
    plan: StaticPlan,
    given: Mapping[str, str],
    factors: Factors,
    scales: Mapping[str, IntScale],
    model: Model,
    options: QuantizeStaticOptions,
    context: Context,
) -> frozenset[str]:
    """Names of the nodes whose weights get 7 bits; ``given`` names what products are given in the float graph.

    Kernels for unsigned weights add in 32 bits, and those for signed activations are not known: no bit is spared there.
    """
    if not options.reduce_range or options.weights == "uint8":
        return frozenset()
    judged = []
    for product in plan.products:
        numbers = scales.get(product.a.name or "")
        name = given[product.name]
        judged.append(judged_product(product, name, factors.get(name), numbers.as_numbers if numbers else None))
    for one in plan.nodes:
        numbers = scales.get(one.sources[0].name or "")
        if one.node.op_type == "Conv" and numbers is not None:
            judged.append(judged_convolution(one.node, one.name, numbers.as_numbers, context.seed))
    everywhere = options.reduce_range is True or options.activations != "uint8"
    return narrow_nodes(lambda: prepared(model, options.activations), judged, model, context, everywhere=everywhere)


def _scales(plan: StaticPlan, measured: SeenRanges, options: QuantizeStaticOptions) -> dict[str, IntScale]:
    """By name of every tensor whose range was finite."""
    tensors = {value for one in plan.nodes for value in (*one.sources, *one.results)}
    tensors |= {product.a for product in plan.products}
    found: dict[str, IntScale] = {}
    for value in tensors:
        known = measured.ranges.get(plan.root(value).name or "")
        if known is not None and known.is_finite:
            found[value.name or ""] = scale_of(known, options.activations, symmetric=options.symmetric)
    if options.format == "qoperator" and not options.symmetric:
        ranges = {
            value.name or "": measured.ranges[plan.root(value).name or ""] for value in tensors if value.name in found
        }
        found |= gate_scales(plan, found, ranges, options.activations)
    return found


def _rewrite(
    plan: StaticPlan, rewriter: StaticRewriter, scales: dict[str, IntScale], context: Context
) -> tuple[dict[str, int], list[str]]:
    """Counts, and why nodes stay float."""
    counts = {"Conv quantized": 0, "products quantized": 0, "carriers quantized": 0}
    unmeasured: list[str] = []
    total = len(plan.nodes) + len(plan.products)
    for done, one in enumerate(plan.nodes):
        if not all(value.name in scales for value in (*one.sources, *one.results)):
            unmeasured.append(one.name)
            continue
        counts["Conv quantized" if one.node.op_type == "Conv" else "carriers quantized"] += rewriter.rewrite(one)
        context.report_progress(done / total, "quantizing")
    for done, product in enumerate(plan.products):
        if rewriter.original(product.a).name not in scales:
            unmeasured.append(product.name)
            continue
        counts["products quantized"] += rewriter.rewrite_product(product)
        context.report_progress((len(plan.nodes) + done + 1) / total, "quantizing")
    left = [f"left in float, its weight is not finite: {name}" for name in rewriter.refused]
    if unmeasured:
        names = ", ".join(unmeasured[:_NAMED])
        left.append(f"left in float, NaN or infinity on the samples at {len(unmeasured)} nodes: {names}")
    return counts, left
