"""``object-detection``: an image in; boxes out, after non-maximum suppression, in pixels of the image that came in.

Models of the YOLO family: one image [1, 3, h, w], whose shape the letterbox keeps; an output of *rows*
[1, boxes, 4 + 1 + classes] or of *columns* [1, 4 + classes, boxes], boxes by centre, width and height.
"""

from __future__ import annotations

from optim import TensorInfo
from optim_prepost.plans.plan import Link, PlannedStep, PlanResult, StepPlan
from optim_prepost.plans.settings import read_labels
from optim_prepost.presets.images import IMAGE, first_steps, image_input, number_steps, scores_output
from optim_prepost.presets.request import Request, shape_text

_BOX, _CONFIDENCE = 4, 1
_PAD = 114
"""Grey of the canvas, as the YOLO family pads."""


def make_plan(request: Request) -> StepPlan:
    """``[decode] -> fit -> letterbox -> model -> boxes and scores -> suppression -> scale back``."""
    image = image_input(request)
    port, first = first_steps(request)
    size = [image.height, image.width]
    fit = [
        PlannedStep("ResizeImage", {"size": size, "policy": "fit"}, "Fit"),
        PlannedStep("LetterBox", {"target_shape": size, "fill_value": _PAD}),
    ]
    labels = read_labels(request.options.labels, request.settings)
    task = {"labels": list(labels), "input": request.kind("bytes", "pixels")}
    return StepPlan(
        (port,),
        (*first, *fit, *number_steps(request, image)),
        _box_steps(request, len(labels)),
        (PlanResult("boxes", "Scaled"),),
        request.options.target_opset,
        "object-detection",
        task,
    )


def _box_steps(request: Request, named: int) -> tuple[PlannedStep, ...]:
    options = request.options
    info = scores_output(request, 0, 3, "[1, boxes, 4 + 1 + classes] or [1, 4 + classes, boxes]")
    columns = _is_columns(request, info)
    classes = _classes(request, info, columns, named)
    if columns:
        split = {"num_outputs": 2, "axis": -1, "splits": [_BOX, classes]}
        rows = [PlannedStep("Transpose", {"perms": [1, 0]}), PlannedStep("Split", split)]
    else:
        rows = [PlannedStep("SplitOutBoxAndScoreWithConf", {"num_classes": classes})]
    suppress = {
        "iou_threshold": options.iou_threshold,
        "score_threshold": options.score_threshold,
        "max_boxes_per_class": options.max_detections,
        "max_detections": options.max_detections,
    }
    return (
        PlannedStep("Squeeze", {"axes": [0]}),
        *rows,
        PlannedStep("SelectBestBoundingBoxesByNMS", suppress),
        PlannedStep(
            "ScaleNMSBoundingBoxesAndKeyPoints",
            {},
            "Scaled",
            (Link(IMAGE, 0, 1), Link("Fit", 0, 2), Link("LetterBox", 0, 3)),
        ),
    )


def _is_columns(request: Request, info: TensorInfo) -> bool:
    if request.options.box_layout != "auto":
        return request.options.box_layout == "columns"
    sizes = info.shape[1:] if info.shape else ()
    if len(sizes) != 2 or not all(isinstance(size, int) for size in sizes):
        raise request.unfit(
            f"output '{info.name}' is {shape_text(info)}: its sizes do not tell rows from columns; give box_layout"
        )
    first, last = sizes
    return int(first or 0) < int(last or 0)


def _classes(request: Request, info: TensorInfo, columns: bool, named: int) -> int:
    width = info.shape[1 if columns else 2] if info.shape else None
    beside = _BOX if columns else _BOX + _CONFIDENCE
    if not isinstance(width, int):
        if not named:
            raise request.unfit(f"output '{info.name}' is {shape_text(info)}: give labels, which say how many classes")
        return named
    if width <= beside:
        raise request.unfit(f"output '{info.name}' is {shape_text(info)}: nothing is left for classes beside the box")
    if named and named != width - beside:
        raise request.unfit(f"there are {named} labels; output '{info.name}' has {width - beside} classes")
    return width - beside
