"""``image-classification``: an image in; the best classes out, with probabilities, and names where they are known."""

from __future__ import annotations

from optim_prepost.plans.plan import Link, PlannedStep, PlanResult, StepPlan
from optim_prepost.plans.settings import read_labels
from optim_prepost.presets.images import first_steps, image_input, number_steps, resize_steps, scores_output
from optim_prepost.presets.request import Request


def make_plan(request: Request) -> StepPlan:
    """``[decode] -> resize -> normalize -> model -> softmax -> top k -> labels``."""
    image = image_input(request)
    port, first = first_steps(request)
    post, results, task = class_steps(request)
    pre = (*first, *resize_steps(request, image), *number_steps(request, image))
    return StepPlan(
        (port,),
        pre,
        post,
        results,
        request.options.target_opset,
        "image-classification",
        {**task, "input": request.kind("bytes", "pixels")},
    )


def class_steps(request: Request) -> tuple[tuple[PlannedStep, ...], tuple[PlanResult, ...], dict[str, object]]:
    """From scores [1, classes] to the best classes."""
    info = scores_output(request, 0, 2, "[1, classes]")
    count = info.shape[1] if info.shape else None
    labels = read_labels(request.options.labels, request.settings)
    k = request.options.top_k
    if isinstance(count, int) and k > count:
        raise request.unfit(f"top_k is {k}; output '{info.name}' has {count} classes")
    if labels and isinstance(count, int) and len(labels) != count:
        raise request.unfit(f"there are {len(labels)} labels; output '{info.name}' has {count} classes")
    post = [PlannedStep("TopK", {"k": k}), PlannedStep("Identity", {"num_inputs": 2}, "Best")]
    results = [PlanResult("scores", "Best", 0), PlanResult("indices", "Best", 1)]
    if request.options.scores == "logits":
        post.insert(0, PlannedStep("Softmax"))
    if labels:
        post.append(PlannedStep("Labels", {"labels": list(labels)}, "", (Link("TopK", 1, 0),)))
        results.append(PlanResult("labels", "Labels"))
    return tuple(post), tuple(results), {"labels": list(labels), "top_k": k}
