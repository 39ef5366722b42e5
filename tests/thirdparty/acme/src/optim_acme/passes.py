"""Acme's passes."""

from __future__ import annotations

from optim import APPLICABLE, Applicable, Pass, PassResult, SessionConfig


class DropPairs(Pass):
    """Neg(Neg(x)) is x."""

    name = "acme.drop-pairs"
    summary = "Removes pairs of Neg."
    after = ("ort.clean", "ort:*")
    before = ("ort.fuse-transformer",)

    def applicable(self, model, target):
        return APPLICABLE if pairs(model.ir()) else Applicable.no("there is no pair of Neg")

    def apply(self, model, options, context):
        import onnx_ir as ir

        graph = model.ir()
        found = pairs(graph)
        if not found:
            return PassResult(model, False, ("there is no pair of Neg",))
        for first, second in found:
            ir.convenience.replace_all_uses_with(second.outputs[0], first.inputs[0])
            graph.graph.remove([second, first], safe=True)
        return PassResult(context.save(graph, model), True, counts={"pairs of Neg": len(found)})


def pairs(graph):
    found = []
    taken = set()
    for node in graph.graph:
        first = node.inputs[0].producer() if node.op_type == "Neg" and node.inputs[0] is not None else None
        if first is None or first.op_type != "Neg" or first in taken or len(first.outputs[0].uses()) > 1:
            continue
        found.append((first, node))
        taken |= {first, node}
    return found


class Round(Pass):
    """Rounds weights."""

    name = "acme.round"
    summary = "Rounds the weights of MatMul."
    options = "optim_acme.options:RoundOptions"
    lossy = True
    alternatives = "quantize"
    after = ("ort.gemm-to-matmul",)

    def applicable(self, model, target):
        return APPLICABLE if self.keepable(model, None) else Applicable.no("there is no MatMul with a weight")

    def keepable(self, model, options):
        return [node.name for node in model.ir().graph if _has_weight(node)]

    def apply(self, model, options, context):
        import numpy as np
        import onnx_ir as ir

        graph = model.ir()
        count = 0
        for node in graph.graph:
            if not _has_weight(node) or node.name in options.keep:
                continue
            weight = node.inputs[1].const_value.numpy()
            step = np.abs(weight).max() / 2 ** (options.bits - 1)
            rounded = (np.round(weight / step) * step).astype(weight.dtype)
            if np.array_equal(rounded, weight):
                continue
            count += 1
            old, name = node.inputs[1], f"{node.name}_rounded"
            new = ir.Value(name=name, type=old.type, shape=old.shape, const_value=ir.tensor(rounded, name=name))
            graph.graph.register_initializer(new)  # who else reads the old one finds it as it was
            node.replace_input_with(1, new)
            if not old.uses():
                graph.graph.initializers.pop(old.name)
        if not count:
            return PassResult(model, False, ("every weight is round already, or kept",))
        return PassResult(context.save(graph, model), True, counts={"MatMul": count})


def _has_weight(node):
    """Whether it is a product with a constant; what is an input too has a default that each run may replace."""
    return node.op_type == "MatMul" and node.inputs[1].const_value is not None and not node.inputs[1].is_graph_input()


class Threads(Pass):
    """Sets the number of threads."""

    name = "acme.one-thread"
    summary = "Runs on one thread."
    session_only = True

    def applicable(self, model, target):
        return APPLICABLE

    def apply(self, model, options, context):
        if model.session.session_options.get("intra_op_num_threads") == 1:
            return PassResult(model, False, ("it runs on one thread",))
        return PassResult(model.with_session(SessionConfig({"intra_op_num_threads": 1})), True, ("one thread",))
