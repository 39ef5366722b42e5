"""``ort.convert-opset``: the same model in another version of the standard operators.

Before, opset 11::

    y = ReduceSum(x, axes=[1])              z = Squeeze(y, axes=[0])

After, opset 17::

    y = ReduceSum(x, [1])                   z = Squeeze(y, [0])

Some passes need newer operators. Quantization per channel and bfloat16 came with opset 13, quantization to 16 bits with
opset 21. The conversion is that of onnxscript, or of onnx for an opset that onnxscript does not convert. The pass reads
no weights. Operators of other domains stay as they are. The pass does not convert an operator that the version lacks,
or that has no kernel in this onnxruntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Role, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim_plugins.ort.prepare.convert_opset_options import ConvertOpsetOptions

_ENOUGH = 13
_MODERN = 17


class ConvertOpset(Pass):
    """Another version of the standard operators."""

    name = "ort.convert-opset"
    summary = "converts to another version of the standard operators, because other passes need it"
    options = "optim_plugins.ort.prepare.convert_opset_options:ConvertOpsetOptions"
    role = Role.ENABLE
    before = ("ort.clean", "ort.fuse-transformer")

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the model has standard operators."""
        return APPLICABLE if "" in model.opset else Applicable.no("the model has no standard operators")

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """Where the model is too old for some pass."""
        if model.opset[""] < _ENOUGH:
            return APPLICABLE
        return Applicable.no(f"the model has opset {model.opset['']}; no pass needs more than {_ENOUGH}")

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[ConvertOpsetOptions]:
        """A version that all passes can use, and that converters reach from afar."""
        from optim_plugins.ort.prepare.convert_opset_options import ConvertOpsetOptions

        yield ConvertOpsetOptions(to=_MODERN) if model.opset[""] < _MODERN else ConvertOpsetOptions()

    def apply(self, model: Model, options: ConvertOpsetOptions, context: Context) -> PassResult:
        """Convert, or say why that does not go."""
        from optim.onnx import runtime_limits
        from optim_plugins.ort.graph.opened_graph import refusal
        from optim_plugins.ort.kernels import CPU_PROVIDER
        from optim_plugins.ort.prepare.converted_graph import convert_graph

        version, newest = model.opset[""], runtime_limits().opset[""]
        if options.to == version:
            return PassResult(model, changed=False, notes=(f"the model has opset {version} already",))
        if options.to > newest:
            note = f"this onnxruntime accepts opset {newest} at most, and {options.to} was given"
            return PassResult(model, changed=False, notes=(note,))
        graph = model.ir()
        is_asked = context.target.provider == CPU_PROVIDER and not refusal(graph)
        reason = convert_graph(graph, options.to) or (refusal(graph) if is_asked else "")
        if reason:
            note = f"opset {version} cannot be converted to {options.to}: {reason}"
            return PassResult(model, changed=False, notes=(note,))
        counts = {"opset before": version, "opset after": options.to}
        return PassResult(context.save(graph, model), changed=True, counts=counts)
