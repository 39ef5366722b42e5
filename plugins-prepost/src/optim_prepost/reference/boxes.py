"""Counterparts of steps on boxes: centre, width and height of each, in pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from optim_prepost.reference.arrays import Array, Arrays


def split_out_box_and_score_with_conf(rows: Array, num_classes: int, name: str | None = None) -> Arrays:
    """[boxes, 4 + 1 + classes] as boxes, and scores times the confidence that something is there."""
    return rows[:, :4], rows[:, 5 : 5 + num_classes] * rows[:, 4:5]


@dataclass(frozen=True, slots=True)
class _Suppression:
    """Parameters of the step, with its defaults."""

    iou_threshold: float = 0.5
    score_threshold: float = 0.67
    max_boxes_per_class: int = 100
    max_detections: int | None = None
    has_mask_data: bool = False
    name: str | None = None


def select_best_bounding_boxes_by_nms(
    boxes: Array, scores: Array, masks: Array | None = None, **parameters: Any
) -> Arrays:
    """Non-maximum suppression, class by class, best first: [kept, 4 + score + class (+ mask)]."""
    given = _Suppression(**parameters)
    kept: list[tuple[int, int]] = []
    for number in range(scores.shape[1]):
        chosen: list[int] = []
        for box in np.argsort(-scores[:, number], kind="stable"):
            if scores[box, number] <= given.score_threshold or len(chosen) == given.max_boxes_per_class:
                break
            if all(_overlap(boxes[box], boxes[other]) <= given.iou_threshold for other in chosen):
                chosen.append(int(box))
        kept += [(number, box) for box in chosen]
    found = np.array([scores[box, number] for number, box in kept], dtype=np.float32)
    if given.max_detections is not None and len(kept) > given.max_detections:
        best = sorted(np.argsort(-found, kind="stable")[: given.max_detections])
        kept, found = [kept[place] for place in best], found[best]
    places = [box for _, box in kept]
    numbers = np.array([[number] for number, _ in kept], dtype=np.float32).reshape(-1, 1)
    parts = [boxes[places].reshape(-1, 4), found.reshape(-1, 1), numbers]
    if masks is not None and given.has_mask_data:
        parts.append(masks[places])
    return (np.concatenate(parts, axis=1).astype(np.float32),)


def scale_nms_bounding_boxes_and_key_points(
    rows: Array,
    original: Array,
    resized: Array,
    letter_boxed: Array,
    num_key_points: int = 0,
    layout: str = "HWC",
    name: str | None = None,
) -> Arrays:
    """Boxes found in a resized image on a larger canvas, as they lie in the original."""
    down = 0 if layout == "HWC" else 1
    scale = original.shape[down] / resized.shape[down]
    offset = [int((letter_boxed.shape[down + axis] - resized.shape[down + axis]) / 2) for axis in (1, 0)]
    scaled = rows.astype(np.float64)
    scaled[:, :2] = (scaled[:, :2] - offset) * scale
    scaled[:, 2:4] *= scale
    if num_key_points:
        points = scaled[:, 6:].reshape(len(rows), num_key_points, -1)
        points[..., :2] = (points[..., :2] - offset) * scale
        scaled[:, 6:] = points.reshape(len(rows), -1)
    return (scaled.astype(np.float32),)


def _overlap(one: Array, other: Array) -> float:
    """Intersection over union of two boxes."""
    corners = [(box[:2] - box[2:4] / 2, box[:2] + box[2:4] / 2) for box in (one.astype(float), other.astype(float))]
    low = np.maximum(corners[0][0], corners[1][0])
    high = np.minimum(corners[0][1], corners[1][1])
    both = float(np.prod(np.clip(high - low, 0, None)))
    union = sum(float(np.prod(high - low)) for low, high in corners) - both
    return both / union if union > 0 else 0.0
