"""``openvino.compress-weights``: weights in 8 or 4 bits by NNCF, activations in float.

Before::

    y = MatMul(a, W)                                             W float32 [K, N], constant

After; from opset 21 on, and in 8 bits; else 4 bits are a ``com.microsoft.MatMulNBits``, which OpenVINO reads too. For
zero points in 4 bits, which no runtime reads there, and for GPTQ the graph is converted to opset 21::

    y = MatMul(a, DequantizeLinear(W_q, scale, zero, block_size))

OpenVINO multiplies such weights in integers, by activations that it quantizes as they come in groups of
``openvino.tune:group_size``. Smaller files, and a decoder's step that waits for memory, gain most. Methods: AWQ (Lin
et al. 2023), and GPTQ (:mod:`optim_openvino.quantize.gptq`).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from optim import Applicable, Context, Model, OptimError, Pass, PassResult, Target
from optim_openvino.quantize import float_graph
from optim_openvino.quantize.nncf_library import quiet_nncf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx

    from optim.arrays import Feeds
    from optim_openvino.quantize.compress_weights_options import CompressWeightsOptions

_OPSET = 13
_OPSET_OF_FEW_BITS = 21
"""From which on DequantizeLinear takes 4 bits."""

_OPERATORS = (*float_graph.PRODUCTS, "Gather")


class CompressWeights(Pass):
    """Weight compression by NNCF."""

    name = "openvino.compress-weights"
    summary = "stores weights in 8 or 4 bits with NNCF: smaller files, and faster if memory limits the speed"
    options = "optim_openvino.quantize.compress_weights_options:CompressWeightsOptions"
    lossy = True
    after = ("ort:*",)
    alternatives = "quantization"
    hardware = "x86-64 with AVX2, better AVX512-VNNI, AVX-VNNI or AMX; Intel's GPUs"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If NNCF is installed and an operator has a constant weight."""
        return float_graph.applicable(model, _OPERATORS, opset=_OPSET)

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[CompressWeightsOptions]:
        """Eight bits first, which are safe."""
        from optim_openvino.quantize.compress_weights_options import CompressWeightsOptions

        yield CompressWeightsOptions()
        yield CompressWeightsOptions(mode="int4-sym", group_size=32)

    def keepable(self, model: Model, options: CompressWeightsOptions) -> list[str]:
        """Everything with a weight."""
        return float_graph.weighted(model, _OPERATORS)

    def apply(self, model: Model, options: CompressWeightsOptions, context: Context) -> PassResult:
        """Have NNCF do it."""
        known = float_graph.weighted(model, _OPERATORS)
        if set(known) <= set(options.keep):
            return PassResult(model, False, ("keep leaves nothing to compress",))
        unknown = sorted(set(options.keep) - set(known))
        notes = [f"keep names no node with a weight: {', '.join(unknown)}"] if unknown else []
        data = float_graph.samples(model, context, options.samples) if options.needs_samples else []
        with quiet_nncf() as nncf:
            read = float_graph.read(model, options.keep, in_blocks=options.few_bits)
            if (options.gptq or options.mode == "int4-asym") and model.opset[""] < _OPSET_OF_FEW_BITS:
                read = _with_few_bits(read, model)
            given = copy.deepcopy(read) if options.gptq else read  # NNCF changes what it is given
            before = _quantized(read)
            made = nncf.compress_weights(read, **_arguments(nncf, options, data))
            if options.gptq:
                notes += _by_gptq(made, given, nncf, options, data)
        count = _quantized(made) - before
        if not count:
            return PassResult(model, False, (*notes, "NNCF compressed nothing"))
        made_model = float_graph.write(made, context, model)
        return PassResult(made_model, True, tuple(notes), counts={"weights compressed": count})


def _with_few_bits(graph: onnx.ModelProto, model: Model) -> onnx.ModelProto:
    """The graph in the first opset whose DequantizeLinear takes 4 bits.

    Raises:
        OptimError[openvino-zero-points]: ONNX's converter does not know how.
    """
    from onnx import version_converter

    try:
        return version_converter.convert_version(graph, _OPSET_OF_FEW_BITS)
    except (RuntimeError, ValueError) as error:
        raise OptimError(
            "openvino-zero-points",
            f"zero points in 4 bits, and GPTQ, need opset {_OPSET_OF_FEW_BITS}",
            f"NNCF's MatMulNBits, which it writes below, has zero points that no runtime reads; this model, of opset "
            f"{model.opset['']}, cannot be converted: {error}",
            "--with \"openvino.compress-weights:mode='int4-sym'\"",
        ) from error


def _by_gptq(
    made: onnx.ModelProto, given: onnx.ModelProto, nncf: Any, options: CompressWeightsOptions, data: Sequence[Feeds]
) -> list[str]:
    from optim_openvino.quantize.gptq import round_by_gptq

    asked = {"mode": _mode(nncf, options), "group_size": options.group_size}
    asked["scale_estimation"] = options.scale_estimation
    left = round_by_gptq(made, given, nncf, data, asked)
    return [f"rounded to nearest, not by GPTQ: {', '.join(left)}"] if left else []


def _mode(nncf: Any, options: CompressWeightsOptions) -> Any:
    return nncf.CompressWeightsMode(options.mode.replace("-", "_"))


def _arguments(nncf: Any, options: CompressWeightsOptions, data: Sequence[Feeds]) -> dict[str, Any]:
    found: dict[str, Any] = {"mode": _mode(nncf, options), "ignored_scope": float_graph.ignored(nncf, options.keep)}
    if options.few_bits:
        found |= {"ratio": options.ratio, "group_size": options.group_size, "all_layers": options.all_layers}
        found |= {"awq": options.awq, "scale_estimation": options.scale_estimation and not options.gptq}
    if data:
        found |= {"dataset": nncf.Dataset(list(data)), "subset_size": len(data)}
    return found


def _quantized(graph: Any) -> int:
    return sum(node.op_type in ("DequantizeLinear", "MatMulNBits") for node in graph.graph.node)
