"""A pass that makes models faster, and so is tried in every run."""

from __future__ import annotations

import itertools

from optim import APPLICABLE, Applicable, Interface, Pass, PassResult, Role
from optim_faulty.mistakes import happen, planted


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


class ShrinkInTime(Shrink):
    """Never takes two seconds, as its vendor knows."""

    name = "faulty.shrink-in-time"
    apply_limit_s = 2.0


class FixBatch(Pass):
    """Fixes the batch."""

    name = "faulty.fix-batch"
    summary = "Fixes the batch at 2."
    role = Role.REQUESTED
    before = ("faulty.shrink",)

    def applicable(self, model, target):
        """Where a size is open."""
        if planted("nothing", "apply"):  # no mistake: a pass may say it when it is applied
            return APPLICABLE
        return APPLICABLE if any(one.is_dynamic for one in model.inputs) else Applicable.no("its sizes are fixed")

    def inputs_for(self, options, model):
        """With a batch of 2."""
        from optim.onnx import fixed_inputs

        happen("inputs_for")
        return fixed_inputs(model.inputs, {"batch": 3 if planted("wrong", "inputs_for") else 2})

    def apply(self, model, options, context):
        """The same graph with a batch of 2."""
        from optim.onnx import fix_shapes

        happen("apply")
        if planted("nothing", "apply"):
            return PassResult(model, False, ("its sizes are fixed",))
        graph = model.ir()
        fix_shapes(graph, {"batch": 2})
        return PassResult(context.save(graph, model), True, counts={"inputs": 1}, interface=Interface())


class Break(Pass):
    """Cannot do its work."""

    name = "faulty.break"
    summary = "Breaks, where the device needs it."
    role = Role.REQUESTED

    def applicable(self, model, target):
        """Always."""
        return APPLICABLE

    def apply(self, model, options, context):
        """Not at all."""
        raise RuntimeError("the compiler ended with status 3")


class StoreBytes(Pass):
    """Weights in a byte each."""

    name = "faulty.store-bytes"
    summary = "Stores the weights of MatMul and Conv in a byte each."
    options = "optim_faulty.options:BytesOptions"
    lossy = True

    def applicable(self, model, target):
        """Where there are weights."""
        if planted("edit", "applicable"):
            for node in model.ir_to_read().graph:
                node.name = f"{node.name}_seen"
        return APPLICABLE if self.keepable(model, None) else Applicable.no("there is no MatMul or Conv with a weight")

    def candidates(self, model, target, context):
        """One."""
        happen("candidates")
        if planted("endless", "candidates"):
            return (self.default() for _ in itertools.count())
        return [self.default()]

    def default(self):
        """The options that it proposes."""
        from optim_faulty.options import BytesOptions

        return BytesOptions()

    def keepable(self, model, options):
        """Each of them."""
        return [node.name for node in model.ir_to_read().graph if _has_weight(node)]

    def apply(self, model, options, context):
        """Weights as integers, and nodes that make floats of them."""
        import numpy as np
        import onnx_ir as ir

        happen("apply")
        graph, count = model.ir(), 0
        for node in list(graph.graph):
            if not _has_weight(node) or node.name in options.keep:
                continue
            old = node.inputs[1]
            step = np.abs(old.const_value.numpy()).max() / (2 ** (options.bits - 1) - 1)
            stored = np.round(old.const_value.numpy() / step).astype(np.int8)
            whole = _constant(graph, f"{node.name}_whole", stored)
            scale = _constant(graph, f"{node.name}_scale", np.float32(step))
            cast = ir.node("Cast", [whole], {"to": ir.DataType.FLOAT}, name=f"{node.name}_cast")
            cast.outputs[0].name, cast.outputs[0].type = f"{node.name}_numbers", ir.TensorType(ir.DataType.FLOAT)
            widened = ir.node("Mul", [cast.outputs[0], scale], name=f"{node.name}_widened")
            widened.outputs[0].name, widened.outputs[0].type = f"{node.name}_float", ir.TensorType(ir.DataType.FLOAT)
            graph.graph.insert_before(node, [cast, widened])
            node.replace_input_with(1, widened.outputs[0])
            if not old.uses():
                graph.graph.initializers.pop(old.name)
            count += 1
        if not count:
            return PassResult(model, False, ("every MatMul is kept",))
        return PassResult(context.save(graph, model), True, counts={"MatMul": count})


def _constant(graph, name, array):
    import onnx_ir as ir

    value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
    value.type, value.shape = ir.TensorType(value.const_value.dtype), ir.Shape(array.shape)
    graph.graph.register_initializer(value)
    return value


def _has_weight(node):
    if node.op_type not in ("MatMul", "Conv"):
        return False
    return node.inputs[1].const_value is not None and not node.inputs[1].is_graph_input()


def _pairs(graph):
    found, taken = [], set()
    for node in graph.graph:
        first = node.inputs[0].producer() if node.op_type == "Neg" else None
        if first is not None and first.op_type == "Neg" and first not in taken and len(first.outputs[0].uses()) == 1:
            found.append((first, node))
            taken |= {first, node}
    return found
