"""``qnn.quantize``: integers with scales, as HTP computes.

Before::

    x -> MatMul(w) -> Softmax -> y                                                    float32

After::

    x -> Q -> DQ -> MatMul(w as int8 -> DQ) -> Q -> DQ -> Softmax -> Q -> DQ -> y     QDQ

onnxruntime's quantizer writes the graph, with its settings for QNN and those that HTP wants besides
(:mod:`optim_qnn.quantize.tensor_types`). Nodes in ``float_nodes`` and operators in ``float_operators`` stay in float,
which only an HTP with float16 runs. Nodes in ``keep`` compute at 16 bits among others at 8: what they are given is
converted before them, and what they give after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, OptimError, Pass, PassResult, Target
from optim.errors import unknown_name

if TYPE_CHECKING:
    from optim_qnn.quantize.quantize_options import QuantizeOptions


_QUANTIZED = ("Quantize", "QLinear", "Integer")
"""In the names of operators of every way to quantize."""


class Quantize(Pass):
    """Activations and weights as integers, for HTP."""

    name = "qnn.quantize"
    summary = "quantizes activations and weights to integers, with 16 bits for nodes that need them"
    options = "optim_qnn.quantize.quantize_options:QuantizeOptions"
    lossy = True
    calibrates = True
    alternatives = "qnn-precision"
    makes = "int8"
    kept = "at 16 bits"
    hardware = "any HTP; activations of 16 bits take longer than those of 8"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If shapes are fixed, the model has float values, and it is not quantized yet."""
        dynamic = [info.name for info in model.inputs if info.is_dynamic]
        if dynamic:
            return Applicable.no(f"input {dynamic[0]} is dynamic; qnn.preprocess fixes it")
        if any(not one.required for one in model.adapters):
            return Applicable.no(
                "its inputs for adapters have defaults, which onnxruntime's quantizer takes for weights; "
                "adapters.extract:required=true,rank=N makes inputs without them"
            )
        operators = {node.op_type for node in model.ir().graph}
        if "EPContext" in operators or any(part in name for name in operators for part in _QUANTIZED):
            return Applicable.no("the model is quantized, or compiled, already")
        return APPLICABLE if self.keepable(model, None) else Applicable.no("no node computes in float32")

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizeOptions]:
        """8 bits first: fastest, and the core repairs it with nodes at 16 bits; then 16 everywhere."""
        from optim_qnn.quantize.quantize_options import QuantizeOptions

        yield QuantizeOptions()
        yield QuantizeOptions(activations="uint16")

    def keepable(self, model: Model, options: QuantizeOptions | None) -> Sequence[str]:
        """Nodes that compute floats, where others have 8 bits."""
        from optim_qnn.quantize.tensor_types import computing_nodes, typed

        if options is not None and options.activations.endswith("16"):
            return ()
        graph = typed(model)
        if options is None:
            return computing_nodes(graph)
        left_out = {*options.float_nodes}
        left_out |= {node.name or "" for node in graph.graph if node.op_type in options.float_operators}
        return [name for name in computing_nodes(graph) if name not in left_out]

    def apply(self, model: Model, options: QuantizeOptions, context: Context) -> PassResult:
        """Calibrate on all samples, and write the quantized graph."""
        from optim_qnn.quantize.calibrated import quantized
        from optim_qnn.quantize.overrides import require_applied
        from optim_qnn.quantize.tensor_types import computing_nodes, typed

        named = typed(model)
        computing = set(computing_nodes(named))
        for option in ("keep", "float_nodes"):
            unknown = [name for name in getattr(options, option) if name not in computing]
            if unknown:
                raise OptimError(
                    "unknown-node",
                    f"'{unknown[0]}' in {option} is not a node that computes floats",
                    f"{option} takes names of nodes",
                    "optim qnn support MODEL lists the nodes",
                    "optim-plugin-qnn",
                )
        operators = {node.op_type for node in named.graph}
        for operator in options.float_operators:
            if operator not in operators:
                raise unknown_name("operator", operator, operators, fix="correct the name in float_operators")
        path = quantized(model, options, context)
        after = context.adopt(path, model)
        graph = after.ir()
        require_applied(graph, options.overrides)
        kinds = [node.op_type for node in graph.graph]
        counts = {"QuantizeLinear": kinds.count("QuantizeLinear"), "DequantizeLinear": kinds.count("DequantizeLinear")}
        if options.float_nodes or options.float_operators:
            floats = [n for n in named.graph if n.name in options.float_nodes or n.op_type in options.float_operators]
            counts["nodes in float"] = len(floats)
        if options.keep:
            counts["nodes at 16 bits"] = len(options.keep)
        made_up = "" if context.feeds_given else "calibrated on synthesized samples: give real ones with --data"
        opsets = [found.opset.get("", 0) for found in (model, after)]
        raised = f"opset {opsets[0]} became {opsets[1]}, which has 16 and 4 bits" if opsets[0] != opsets[1] else ""
        return PassResult(after, changed=True, counts=counts, notes=tuple(filter(None, (made_up, raised))))
