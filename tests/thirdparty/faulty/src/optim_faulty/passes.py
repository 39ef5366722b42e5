"""A pass that makes models faster, and so is tried in every run."""

from __future__ import annotations

from optim import APPLICABLE, Applicable, Interface, Pass, PassResult, Role
from optim_faulty.mistakes import happen


class Shrink(Pass):
    """Takes out what computes nothing."""

    name = "faulty.shrink"
    summary = "Takes out pairs of Neg."

    def applicable(self, model, target):
        """Where there are pairs."""
        return APPLICABLE if _pairs(model.ir_to_read()) else Applicable.no("there is no pair of Neg")

    def candidates(self, model, target, context):
        """One."""
        happen("candidates")
        return super().candidates(model, target, context)

    def apply(self, model, options, context):
        """Without the pairs."""
        import onnx_ir as ir

        happen("apply")
        graph = model.ir()
        pairs = _pairs(graph)
        for first, second in pairs:
            ir.convenience.replace_all_uses_with(second.outputs[0], first.inputs[0])
            graph.graph.remove([second, first], safe=True)
        for node in graph.graph:
            node.name = f"{node.name}_shrunk"
        return PassResult(context.save(graph, model), True, counts={"pairs of Neg": len(pairs)})


class FixBatch(Pass):
    """Fixes the batch."""

    name = "faulty.fix-batch"
    summary = "Fixes the batch at 2."
    role = Role.REQUESTED
    before = ("faulty.shrink",)

    def applicable(self, model, target):
        """Where a size is open."""
        return APPLICABLE if any(one.is_dynamic for one in model.inputs) else Applicable.no("its sizes are fixed")

    def inputs_for(self, options, model):
        """With a batch of 2."""
        from optim.onnx import fixed_inputs

        return fixed_inputs(model.inputs, {"batch": 2}, {})

    def apply(self, model, options, context):
        """The same graph with a batch of 2."""
        from optim.onnx import fix_dimensions

        graph = model.ir()
        fix_dimensions(graph, {"batch": 2})
        return PassResult(context.save(graph, model), True, counts={"inputs": 1}, interface=Interface())


def _pairs(graph):
    found, taken = [], set()
    for node in graph.graph:
        first = node.inputs[0].producer() if node.op_type == "Neg" else None
        if first is not None and first.op_type == "Neg" and first not in taken and len(first.outputs[0].uses()) == 1:
            found.append((first, node))
            taken |= {first, node}
    return found
