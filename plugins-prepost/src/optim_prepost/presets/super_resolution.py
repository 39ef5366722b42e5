"""``super-resolution``: an image in, a larger one out: a file natively, pixels for the web.

A model with one channel gets luma only, and the colours are resized beside it, as in the tutorial model of PyTorch; a
model with three channels gets RGB and gives it.
"""

from __future__ import annotations

from optim_prepost.plans.plan import Link, PlannedStep, PlanResult, StepPlan
from optim_prepost.presets.images import first_steps, image_input, number_steps, resize_steps, scores_output
from optim_prepost.presets.request import Request, shape_text


def make_plan(request: Request) -> StepPlan:
    """See the module."""
    image = image_input(request)
    port, first = first_steps(request)
    pixels = request.kind("bytes", "pixels") == "pixels"
    info = scores_output(request, 0, 4, "[1, channels, height, width]")
    sizes = info.shape or ()
    if sizes[1] not in (image.channels, None) and not isinstance(sizes[1], str):
        raise request.unfit(f"output '{info.name}' is {shape_text(info)}; the input has {image.channels} channels")
    if image.channels == 1:
        if not all(isinstance(size, int) for size in sizes[2:]):
            raise request.unfit(f"output '{info.name}' is {shape_text(info)}: fix its size, which the colours get")
        pre, post = _luma(request), _with_colours(int(sizes[2] or 0), int(sizes[3] or 0))
        last = "Pixels"
    else:
        numbers = number_steps(request, image)
        if any(step.kind == "NormalizeChannels" for step in numbers):
            raise request.unfit("its pixels are 0..1 before and after: leave mean and std out")
        pre, post, last = numbers, _rgb_back(), "Pixels"
    post += [] if pixels else _encoded(request)
    result = PlanResult("pixels", last) if pixels else PlanResult("image_file", "ConvertBGRToImage")
    return StepPlan(
        (port,),
        (*first, *resize_steps(request, image), *pre),
        tuple(post),
        (result,),
        request.options.target_opset,
        "super-resolution",
        {"input": "pixels" if pixels else "bytes"},
    )


def _luma(request: Request) -> list[PlannedStep]:
    return [
        PlannedStep("PixelsToYCbCr", {"layout": "RGB"}),
        PlannedStep("ImageBytesToFloat", {"rescale_factor": request.options.scale or 1 / 255}),
        PlannedStep("Unsqueeze", {"axes": [0, 1]}),
    ]


def _with_colours(height: int, width: int) -> list[PlannedStep]:
    size = [height, width]
    steps = [PlannedStep("Squeeze", {"axes": [0, 1]}), PlannedStep("FloatToImageBytes", {}, "Luma")]
    for place, name in ((1, "Blue"), (2, "Red")):
        link = (Link("PixelsToYCbCr", place, 0),)
        steps.append(PlannedStep("Resize", {"resize_to": size, "layout": "HW"}, f"Resize{name}", link))
        steps.append(PlannedStep("FloatToImageBytes", {"multiplier": 1.0}, name))
    links = (Link("Luma", 0, 0), Link("Blue", 0, 1), Link("Red", 0, 2))
    return [*steps, PlannedStep("YCbCrToPixels", {"layout": "RGB"}, "Pixels", links)]


def _rgb_back() -> list[PlannedStep]:
    return [
        PlannedStep("Squeeze", {"axes": [0]}),
        PlannedStep("Transpose", {"perms": [1, 2, 0]}),
        PlannedStep("FloatToImageBytes", {}, "Pixels"),
    ]


def _encoded(request: Request) -> list[PlannedStep]:
    return [
        PlannedStep("ReverseAxis", {"axis": 2, "dim_value": 3}, "Blue_first"),
        PlannedStep("ConvertBGRToImage", {"image_format": request.options.image_format}),
    ]
