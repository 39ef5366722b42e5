"""``text-classification``: a text in; the best classes out, with probabilities, and names where they are known."""

from __future__ import annotations

from optim_prepost.plans.plan import StepPlan
from optim_prepost.presets.classification import class_steps
from optim_prepost.presets.request import Request
from optim_prepost.presets.texts import text_steps


def make_plan(request: Request) -> StepPlan:
    """``[tokenizer] -> model -> softmax -> top k -> labels``."""
    ports, pre, task = text_steps(request)
    post, results, classes = class_steps(request)
    return StepPlan(
        ports, tuple(pre), post, results, request.options.target_opset, "text-classification", {**task, **classes}
    )
