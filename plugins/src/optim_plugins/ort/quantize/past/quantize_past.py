"""``ort.quantize-past``: keys and values of a decoder's past in 8 or 4 bits.

Before::

    y, present_k, present_v = com.microsoft.GroupQueryAttention(q, k, v, past_k, past_v, ...)             float32

After, with past and present as integers, and a scale for each channel of each key head::

    y, present_k, present_v = com.microsoft.GroupQueryAttention(..., k_scale, v_scale)      int8, or uint8 of two each

A token reads the whole past in every layer, so its bytes are what a deep past costs. The operator rounds new tokens
when it writes them, and computes with the past as it lies there. A rounded token stays as it is. The scales are found
on samples (:mod:`optim_plugins.ort.quantize.past.past_scales`). Operator: onnxruntime ``docs/ContribOperators.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx_ir as ir

    from optim_plugins.ort.quantize.past.past_scales import Attention
    from optim_plugins.ort.quantize.past.quantize_past_options import QuantizePastOptions
    from optim_plugins.ort.quantize.weights.block_weights import Floats

_MODULE = "optim_plugins.ort.quantize.past.stored_past"
_KEY_SCALE, _VALUE_SCALE = 12, 13
"""Places among the operator's inputs."""

_NO_PAST = "no attention adds to a past of floats in place: --with ort.share-past writes such ones"


class QuantizePast(Pass):
    """A past in few bits."""

    name = "ort.quantize-past"
    summary = "stores the keys and values of a decoder's past in 8 or 4 bits, after ort.share-past"
    options = "optim_plugins.ort.quantize.past.quantize_past_options:QuantizePastOptions"
    lossy = True
    goals = ("generate",)
    after = ("ort.quantize-dynamic", "ort.quantize-static", "ort.quantize-weights")
    hardware = "x86-64 with AVX2, better AVX512-VNNI; Arm"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If an attention appends to its past in place."""
        from optim_plugins.ort.quantize.past.past_scales import find_pasts

        return APPLICABLE if next(find_pasts(model.ir_to_read()), None) is not None else Applicable.no(_NO_PAST)

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizePastOptions]:
        """Eight bits: four were slower on processors, and drift more."""
        from optim_plugins.ort.quantize.past.quantize_past_options import QuantizePastOptions

        yield QuantizePastOptions(bits=8)

    def keepable(self, model: Model, options: QuantizePastOptions) -> list[str]:
        """Every attention with a past."""
        from optim_plugins.ort.quantize.past.past_scales import find_pasts

        return [one.name for one in find_pasts(model.ir_to_read())]

    def apply(self, model: Model, options: QuantizePastOptions, context: Context) -> PassResult:
        """Write the past of every attention that is not kept in integers."""
        from optim import Interface
        from optim_plugins.ort.quantize.past.past_scales import find_pasts

        graph = model.ir()
        found = list(find_pasts(graph))
        notes = _unknown(options, {one.name for one in found})
        chosen = [one for one in found if one.name not in options.keep]
        measured = _measure(model, chosen, options.bits, context)
        scales: dict[str, dict[str, list[list[float]]]] = {"inputs": {}, "outputs": {}}
        for one in chosen:
            both = measured.get(one.name)
            if both is None:
                notes += (f"left in float, no sample shows its keys and values: {one.name}",)
                continue
            for place, scale in zip((3, 4), both, strict=True):
                past, present = one.value(place), one.node.outputs[place - 2]
                scales["inputs"][past.name or ""] = scales["outputs"][present.name or ""] = scale.tolist()
            _write(graph, one, both, options.bits)
        if not scales["inputs"]:
            return PassResult(model, changed=False, notes=notes or ("no past is left to quantize",))
        interface = Interface(f"{_MODULE}:integers_of", f"{_MODULE}:floats_of", {**scales, "bits": options.bits})
        counts = {"pasts quantized": len(scales["inputs"]), "left in float": 2 * len(found) - len(scales["inputs"])}
        return PassResult(context.save(graph, model), changed=True, notes=notes, counts=counts, interface=interface)


def _unknown(options: QuantizePastOptions, names: set[str]) -> tuple[str, ...]:
    unknown = sorted(set(options.keep) - names)
    return (f"keep names no attention with a past: {', '.join(unknown)}",) if unknown else ()


def _measure(
    model: Model, attentions: list[Attention], bits: int, context: Context
) -> dict[str, tuple[Floats, Floats]]:
    """Scales of keys and of values, [heads, size], by the name of an attention; of each that a sample shows."""
    from optim_plugins.ort.measure.captured_values import capture
    from optim_plugins.ort.quantize.past.past_scales import KEYS, VALUES, Extremes, rotation_of

    if not attentions:
        return {}
    seen: dict[str, tuple[Extremes, Extremes]] = {}
    names = {one.value(place).name or "" for one in attentions for place in (*KEYS, *VALUES)}
    for values in capture(model.ir(), sorted(names), model, context):
        for one in attentions:
            size = values[one.value(3).name or ""].shape[-1]
            if one.name not in seen:
                seen[one.name] = (Extremes(rotation_of(one, size)), Extremes(None))
            for places, extremes in zip((KEYS, VALUES), seen[one.name], strict=True):
                fresh, past = (values[one.value(place).name or ""] for place in places)
                extremes.see(fresh.reshape(*fresh.shape[:2], one.heads, size).swapaxes(1, 2))
                extremes.see(past)
    scales = {name: tuple(extremes.scales(bits) for extremes in both) for name, both in seen.items()}
    return {name: (key, value) for name, (key, value) in scales.items() if key is not None and value is not None}


def _write(graph: ir.Model, one: Attention, scales: tuple[Floats, Floats], bits: int) -> None:
    """Let an attention hold its past in integers."""
    import onnx_ir as ir

    from optim.onnx import UniqueNames, add_constant

    node, names = one.node, UniqueNames(graph)
    node.resize_inputs(_VALUE_SCALE + 1)
    for place, scale, letter in zip((_KEY_SCALE, _VALUE_SCALE), scales, "kv", strict=True):
        name = names.take(f"{one.name}_{letter}_scale")
        node.replace_input_with(place, add_constant(graph.graph, name, scale[None, :, None]))
        node.attributes[f"{letter}_quant_type"] = ir.AttrString(f"{letter}_quant_type", "PER_CHANNEL")
    node.attributes["kv_cache_bit_width"] = ir.AttrInt64("kv_cache_bit_width", bits)
    kind = ir.TensorType(ir.DataType.INT8 if bits == 8 else ir.DataType.UINT8)
    for value in (one.value(3), one.value(4), *node.outputs[1:3]):
        value.type = kind
        if value.shape is not None and bits == 4:
            shape = list(value.shape)
            value.shape = ir.Shape([*shape[:3], scales[0].shape[1] // 2])
