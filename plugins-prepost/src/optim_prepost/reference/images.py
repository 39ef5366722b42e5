"""Counterparts of steps on images: Pillow decodes and resizes, NumPy in float64 does the rest."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from optim_prepost.reference.arrays import Array, Arrays

_FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "nearest": Image.Resampling.NEAREST,
}
_LUMA = np.array([[0.299, 0.587, 0.114], [-0.299 / 1.772, -0.587 / 1.772, 0.5], [0.5, -0.587 / 1.402, -0.114 / 1.402]])
_RGB = np.array([[1, 0, 1.402], [1, -0.114 * 1.772 / 0.587, -0.299 * 1.402 / 0.587], [1, 1.772, 0]])


def convert_image_to_bgr(image: Array, name: str | None = None) -> Arrays:
    """The bytes of a file as pixels [h, w, 3], blue first."""
    with Image.open(io.BytesIO(image.tobytes())) as opened:
        return (np.asarray(opened.convert("RGB"))[..., ::-1],)


def convert_bgr_to_image(pixels: Array, image_format: str = "jpg", name: str | None = None) -> Arrays:
    """Pixels [h, w, 3], blue first, as the bytes of a file. Two encoders never give the same bytes: see ``decoded``."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels[..., ::-1])).save(stream, "PNG" if image_format == "png" else "JPEG")
    return (np.frombuffer(stream.getvalue(), np.uint8),)


def resize(
    image: Array, resize_to: Any, layout: str = "HWC", policy: str = "not_smaller", name: str | None = None
) -> Arrays:
    """To at least, or at most, a height and a width; the shape of the image stays."""
    wanted = np.broadcast_to(np.asarray(resize_to, dtype=np.float64), (2,))
    last = {"HWC": (0, 1), "NHWC": (1, 2), "CHW": (1, 2), "NCHW": (2, 3), "HW": (0, 1)}[layout]
    given = np.array([image.shape[axis] for axis in last], dtype=np.float64)
    ratio = (wanted / given).max() if policy == "not_smaller" else (wanted / given).min()
    height, width = np.rint((given * ratio).astype(np.float32)).astype(int)
    planes = np.moveaxis(image, last, (-2, -1))
    flat = planes.reshape(-1, *planes.shape[-2:])
    done = np.stack([_scaled(plane, height, width, "bilinear") for plane in flat])
    return (np.moveaxis(done.reshape(*planes.shape[:-2], height, width), (-2, -1), last),)


def resize_image(
    image: Array, size: Sequence[int], policy: str = "exact", interpolation: str = "bilinear", name: str | None = None
) -> Arrays:
    """To an exact size, or so that the shortest edge has a length and the other rounds down."""
    height, width = size[0], size[-1]
    if policy == "shortest":
        short = min(image.shape[:2])
        height, width = (int(size[0] * edge / short) for edge in image.shape[:2])
    if policy == "fit":
        edges = np.array(image.shape[:2], dtype=np.float32)
        ratio = (np.array([height, width], dtype=np.float32) / edges).min()
        height, width = np.rint(edges * ratio).astype(int).tolist()
    planes = [_scaled(image[..., channel], height, width, interpolation) for channel in range(image.shape[2])]
    return (np.stack(planes, axis=-1),)


def center_crop(image: Array, height: int, width: int, name: str | None = None) -> Arrays:
    """The middle of [h, w, c]; of two middles the upper left."""
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    return (image[top : top + height, left : left + width],)


def letter_box(
    image: Array, target_shape: Any, fill_value: int = 0, layout: str = "HWC", name: str | None = None
) -> Arrays:
    """In the middle of a larger image of one colour."""
    pixels = image if layout == "HWC" else np.moveaxis(image, 0, -1)
    canvas = np.full((*target_shape, pixels.shape[-1]), fill_value, pixels.dtype)
    top, left = (int((canvas.shape[axis] - pixels.shape[axis]) / 2) for axis in (0, 1))
    canvas[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
    return (canvas if layout == "HWC" else np.moveaxis(canvas, -1, 0),)


def to_gray(rgb: Array, name: str | None = None) -> Arrays:
    """Pillow's own mode ``L``."""
    return (np.asarray(Image.fromarray(np.ascontiguousarray(rgb)).convert("L"))[..., None],)


def image_bytes_to_float(data: Array, rescale_factor: float = 1 / 255, name: str | None = None) -> Arrays:
    """Pixels times a factor."""
    return ((data.astype(np.float64) * rescale_factor).astype(np.float32),)


def float_to_image_bytes(data: Array, multiplier: float = 255.0, name: str | None = None) -> Arrays:
    """Numbers times a factor as pixels: rounded to even, kept inside 0..255."""
    return (np.clip(np.rint(data * np.float32(multiplier)), 0, 255).astype(np.uint8),)


def normalize(data: Array, normalization_values: Any, layout: str = "CHW", name: str | None = None) -> Arrays:
    """``(x - mean) / std`` of three channels."""
    values = list(normalization_values) * (3 if len(normalization_values) == 1 else 1)
    mean, std = zip(*values, strict=True)
    if layout == "CHW":
        return normalize_channels(data, mean, std)
    return (np.moveaxis(normalize_channels(np.moveaxis(data, -1, 0), mean, std)[0], 0, -1),)


def normalize_channels(data: Array, mean: Sequence[float], std: Sequence[float], name: str | None = None) -> Arrays:
    """``(x - mean) / std`` of each channel of [c, h, w]."""
    shape = (-1, 1, 1)
    wide = (data.astype(np.float64) - np.reshape(mean, shape)) / np.reshape(std, shape)
    return (wide.astype(np.float32),)


def pixels_to_y_cb_cr(pixels: Array, layout: str = "BGR", name: str | None = None) -> Arrays:
    """Luma and two colour planes, float, rounded and inside 0..255 (ITU-T T.871)."""
    rgb = pixels.astype(np.float32)[..., :: -1 if layout == "BGR" else 1]
    planes = rgb @ _LUMA.astype(np.float32).T + np.array([0, 128, 128], np.float32)
    rounded = np.clip(np.rint(planes), 0, 255).astype(np.float32)
    return tuple(rounded[..., channel] for channel in range(3))


def y_cb_cr_to_pixels(y: Array, cb: Array, cr: Array, layout: str = "BGR", name: str | None = None) -> Arrays:
    """Three planes as pixels [h, w, 3]."""
    planes = np.stack([y, cb, cr], axis=-1).astype(np.float32) - np.array([0, 128, 128], np.float32)
    rgb = np.clip(np.rint(planes @ _RGB.astype(np.float32).T), 0, 255).astype(np.uint8)
    return (rgb[..., :: -1 if layout == "BGR" else 1],)


def resize_scores(scores: Array, image: Array, name: str | None = None) -> Arrays:
    """Bilinear between the centres of places, no smoothing; [1, c, h, w] to the size of an image [h, w, c]."""
    down, right = (_between(scores.shape[axis], size) for axis, size in ((2, image.shape[0]), (3, image.shape[1])))
    return ((down @ scores.astype(np.float64) @ right.T).astype(np.float32),)


def label_map(scores: Array, name: str | None = None) -> Arrays:
    """The best class of each place of [1, c, h, w]."""
    return (scores[0].argmax(0).astype(np.uint8),)


def _scaled(plane: Array, height: int, width: int, interpolation: str) -> Array:
    """One channel through Pillow; floats are resized as floats."""
    mode = Image.fromarray(np.ascontiguousarray(plane))
    return np.asarray(mode.resize((int(width), int(height)), _FILTERS[interpolation]))


def _between(given: int, wanted: int) -> Array:
    """How much of each given place is in each wanted one, shape (wanted, given)."""
    centres = np.clip((np.arange(wanted) + 0.5) * given / wanted - 0.5, 0, given - 1)
    low = np.floor(centres).astype(int)
    high = np.minimum(low + 1, given - 1)
    weights = np.zeros((wanted, given))
    np.add.at(weights, (np.arange(wanted), low), 1 - (centres - low))
    np.add.at(weights, (np.arange(wanted), high), centres - low)
    return weights
