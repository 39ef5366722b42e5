"""``qnn.convert-float16``: the whole graph in float16.

Before::

    x -> MatMul(w) -> Softmax -> y                                          float32

After::

    x -> Cast -> MatMul(w as float16) -> Softmax -> Cast -> y               float16 between the Casts

HTP computes a float32 graph in float16 all the same, where the chip has float16 at all; converted, it is half the size
and does what it says. Constants beyond the range of float16 are brought to its ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Interface, Model, Pass, PassResult, Target
from optim_qnn.htp.soc import FIRST_WITH_FLOAT16, SOCS

if TYPE_CHECKING:
    from optim_qnn.precision.convert_float16_options import ConvertFloat16Options

_GRAPH = "optim_qnn.precision.float16_graph"


class ConvertFloat16(Pass):
    """Everything in float16."""

    name = "qnn.convert-float16"
    summary = "converts the whole graph to float16, which halves the size"
    options = "optim_qnn.precision.convert_float16_options:ConvertFloat16Options"
    lossy = True
    makes = "float16"
    hardware = "HTP v69 or later (Snapdragon 8 Gen 1, X Elite): earlier ones compute integers only"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the chip is known to support float16, and the model is not quantized."""
        if reason := _chip_against(target):
            return Applicable.no(reason)
        graph = model.ir()
        if any(node.op_type in ("QuantizeLinear", "EPContext") for node in graph.graph):
            return Applicable.no("the model is quantized, or compiled, already")
        constants = graph.graph.initializers.values()
        if not any(value.dtype is not None and value.dtype.name == "FLOAT" for value in constants):
            return Applicable.no("no constant is in float32")
        return APPLICABLE

    def apply(self, model: Model, options: ConvertFloat16Options, context: Context) -> PassResult:
        """Convert constants, types and Casts."""
        from optim_qnn.precision.float16_graph import narrowed

        graph = model.ir()
        counts = narrowed(graph, keep_io=not options.io)
        notes = (f"{counts['clipped']} constants were beyond the range of float16",) if counts["clipped"] else ()
        interface = None
        if options.io:
            types = {info.name: info.dtype for info in (*model.inputs, *model.outputs) if info.dtype == "float32"}
            interface = Interface(f"{_GRAPH}:feeds_float16", f"{_GRAPH}:outputs_float32", {"names": sorted(types)})
        return PassResult(context.save(graph, model), changed=True, notes=notes, counts=counts, interface=interface)


def _chip_against(target: Target) -> str:
    """Why the target's chip is not known to compute float16."""
    model = target.provider_options.get("soc_model", "")
    if target.backend == "qnn" and not model and not target.timed:
        return "float16 needs the chip: --target qnn:soc=sc8380xp"
    soc = next((soc for soc in SOCS if str(soc.model) == model), None)
    if soc is not None and soc.htp < FIRST_WITH_FLOAT16:
        return f"the HTP of {soc.sold_as} (v{soc.htp}) computes integers only; float16 came with v{FIRST_WITH_FLOAT16}"
    return ""
