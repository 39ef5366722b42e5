"""A vendor's lossy pass that knows nothing of repair but ``keep``: noise on the weights, waste left out.

``lossy.round`` adds noise to the weight of every MatMul of the useful chain that is not kept, of a strength by node,
and leaves group a out, so it is faster. ``overflow`` names nodes whose weights become infinite instead.
``lossy.gentle`` is an alternative with little noise, which leaves nothing out, so it is no faster.
``lossy.whole`` does the same, but only to a whole model: a graph cut into pieces makes it raise.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx_ir as ir
from pydantic import Field
from timed_models import without_group

from optim import APPLICABLE, Applicable, Pass, PassOptions, PassResult, hookimpl

OPTIM_HOOK_API = 1


class RoundOptions(PassOptions):
    strengths: dict[str, float] = Field({}, description="noise by node, relative to the weight's standard deviation")
    otherwise: float = Field(0.004, description="noise of the nodes that have none of their own")
    overflow: tuple[str, ...] = Field((), description="nodes whose weights become infinite")
    keep: tuple[str, ...] = Field((), description="names of nodes left alone")


def products(graph):
    return [node for node in graph.graph if node.op_type == "MatMul" and (node.name or "").startswith("useful")]


class Round(Pass):
    name, summary, lossy, options = "lossy.round", "add noise and leave group a out", True, RoundOptions
    makes = "noise"
    alternatives = "noise"
    proposed: ClassVar[dict] = {"strengths": {"useful_2_matmul": 0.3, "useful_4_matmul": 0.2}}

    def applicable(self, model, target):
        return APPLICABLE if products(model.ir()) else Applicable.no("there is no useful product")

    def candidates(self, model, target, context):
        return [RoundOptions(**self.proposed)]

    def keepable(self, model, options):
        return [node.name for node in products(model.ir())]

    def apply(self, model, options, context):
        graph = model.ir()
        chosen = [node for node in products(graph) if node.name not in options.keep]
        if not chosen:
            return PassResult(model, False, ("everything is kept",))
        without_group(graph, "a")
        for node in chosen:
            weight = node.inputs[1]
            array = weight.const_value.numpy()
            strength = options.strengths.get(node.name, options.otherwise)
            seed = sum(node.name.encode())
            noise = np.random.default_rng(seed).standard_normal(array.shape) * array.std() * strength
            new = np.full_like(array, np.inf) if node.name in options.overflow else (array + noise).astype(array.dtype)
            weight.const_value = ir.tensor(new, name=weight.name)
        return PassResult(context.save(graph, model), True)


class Overflow(Round):
    name, summary, makes = "lossy.overflow", "one node becomes infinite", "infinity"
    proposed: ClassVar[dict] = {"overflow": ["useful_3_matmul"]}


class Gentle(Pass):
    name, summary, lossy, alternatives = "lossy.gentle", "hardly any noise", True, "noise"

    def applicable(self, model, target):
        return APPLICABLE

    def apply(self, model, options, context):
        graph = model.ir()
        weight = products(graph)[0].inputs[1]
        weight.const_value = ir.tensor(weight.const_value.numpy() * np.float32(1.001), name=weight.name)
        return PassResult(context.save(graph, model), True)


class Whole(Round):
    name, summary, makes = "lossy.whole", "will not have a model in pieces", ""

    def apply(self, model, options, context):
        if not any(node.name == "y_end" for node in model.ir().graph):
            raise ValueError("this is no whole model")
        return super().apply(model, options, context)


class Rare(Round):
    """Noise that only samples with something in the last of their columns meet, at ``useful_0_matmul``."""

    name, summary, makes = "lossy.rare", "noise that few samples meet", ""
    proposed: ClassVar[dict] = {"otherwise": 0.001}

    def apply(self, model, options, context):
        graph = model.ir()
        if "useful_0_matmul" in options.keep:
            return super().apply(model, options, context)
        weight = next(node for node in products(graph) if node.name == "useful_0_matmul").inputs[1]
        array = weight.const_value.numpy().copy()
        array[-1] *= 3
        weight.const_value = ir.tensor(array, name=weight.name)
        return super().apply(context.save(graph, model), options, context)


@hookimpl
def optim_quantize(target):
    return [Round, Overflow, Gentle, Whole, Rare]
