"""``qnn.context-binary``: the graph compiled for one chip, so that a device does not have to.

Before::

    x -> Q -> DQ -> Conv -> ... -> y                    compiled whenever a session is opened

After::

    x -> EPContext(ep_cache_context) -> y               compiled; for this chip and QNN of this version or later
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Role, Target

if TYPE_CHECKING:
    from optim_qnn.context_binary_options import ContextBinaryOptions


class ContextBinary(Pass):
    """The graph compiled for the target's chip."""

    name = "qnn.context-binary"
    summary = "the graph compiled for the target's chip, inside the model or beside it"
    options = "optim_qnn.context_binary_options:ContextBinaryOptions"
    role = Role.REQUESTED
    hardware = "the chip that the target names (soc=...), or the one it runs on"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Where there is a compiler, and a graph that is not compiled."""
        if target.backend != "qnn":
            return Applicable.no("compiling needs onnxruntime-qnn: --target qnn")
        if any(node.op_type == "EPContext" for node in model.ir().graph):
            return Applicable.no("the model is compiled already")
        dynamic = [info.name for info in model.inputs if info.is_dynamic]
        return Applicable.no(f"input {dynamic[0]} is dynamic; qnn.preprocess fixes it") if dynamic else APPLICABLE

    def apply(self, model: Model, options: ContextBinaryOptions, context: Context) -> PassResult:
        """Compile in a process of its own."""
        from optim_qnn.compiler import compiled

        path = compiled(model, options, context)
        after = context.adopt(path, model)
        kinds = [node.op_type for node in after.ir().graph]
        counts = {"EPContext": kinds.count("EPContext"), "nodes left to the CPU": len(kinds) - kinds.count("EPContext")}
        chip = context.target.provider_options.get("soc_model", "")
        notes = (f"compiled for soc_model {chip}",) if chip else ("compiled for the chip of this machine",)
        return PassResult(after, changed=True, counts=counts, notes=notes)
