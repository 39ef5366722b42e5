"""``text-embedding``: a text in; one vector out, pooled over its tokens and of length 1 unless the settings say no."""

from __future__ import annotations

from optim_prepost.plans.plan import Link, PlannedStep, PlanResult, StepPlan
from optim_prepost.presets.images import scores_output
from optim_prepost.presets.request import Request
from optim_prepost.presets.texts import TOKENS, place_of, text_steps


def make_plan(request: Request) -> StepPlan:
    """``[tokenizer] -> model -> pool -> length 1``."""
    ports, pre, task = text_steps(request)
    scores_output(request, 0, 3, "hidden states [batch, tokens, size]")
    pooling = request.options.pooling or ("first" if request.settings.pooling.get("pooling_mode_cls_token") else "mean")
    if pooling == "mean":
        link = Link(TOKENS, place_of(request, "attention_mask"), 1)
        post = [PlannedStep("MeanPool", {}, "Pool", (link,))]
    else:
        post = [PlannedStep("FirstToken", {}, "Pool")]
    if _normalize(request):
        post.append(PlannedStep("UnitLength"))
    result = PlanResult("embedding", post[-1].name)
    return StepPlan(ports, tuple(pre), tuple(post), (result,), request.options.target_opset, "text-embedding", task)


def _normalize(request: Request) -> bool:
    if request.options.normalize is not None:
        return request.options.normalize
    modules = request.settings.modules
    return not modules or any(str(module.get("type", "")).endswith("Normalize") for module in modules)
