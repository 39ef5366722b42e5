"""``segmentation``: an image in; the number of the class at each of its pixels out, uint8 [height, width]."""

from __future__ import annotations

from optim_prepost.plans.plan import Link, PlannedStep, PlanResult, StepPlan
from optim_prepost.plans.settings import read_labels
from optim_prepost.presets.images import IMAGE, first_steps, image_input, number_steps, resize_steps, scores_output
from optim_prepost.presets.request import Request

_MOST_CLASSES = 256


def make_plan(request: Request) -> StepPlan:
    """``[decode] -> resize -> normalize -> model -> scores at the image's size -> best class``."""
    image = image_input(request)
    port, first = first_steps(request)
    info = scores_output(request, 0, 4, "[1, classes, height, width]")
    classes = info.shape[1] if info.shape else None
    if isinstance(classes, int) and classes > _MOST_CLASSES:
        raise request.unfit(f"output '{info.name}' has {classes} classes; a map of uint8 holds {_MOST_CLASSES}")
    if request.options.resize == "shortest":
        raise request.unfit("it needs the whole image, and resize = 'shortest' crops: leave it out")
    labels = read_labels(request.options.labels, request.settings)
    post = (PlannedStep("ResizeScores", {}, "", (Link(IMAGE, 0, 1),)), PlannedStep("LabelMap"))
    return StepPlan(
        (port,),
        (*first, *resize_steps(request, image), *number_steps(request, image)),
        post,
        (PlanResult("label_map", "LabelMap"),),
        request.options.target_opset,
        "segmentation",
        {"labels": list(labels), "input": request.kind("bytes", "pixels")},
    )
