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
    from optim_qnn.compile.context_binary_options import ContextBinaryOptions


class ContextBinary(Pass):
    """The graph compiled for the target's chip."""

    name = "qnn.context-binary"
    summary = "compiles the graph for the chip of the target, and stores it inside the model or beside it"
    options = "optim_qnn.compile.context_binary_options:ContextBinaryOptions"
    role = Role.REQUESTED
    lossy = True  # only HTP opens what it makes, and computes float32 in float16 there
    hardware = "the chip that the target names (soc=...), or the one it runs on"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If a compiler is installed and the graph is not compiled yet."""
        if target.backend != "qnn":
            return Applicable.no("compiling needs onnxruntime-qnn: --target qnn")
        if any(node.op_type == "EPContext" for node in model.ir().graph):
            return Applicable.no("the model is compiled already")
        dynamic = [info.name for info in model.inputs if info.is_dynamic]
        return Applicable.no(f"input {dynamic[0]} is dynamic; qnn.preprocess fixes it") if dynamic else APPLICABLE

    def apply(self, model: Model, options: ContextBinaryOptions, context: Context) -> PassResult:
        """Compile in a process of its own."""
        from optim_qnn.compile.compiler import compiled

        path = compiled(model, options, context)
        after = context.adopt(path, model)
        nodes = list(after.ir().graph)
        parts = [node for node in nodes if node.op_type == "EPContext"]
        counts = {"EPContext": len(parts), "nodes left to the CPU": len(nodes) - len(parts)}
        sdk = next((node.attributes.get_string("ep_sdk_version", "") for node in parts), "")
        return PassResult(after, changed=True, counts=counts, notes=(_compiled_for(context.target, sdk or ""),))


def _compiled_for(target: Target, sdk: str) -> str:
    from optim_qnn.htp.soc import SOCS

    number = target.provider_options.get("soc_model", "")
    soc = next((soc for soc in SOCS if str(soc.model) == number), None)
    chip = f"{soc.sold_as} ({soc.name})" if soc else "the chip of this machine"
    version = f", QNN {sdk} or later" if sdk else ""
    chosen = (
        ""
        if not soc or "soc=" in target.name
        else (
            ", because no chip was named: --target qnn:soc=... compiles for yours, --without qnn.context-binary leaves "
            "compiling to the device"
        )
    )
    return f"compiled for {chip}{version}{chosen}"
