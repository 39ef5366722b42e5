"""Mean intersection over union."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from optim import CannotJudge, Metric, PassOptions
from optim.arrays import Array, Feeds, Outputs
from optim_plugins.metrics.pick import IGNORED, pick_label, pick_output


class MeanIouOptions(PassOptions):
    """Where classes are, and which does not count."""

    output: str = Field(
        default="", description="name of the scores, shape (batch, classes, height, width); the first output if empty"
    )
    label: str = Field(default="", description="name of the class numbers, shape (batch, height, width)")
    axis: int = Field(default=1, description="of the classes among those of the output")
    ignore: int = Field(default=255, description="a class number that does not count; -100 does not either")


def mean_iou(options: MeanIouOptions) -> Metric:
    """Intersection over union of each class over all samples together; the mean over classes that occur."""
    axis, ignore = options.axis, options.ignore

    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Array:
        scores, truth = pick_output(outputs, options.output), pick_label(labels, options.label)
        if scores.dtype.kind != "f" or not -scores.ndim <= axis < scores.ndim:
            raise CannotJudge(f"the output is {scores.dtype} of shape {list(scores.shape)}; scores by class are needed")
        classes, found = scores.shape[axis], scores.argmax(axis)
        if found.shape != truth.shape:
            raise CannotJudge(f"labels have shape {list(truth.shape)}, the output gives {list(found.shape)}")
        truth = truth.astype(np.int64)
        valid = (truth != ignore) & (truth != IGNORED)
        truth, found = truth[valid], found[valid]
        if truth.size and (truth.min() < 0 or truth.max() >= classes):
            raise CannotJudge(f"label {int(truth.max())} is not one of the {classes} classes of the output")
        both = np.bincount(truth[truth == found], minlength=classes)
        either = np.bincount(truth, minlength=classes) + np.bincount(found, minlength=classes) - both
        return np.concatenate([both, either])

    def finish(sums: Array) -> float:
        both, either = np.asarray(sums, np.float64).reshape(2, -1)
        occurs = either > 0
        return float(np.mean(both[occurs] / either[occurs])) if occurs.any() else float("nan")

    return Metric("mean-iou", True, call, finish, needs_labels=True, summary="intersection over union of segments")
