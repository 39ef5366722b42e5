"""``tensorrt.quantize``: integers and floats of 8 bits, and weights of 4, as TensorRT computes them.

Before::

    y = Relu(Conv(x, W, b))      p = Add(MatMul(a, V), c)

After, every zero point 0 and W and V with a scale for each output channel::

    y = Relu(Conv(DQ(Q(x)), DQ(W_q), b))          whatever reads y reads DQ(Q(y))
    p = Add(MatMul(DQ(Q(a)), DQ(V_q)), c)

TensorRT takes symmetric integers only, and biases in float: it puts them into the accumulator itself. The graph is
written by ``ort.quantize-static``'s writer of pairs. Engines differ in where pairs help, so the search tries several
placements, and repairs with ``keep``. With ``format=float8`` the same pairs hold floats of 8 bits, with
``format=int4-weights`` weights alone are rounded (:mod:`optim_plugins.nvidia.tensorrt.four_bit_weights`). Placement:
https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from optim import APPLICABLE, Applicable, Context, Model, OptimError, Pass, PassResult, SessionConfig, Target
from optim.providers import TENSORRT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim_plugins.nvidia.tensorrt.quantize_options import QuantizeOptions
    from optim_plugins.ort.quantize.static.quantize_static_options import QuantizeStaticOptions

_INTEGERS = "int8"

BIASES_IN_FLOAT = SessionConfig(disabled_optimizers=("WeightBiasQuantization",))
"""ONNX Runtime would put integers of 32 bits for them, between pairs that neither CUDA nor TensorRT computes."""

FLOAT8_CAPABILITY = (8, 9)
"""Compute capability of Ada, the first with products of 8-bit floats."""


class Quantize(Pass):
    """Symmetric 8-bit pairs."""

    name = "tensorrt.quantize"
    summary = "quantizes to 8-bit integers or floats, or weights to 4 bits, in the form that TensorRT reads"
    options = "optim_plugins.nvidia.tensorrt.quantize_options:QuantizeOptions"
    lossy = True
    calibrates = True
    alternatives = "quantization"
    makes = "int8"
    hardware = "a GPU of NVIDIA's with 8-bit tensor cores (Turing or later)"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the model has a convolution or a matrix product with a constant weight."""
        from optim import OptimError
        from optim_plugins.ort.quantize.quantized_already import nothing_to_quantize
        from optim_plugins.ort.quantize.static.static_graph import prepared
        from optim_plugins.ort.quantize.static.static_plan import make_plan

        try:
            choices = make_plan(prepared(model, _INTEGERS)).choices
        except OptimError as error:
            return Applicable.no(error.cause)
        if choices:
            return APPLICABLE
        return nothing_to_quantize(model, "no Conv, MatMul or Gemm has a constant float32 weight")

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizeOptions]:
        """Convolutions alone and with products; for models of products outliers smoothed, then whole ranges.

        No floats of 8 bits: ONNX Runtime 1.31 has no switch for them, and builds networks that need one.
        """
        from optim_plugins.nvidia.tensorrt.quantize_options import QuantizeOptions

        operators = {node.op_type for node in model.ir().graph}
        if "Conv" in operators:
            yield QuantizeOptions(calibration="mse")
            if operators & {"MatMul", "Gemm"}:
                yield QuantizeOptions(calibration="mse", products=False)
        else:
            yield QuantizeOptions(smoothing=0.8)
            yield QuantizeOptions()

    def keepable(self, model: Model, options: QuantizeOptions) -> list[str]:
        """Every convolution and product it would quantize."""
        from optim_plugins.nvidia.tensorrt.four_bit_weights import choices
        from optim_plugins.ort.quantize.static.static_graph import prepared
        from optim_plugins.ort.quantize.static.static_plan import make_plan

        if options.format == "int4-weights":
            return choices(model.ir())
        return make_plan(prepared(model, _INTEGERS), products=options.products).choices

    def apply(self, model: Model, options: QuantizeOptions, context: Context) -> PassResult:
        """Measure ranges, then write pairs; or round weights.

        Raises:
            OptimError[no-float8]: the GPU has no products of 8-bit floats.
            OptimError[opset-not-raised]: the converter refuses.
        """
        import onnx_ir as ir

        from optim_plugins.ort.precision.provider_switches import switched_on
        from optim_plugins.ort.quantize.static.static_graph import quantize_graph

        if options.format == "int4-weights":
            return _four_bits(model, options, context)
        if options.format == "float8" and (reason := _no_float8(context.target)):
            raise OptimError(
                "no-float8",
                f"{model.path.name} cannot be quantized to floats of 8 bits for {context.target.name}",
                reason,
                "--with \"tensorrt.quantize:format='int8'\"",
            )
        result = quantize_graph(model, _static(options), context)
        if not result.changed:
            return result
        types = [ir.DataType.INT8] if options.format == _INTEGERS else []
        settings = BIASES_IN_FLOAT.updated(switched_on(TENSORRT, types))
        return replace(result, model=result.model.with_session(settings))


def _no_float8(target: Target) -> str | None:
    """Why a GPU does not multiply 8-bit floats; None where it does, or where there is none to ask."""
    from optim_plugins.nvidia.gpu.device import GpuDevice, find_device

    device = find_device(int(target.provider_options.get("device_id", "0"))) if target.provider == TENSORRT else None
    if not isinstance(device, GpuDevice) or device.capability >= FLOAT8_CAPABILITY:
        return None
    return f"{device.text}; products of 8-bit floats came with compute capability 8.9 (Ada)"


def _four_bits(model: Model, options: QuantizeOptions, context: Context) -> PassResult:
    from optim_plugins.nvidia.tensorrt.four_bit_weights import LEAST_OPSET, choices, write_four_bits
    from optim_plugins.ort.graph.fixed_weights import fix_weights
    from optim_plugins.ort.prepare.converted_graph import convert_graph

    graph = model.ir()
    fix_weights(graph)
    if graph.graph.opset_imports.get("", 1) < LEAST_OPSET and (reason := convert_graph(graph, LEAST_OPSET)):
        raise OptimError(
            "opset-not-raised",
            f"{model.path.name} cannot be quantized",
            f"it has opset {model.opset['']}, blocks of 4 bits need {LEAST_OPSET}, and the converter refuses: {reason}",
            "export the model with a newer opset",
        )
    unknown = sorted(set(options.keep) - set(choices(graph)))
    notes = [f"keep names no quantizable node: {', '.join(unknown)}"] if unknown else []
    written = write_four_bits(graph, options.keep)
    if written.uneven:
        notes.append(f"left in float, their rows are no multiple of a block: {', '.join(written.uneven)}")
    if not written.count:
        return PassResult(model, changed=False, notes=(*notes, "no product is left to quantize"))
    return PassResult(context.save(graph, model), changed=True, notes=tuple(notes), counts={"products": written.count})


def _static(options: QuantizeOptions) -> QuantizeStaticOptions:
    from optim_plugins.ort.quantize.static.quantize_static_options import QuantizeStaticOptions

    numbers: Literal["int8", "float8_e4m3fn"] = "float8_e4m3fn" if options.format == "float8" else "int8"
    return QuantizeStaticOptions(
        format="qdq",
        activations=numbers,
        weights=numbers,
        symmetric=True,
        biases="float32",
        calibration=options.calibration,
        percentile=options.percentile,
        per_channel=options.per_channel,
        products=options.products,
        smoothing=options.smoothing,
        keep=options.keep,
    )
