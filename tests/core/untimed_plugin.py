"""A plugin with a target like a simulator: nothing can be timed on it, and it computes in less precision than a model.

| stage        | pass             | what it does                                                                     |
|--------------|------------------|----------------------------------------------------------------------------------|
| fuse         | untimed.prepare  | required by the target: a node without which the backend refuses the model        |
| quantize     | untimed.round    | lossy: noise of three strengths, the first beyond any budget; half of the weights |
| post-process | untimed.seal     | required by the target, and nothing needs it                                      |
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from pydantic import Field
from timed_models import without_group

from optim import APPLICABLE, Applicable, Pass, PassOptions, PassResult, Target, hookimpl
from optim.errors import ExitStatus, OptimError
from optim.onnx.backend import OnnxRuntimeBackend
from optim.passes import Role

OPTIM_HOOK_API = 1
REMARK = "ran on a simulator: its time says nothing"


def marked(model, name):
    graph = model.ir()
    graph.metadata_props[name] = "yes"
    return graph


class Marks(Pass):
    """Says yes to every model."""

    def applicable(self, model, target):
        return APPLICABLE


class Prepare(Marks):
    name, summary, role = "untimed.prepare", "make it run", Role.REQUESTED

    def apply(self, model, options, context):
        return PassResult(context.save(marked(model, "prepared"), model), True, notes=("prepared as the samples are",))


class Seal(Marks):
    name, summary, role = "untimed.seal", "the last step", Role.REQUESTED

    def apply(self, model, options, context):
        return PassResult(context.save(marked(model, "sealed"), model), True, counts={"sealed": 1})


class RoundOptions(PassOptions):
    strength: float = Field(0.0, ge=0, description="standard deviation of the noise, relative")


class Round(Pass):
    name, summary, options, lossy = "untimed.round", "noise in the weights", RoundOptions, True

    def applicable(self, model, target):
        there = any(node.name == "a_add" for node in model.ir().graph)
        return APPLICABLE if there else Applicable.no("it is done already")

    def candidates(self, model, target, context):
        yield from (RoundOptions(strength=strength) for strength in (10.0, 0.01, 0.001))

    def apply(self, model, options, context):
        graph = model.ir()
        without_group(graph, "a")
        for value in graph.graph.initializers.values():
            array = value.const_value.numpy()
            if array.ndim == 2:
                noise = 1 + options.strength * context.random.standard_normal(array.shape, dtype=np.float32)
                value.const_value = ir.tensor(array * noise, name=value.name)
        return PassResult(context.save(graph, model), True, counts={"rounded": 1})


class Simulator(OnnxRuntimeBackend):
    name = "simulator"

    def open(self, model, target):
        if "prepared" not in model.ir().metadata_props:
            raise OptimError("not-prepared", "the simulator takes what is prepared", status=ExitStatus.NOT_HELD)
        return super().open(model, target)

    def open_reference(self, model, target):
        return super().open(model, target)


def configured(settings):
    if set(settings) - {"chip"}:
        raise OptimError("unknown-chip", f"no setting {settings}", status=ExitStatus.USAGE)
    return target(settings.get("chip", ""))


def target(chip=""):
    return Target(
        "simulated",
        "simulator",
        "CPUExecutionProvider",
        device=f"simulator {chip}",
        timed=False,
        exact=False,
        remark=REMARK,
        requires=("untimed.prepare", "untimed.seal"),
        configure=configured,
    )


@hookimpl
def optim_targets():
    return (target(),)


@hookimpl
def optim_backends():
    return (Simulator,)


@hookimpl
def optim_fuse(target):
    return (Prepare,) if target.backend == "simulator" else ()


@hookimpl
def optim_quantize(target):
    return (Round,) if target.backend == "simulator" else ()


@hookimpl
def optim_post_process(target):
    return (Seal,) if target.backend == "simulator" else ()
