"""Its passes do in a run what they must not; each one alone is tried on the original."""

import os
import time

from optim import APPLICABLE, Pass, PassResult, Target, hookimpl
from optim.onnx import OnnxRuntimeBackend

OPTIM_HOOK_API = 1


class Wreck(Pass):
    summary = "Breaks."
    alternatives = "wreck"

    def applicable(self, model, target):
        return APPLICABLE


class Raises(Wreck):
    name = "broken-run.raises"

    def apply(self, model, options, context):
        raise RuntimeError("no idea what to do")


class Aborts(Wreck):
    name = "broken-run.aborts"

    def apply(self, model, options, context):
        os.abort()


class Hangs(Wreck):
    name = "broken-run.hangs"

    def apply(self, model, options, context):
        time.sleep(600)


class Mutates(Wreck):
    name = "broken-run.mutates"

    def apply(self, model, options, context):
        with model.path.open("ab") as stream:
            stream.write(b"\x42\x00")
        return PassResult(model, False, ("nothing happened, it says",))


class Zeroes(Wreck):
    name = "broken-run.zeroes"

    def apply(self, model, options, context):
        import onnx_ir as ir

        graph = model.ir()
        for name, value in graph.graph.initializers.items():
            value.const_value = ir.tensor(0 * value.const_value.numpy(), name=name)
        return PassResult(context.save(graph, model), True, counts={"weights": 1})


class Forgets(Wreck):
    name = "broken-run.forgets"

    def apply(self, model, options, context):
        return None


class Device(OnnxRuntimeBackend):
    name = "wreck"


@hookimpl
def optim_backends():
    return (Device,)


@hookimpl
def optim_targets():
    return (Target("wreck", "wreck", "CPUExecutionProvider", prepares_for="wreck"),)


@hookimpl
def optim_fuse(target):
    return (Raises, Aborts, Hangs, Mutates, Zeroes, Forgets) if target.name == "wreck" else ()
