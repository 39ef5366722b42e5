"""``openvino.quantize``: products and convolutions in 8-bit integers by NNCF, ranges fixed on samples beforehand.

Before::

    y = MatMul(a, W)                                             W float32, constant

After; OpenVINO computes it in integers::

    y = MatMul(DequantizeLinear(QuantizeLinear(a)), DequantizeLinear(W_q))

NNCF works on the ONNX graph, runs it by onnxruntime to measure ranges, and writes standard operators. SmoothQuant (Xiao
et al. 2022) moves outliers of activations into weights. ``keep`` names NNCF's ignored scope, so that optim's repair
finds the smallest set. NNCF's own accuracy control searches one layer at a time.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from optim import Applicable, Context, Model, Pass, PassResult, Target
from optim_openvino.quantize import float_graph
from optim_openvino.quantize.nncf_library import quiet_nncf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim_openvino.quantize.quantize_options import QuantizeOptions

_MOVES = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""They compute nothing, and have no weights."""

_OPSET = 13
"""The first whose QuantizeLinear has a scale for each channel."""


class Quantize(Pass):
    """Static quantization by NNCF."""

    name = "openvino.quantize"
    summary = "quantizes convolutions and matrix products to 8 bits with NNCF; samples calibrate the ranges"
    options = "optim_openvino.quantize.quantize_options:QuantizeOptions"
    lossy = True
    calibrates = True
    after = ("ort:*",)
    alternatives = "quantization"
    makes = "int8"
    hardware = "x86-64 with AVX512-VNNI, AVX-VNNI or AMX; Arm with dot product; Intel's GPUs and NPUs"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If NNCF is installed and a product has a constant weight."""
        return float_graph.applicable(model, float_graph.PRODUCTS, opset=_OPSET)

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizeOptions]:
        """NNCF's defaults but for outliers; in a transformer fewer of them too, which is closer in some.

        NNCF moves 0.95 of them. On samples that it did not see 0.8 was closer on each of four encoders: MiniLM .081 in
        place of .108, T5 .019 in place of .025, BERT .013 in place of .017, Whisper .0099 in place of .0103. 0.65 was a
        little closer still on the last three, which have random weights; 0.5 is far off on MiniLM (.17).
        """
        from optim_openvino.quantize.quantize_options import QuantizeOptions

        yield QuantizeOptions()
        if not float_graph.is_convolutional(model):
            yield QuantizeOptions(smooth_alpha=0.65)

    def keepable(self, model: Model, options: QuantizeOptions) -> list[str]:
        """Everything that NNCF may compute in integers."""
        return float_graph.quantizable(model)

    def apply(self, model: Model, options: QuantizeOptions, context: Context) -> PassResult:
        """Have NNCF do it."""
        known = float_graph.quantizable(model)
        if set(known) <= set(options.keep):
            return PassResult(model, False, ("keep leaves nothing to quantize",))
        unknown = sorted(set(options.keep) - set(known))
        notes = (f"keep names no quantizable node: {', '.join(unknown)}",) if unknown else ()
        with quiet_nncf() as nncf:
            data = float_graph.samples(model, context, options.samples)
            read = float_graph.read(model, options.keep)
            given = copy.deepcopy(read) if options.keep else read  # NNCF changes what it is given
            asked = _arguments(nncf, model, options)
            made = nncf.quantize(read, nncf.Dataset(data), subset_size=len(data), **asked)
        float_graph.restore(made, given, options.keep)
        count = sum(node.op_type == "QuantizeLinear" for node in made.graph.node)
        if not count:
            return PassResult(model, False, (*notes, "NNCF quantized nothing"))
        made_model = float_graph.write(made, context, model)
        return PassResult(made_model, True, notes, counts={"activations quantized": count})


def _arguments(nncf: Any, model: Model, options: QuantizeOptions) -> dict[str, Any]:
    convolutional = float_graph.is_convolutional(model)
    transformer = not convolutional if options.transformer is None else options.transformer
    others = () if convolutional else _between_products(model)
    alphas = nncf.AdvancedSmoothQuantParameters(matmul=options.smooth_alpha, convolution=-1)
    return {
        "preset": nncf.QuantizationPreset(options.preset),
        "model_type": nncf.ModelType.TRANSFORMER if transformer else None,
        "target_device": nncf.TargetDevice.CPU,
        "fast_bias_correction": options.bias_correction != "accurate",
        "ignored_scope": float_graph.ignored(nncf, options.keep, others),
        "advanced_parameters": nncf.AdvancedQuantizationParameters(
            smooth_quant_alphas=alphas, disable_bias_correction=options.bias_correction == "none"
        ),
    }


def _between_products(model: Model) -> list[str]:
    """Operators that a transformer computes in float, so that what a repair may keep is all that is quantized.

    What only moves numbers is none of them: NNCF rounds in front of it, so that a product writes integers and a head of
    attention is cut out of those.
    """
    kinds = {node.op_type for node in model.ir().graph if node.domain in ("", "ai.onnx")}
    return sorted(kinds - {*float_graph.PRODUCTS, *_MOVES})
