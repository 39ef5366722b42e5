"""A plugin whose passes really make the network of ``timed_models`` faster, by leaving out what is wasted.

| stage        | pass                 | what it does                                                       |
|--------------|----------------------|--------------------------------------------------------------------|
| fuse         | timed.drop-a         | leaves group a out                                                 |
| fuse         | timed.make-way       | enables: a node that timed.drop-b looks for                        |
| fuse         | timed.pointless      | enables: a node that nobody looks for                              |
| quantize     | timed.drop-b         | leaves group b out; needs the way                                  |
| quantize     | timed.round          | lossy: leaves group c out and adds noise of the strength it is told |
| quantize     | timed.round-heavily  | lossy alternative to it: more noise than any budget                |
| post-process | timed.rename         | when asked for: output y is called result                          |
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx_ir as ir
from pydantic import Field
from timed_models import without_group

from optim import APPLICABLE, Applicable, Pass, PassOptions, PassResult, hookimpl
from optim.passes import Interface, Role

OPTIM_HOOK_API = 1


def has_node(model, name):
    return any(node.name == name for node in model.ir().graph)


class Drop(Pass):
    """Leaves out the group that a subclass names."""

    group: ClassVar[str]
    needs: ClassVar[str] = ""

    def applicable(self, model, target):
        if not has_node(model, f"{self.group}_add"):
            return Applicable.no(f"there is no group {self.group}")
        if self.needs and not has_node(model, self.needs):
            return Applicable.no(f"there is no {self.needs}")
        return APPLICABLE

    def apply(self, model, options, context):
        graph = model.ir()
        removed = without_group(graph, self.group)
        return PassResult(context.save(graph, model), True, counts={"nodes removed": removed})


class DropA(Drop):
    name, summary, group = "timed.drop-a", "leave group a out", "a"


class DropB(Drop):
    name, summary, group, needs = "timed.drop-b", "leave group b out", "b", "way"


class Way(Pass):
    """Puts a node before the end that does nothing."""

    name, summary, role = "timed.make-way", "make way for timed.drop-b", Role.ENABLE
    node = "way"

    def applicable(self, model, target):
        return Applicable.no(f"it has a {self.node}") if has_node(model, self.node) else APPLICABLE

    def apply(self, model, options, context):
        graph = model.ir()
        end = next(node for node in graph.graph if node.name == "y_end")
        node = ir.node("Identity", [end.inputs[0]], name=self.node)
        graph.graph.insert_before(end, [node])
        end.replace_input_with(0, node.outputs[0])
        return PassResult(context.save(graph, model), True)


class Pointless(Way):
    name, summary = "timed.pointless", "make way for nobody"
    node = "pointless"


class RoundOptions(PassOptions):
    strength: float = Field(0.02, gt=0, description="noise, relative to the weight's standard deviation")


class Round(Pass):
    name, summary, lossy = "timed.round", "add noise and leave group c out", True
    options = RoundOptions
    alternatives = "round"
    strengths: ClassVar[tuple[float, ...]] = (0.02,)

    def applicable(self, model, target):
        return APPLICABLE if has_node(model, "c_add") else Applicable.no("there is no group c")

    def candidates(self, model, target, context):
        return [RoundOptions(strength=strength) for strength in self.strengths]

    def apply(self, model, options, context):
        graph = model.ir()
        without_group(graph, "c")
        weight = graph.graph.initializers["useful_1_weight"]
        array = weight.const_value.numpy()
        noise = np.random.default_rng(0).standard_normal(array.shape) * array.std() * options.strength
        weight.const_value = ir.tensor((array + noise).astype(array.dtype), name=weight.name)
        return PassResult(context.save(graph, model), True)


class RoundHeavily(Round):
    name, summary = "timed.round-heavily", "add more noise than anybody wants"
    strengths = (0.3, 0.6)


class Rename(Pass):
    name, summary, role = "timed.rename", "call the output result", Role.REQUESTED

    def applicable(self, model, target):
        return APPLICABLE

    def apply(self, model, options, context):
        graph = model.ir()
        graph.graph.outputs[0].name = "result"
        interface = Interface(outputs="lane_interfaces:rename", parameters={"result": "y"})
        return PassResult(context.save(graph, model), True, interface=interface)


@hookimpl
def optim_fuse(target):
    return [Pointless, Way, DropA]


@hookimpl
def optim_quantize(target):
    return [RoundHeavily, Round, DropB]


@hookimpl
def optim_post_process(target):
    return [Rename]
