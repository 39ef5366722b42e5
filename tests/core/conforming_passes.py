"""Passes that the kit is tried on: two that hold every promise, and for each promise one that breaks it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from optim import APPLICABLE, Applicable, Interface, Pass, PassResult, SessionConfig

_times = itertools.count()


def without(graph, operator):
    import onnx_ir as ir

    found = [node for node in graph.graph if node.op_type == operator]
    for node in found:
        ir.convenience.replace_all_uses_with(node.outputs[0], node.inputs[0])
        graph.graph.remove(node, safe=True)
    return len(found)


class Good(Pass):
    """Removes Identity nodes."""

    name = "good.drop-identities"
    summary = "Removes Identity nodes."

    def applicable(self, model, target):
        inside = any(node.op_type == "Identity" and not node.outputs[0].is_graph_output() for node in model.ir().graph)
        return APPLICABLE if inside else Applicable.no("there is no Identity inside the graph")

    def apply(self, model, options, context):
        graph = model.ir()
        count = without(graph, "Identity")
        self.damage(graph)
        return PassResult(context.save(graph, model), True, counts={"Identity removed": count})

    def damage(self, graph):
        """For the bad ones."""


class GoodLossy(Pass):
    """Rounds the weights of MatMul."""

    name = "good.round-weights"
    summary = "Rounds weights."
    options = "conforming_options:RoundOptions"
    lossy = True

    def applicable(self, model, target):
        return APPLICABLE if self.keepable(model, None) else Applicable.no("there is no MatMul with a weight")

    def keepable(self, model, options):
        return [node.name for node in model.ir().graph if node.op_type == "MatMul" and node.inputs[1].const_value]

    def apply(self, model, options, context):
        import numpy as np
        import onnx_ir as ir

        graph, count = model.ir(), 0
        for node in graph.graph:
            if node.op_type == "MatMul" and node.inputs[1].const_value and node.name not in options.keep:
                weight = node.inputs[1].const_value.numpy()
                step = np.abs(weight).max() / 2 ** (options.bits - 1)
                node.inputs[1].const_value = ir.tensor(np.round(weight / step) * step, name=node.inputs[1].name)
                count += 1
        if not count:
            return PassResult(model, False, ("every MatMul is kept",))
        return PassResult(context.save(graph, model), True, counts={"MatMul": count})


class NeverFires(Good):
    def apply(self, model, options, context):
        return PassResult(model, False, ("not today",))


class SaysChanged(Good):
    def apply(self, model, options, context):
        return PassResult(model, True, counts={"Identity removed": 1})


class DeclinesWithoutReason(Good):
    def applicable(self, model, target):
        return Applicable(super().applicable(model, target).yes, "")


class MutatesInput(Good):
    def apply(self, model, options, context):
        result = super().apply(model, options, context)
        with Path(model.path).open("ab") as stream:
            stream.write(b"\x42\x00")
        return result


class NotIdempotent(Good):
    def applicable(self, model, target):
        return APPLICABLE if len(model.ir().graph) > 1 else Applicable.no("it is too short")

    def damage(self, graph):
        import numpy as np
        import onnx_ir as ir

        output = graph.graph.outputs[0]
        last = output.producer()
        inside = ir.Value(name=f"before_{output.name}_{len(graph.graph)}", type=output.type, shape=output.shape)
        node = ir.Node("", last.op_type, list(last.inputs), list(last.attributes.values()), outputs=[inside])
        graph.graph.insert_before(last, node)
        zero = ir.Value(name=f"zero_{len(graph.graph)}", const_value=ir.tensor(np.float32(0)))
        graph.graph.initializers[zero.name] = zero
        graph.graph.append(added := ir.Node("", "Add", [last.outputs[0], zero], name=f"plus_{len(graph.graph)}"))
        last.outputs[0].name, added.outputs[0].name = f"inner_{len(graph.graph)}", output.name
        added.outputs[0].type, added.outputs[0].shape = output.type, output.shape
        graph.graph.outputs[0] = added.outputs[0]
        graph.graph.remove(node)


class RenamesOutput(Good):
    def damage(self, graph):
        graph.graph.outputs[0].name = "renamed"


class RaisesOpset(Good):
    def damage(self, graph):
        graph.opset_imports[""] += 1


class Wrong(Good):
    def damage(self, graph):
        import numpy as np
        import onnx_ir as ir

        name = next(name for name, value in graph.graph.initializers.items() if value.const_value.size > 1000)
        value = graph.graph.initializers[name]
        value.const_value = ir.tensor(value.const_value.numpy() * np.float32(1.01), name=name)


class UndocumentedOption(Good):
    options = "conforming_options:BareOptions"


class MisspeltOrder(Good):
    before = ("ort/quantize_dynamic",)


class BeforeAndAfter(Good):
    before = ("ort.quantize-dynamic",)
    after = ("ort.quantize-dynamic",)


class NeverTheSame(Good):
    def damage(self, graph):
        graph.metadata_props["time"] = str(next(_times))


class KnowsItsProcess(Good):
    def damage(self, graph):
        graph.metadata_props["process"] = str(os.getpid())


class ForeignCandidates(Good):
    def candidates(self, model, target, context):
        return [{"strength": 1}]


class KeepsNothing(GoodLossy):
    def apply(self, model, options, context):
        return super().apply(model, options.model_copy(update={"keep": ()}), context)


class BadName(Good):
    name = "DropIdentities"


class SecretTuner(Good):
    session_only = True


class InterfaceOfNobody(RenamesOutput):
    def apply(self, model, options, context):
        found = super().apply(model, options, context)
        interface = Interface(outputs="optim.passes:no_such_function")
        return PassResult(found.model, True, counts=found.counts, interface=interface)


class Tuner(Pass):
    """One thread."""

    name = "good.one-thread"
    summary = "Runs on one thread."
    session_only = True

    def applicable(self, model, target):
        return APPLICABLE

    def apply(self, model, options, context):
        if model.session.session_options.get("intra_op_num_threads") == 1:
            return PassResult(model, False, ("it runs on one thread",))
        return PassResult(model.with_session(SessionConfig({"intra_op_num_threads": 1})), True, ("one thread",))
