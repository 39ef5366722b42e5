"""The steps that all tasks on images begin with: from a file or from pixels to what the model takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optim import TensorInfo
from optim_prepost.plans.plan import PlannedStep, Port
from optim_prepost.presets.request import Request, shape_text

IMAGE = "Image"
"""Label of the step that gives RGB pixels [height, width, 3]."""

_RESAMPLE = {0: "nearest", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers, as preprocessor_config.json has them."""


@dataclass(frozen=True, slots=True)
class ImageInput:
    """The input of a model on images: [batch, channels, height, width]."""

    channels: int
    height: int
    width: int


def image_input(request: Request) -> ImageInput:
    """The model's input; sizes that the graph leaves open come from the options or the settings.

    Raises:
        OptimError[preset-does-not-fit]: it is no image.
    """
    info = request.inputs[0]
    if len(request.inputs) != 1 or info.shape is None or len(info.shape) != 4 or not info.dtype.startswith("float"):
        given = "; ".join(f"'{one.name}' {shape_text(one)}" for one in request.inputs)
        raise request.unfit(f"it takes one input [batch, channels, height, width] of floats; the model has {given}")
    if info.dtype != "float32":
        raise request.unfit(f"input '{info.name}' is {info.dtype}; the steps give float32")
    batch, channels, *edges = info.shape
    if isinstance(batch, int) and batch != 1:
        raise request.unfit(f"input '{info.name}' has a fixed batch of {batch}; the steps give one image")
    if channels not in (1, 3) and edges[-1] in (1, 3):
        raise request.unfit(
            f"input '{info.name}' {shape_text(info)} has its channels last, not [batch, channels, height, width]: "
            f"export it so (tf2onnx: --inputs-as-nchw {info.name})"
        )
    if channels not in (1, 3):
        raise request.unfit(f"input '{info.name}' {shape_text(info)} has {channels} channels, not 1 or 3")
    wanted = _crop_size(request) or _wanted_size(request)
    height, width = (
        edge if isinstance(edge, int) else wanted[place] if wanted else 0 for place, edge in enumerate(edges)
    )
    if not (height and width):
        raise request.unfit(f"input '{info.name}' {shape_text(info)} leaves its size open: give size = [height, width]")
    return ImageInput(int(channels), height, width)


def first_steps(request: Request) -> tuple[Port, list[PlannedStep]]:
    """From a file, or from pixels, to RGB pixels under the label :data:`IMAGE`."""
    name = request.port_name("image")
    if request.kind("bytes", "pixels") == "pixels":
        return Port(name, "uint8", ("height", "width", 3)), [PlannedStep("Identity", {}, IMAGE)]
    return Port(name, "uint8", ("num_bytes",)), [
        PlannedStep("ConvertImageToBGR"),
        PlannedStep("ReverseAxis", {"axis": 2, "dim_value": 3}, IMAGE),
    ]


def resize_steps(request: Request, image: ImageInput) -> list[PlannedStep]:
    """To the model's size: both edges at once, or the shortest edge and the middle."""
    options, given = request.options, request.settings.preprocessor
    interpolation = options.interpolation or _RESAMPLE.get(given.get("resample", 2), "bilinear")
    size = _wanted_size(request)
    policy = options.resize or _policy(request)
    if policy == "none":
        return []
    if policy == "exact":
        params: dict[str, Any] = {"size": [image.height, image.width], "interpolation": interpolation}
        return [PlannedStep("ResizeImage", params)]
    shortest = min(size) if size else max(image.height, image.width)
    if shortest < max(image.height, image.width):
        raise request.unfit(
            f"the shortest edge is resized to {shortest}, less than the model's {image.height}x{image.width}"
        )
    return [
        PlannedStep("ResizeImage", {"size": [shortest], "policy": "shortest", "interpolation": interpolation}),
        PlannedStep("CenterCrop", {"height": image.height, "width": image.width}),
    ]


def number_steps(request: Request, image: ImageInput) -> list[PlannedStep]:
    """From pixels of the right size to what the model takes: scaled, channels first, normalized, a batch of one."""
    options, given = request.options, request.settings.preprocessor
    scale = options.scale or (given.get("rescale_factor", 1 / 255) if given.get("do_rescale", True) else 1.0)
    mean, std = options.mean, options.std
    if mean is None and given.get("do_normalize", bool(given.get("image_mean"))):
        mean, std = tuple(given.get("image_mean", ())), tuple(given.get("image_std", ()))
    steps = [PlannedStep("ToGray")] if image.channels == 1 else []
    steps += [PlannedStep("ImageBytesToFloat", {"rescale_factor": scale}), PlannedStep("ChannelsLastToChannelsFirst")]
    if mean and std:
        if len(mean) not in (1, image.channels):
            raise request.unfit(f"mean has {len(mean)} values; the model's input has {image.channels} channels")
        times = image.channels if len(mean) == 1 else 1
        params = {"mean": list(mean) * times, "std": list(std) * times}
        steps.append(PlannedStep("NormalizeChannels", params))
    return [*steps, PlannedStep("Unsqueeze", {"axes": [0]})]


def scores_output(request: Request, place: int, rank: int, meaning: str) -> TensorInfo:
    """An output that must have so many dimensions.

    Raises:
        OptimError[preset-does-not-fit]: it has not.
    """
    if len(request.outputs) <= place:
        raise request.unfit(f"it needs {place + 1} outputs; the model has {len(request.outputs)}")
    info = request.outputs[place]
    if info.shape is not None and len(info.shape) != rank:
        raise request.unfit(f"output '{info.name}' is {shape_text(info)}; it needs {meaning}")
    if not info.dtype.startswith("float"):
        raise request.unfit(f"output '{info.name}' is {shape_text(info)}; it needs floats")
    return info


def _policy(request: Request) -> str:
    given = request.settings.preprocessor
    if given.get("do_resize") is False:
        return "none"
    size = given.get("size")
    return "shortest" if isinstance(size, dict) and "shortest_edge" in size else "exact"


def _wanted_size(request: Request) -> tuple[int, ...] | None:
    if request.options.size:
        size = request.options.size
        return (size[0], size[-1])
    return _edges(request.settings.preprocessor.get("size"))


def _crop_size(request: Request) -> tuple[int, ...] | None:
    given = request.settings.preprocessor
    return _edges(given.get("crop_size")) if given.get("do_center_crop") else None


def _edges(size: Any) -> tuple[int, ...] | None:
    if isinstance(size, dict):
        if "height" in size:
            return (int(size["height"]), int(size["width"]))
        size = size.get("shortest_edge")
    return (int(size), int(size)) if size else None
