"""Mean intersection over union."""

from __future__ import annotations

import numpy as np

from optim._engine.metrics.pick import IGNORED, CannotJudge, pick_label, pick_output
from optim.arrays import Array, Feeds, Outputs
from optim.metric import Metric


def mean_iou(*, output: str = "", label: str = "", axis: int = 1, ignore: int = 255) -> Metric:
    """Intersection over union of each class over all samples together; the mean over classes that occur.

    Args:
        output: name of the scores, shape (batch, classes, height, width); the first output if empty.
        label: name of the class numbers, shape (batch, height, width).
        axis: of the classes among those of the output.
        ignore: a class number that does not count; -100 does not either.
    """

    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Array:
        del feeds
        scores, truth = pick_output(outputs, output), pick_label(labels, label)
        if scores.dtype.kind != "f" or not -scores.ndim <= axis < scores.ndim:
            raise CannotJudge(f"the output is {scores.dtype} of shape {list(scores.shape)}; scores by class are needed")
        classes, found = scores.shape[axis], scores.argmax(axis)
        if found.shape != truth.shape:
            raise CannotJudge(f"labels have shape {list(truth.shape)}, the output gives {list(found.shape)}")
        truth = truth.astype(np.int64)
        valid = (truth != ignore) & (truth != IGNORED)
        truth, found = truth[valid], found[valid]
        if truth.size and (truth.min() < 0 or truth.max() >= classes):
            raise CannotJudge(f"label {int(truth.max())} is none of the {classes} classes that the output has")
        both = np.bincount(truth[truth == found], minlength=classes)
        either = np.bincount(truth, minlength=classes) + np.bincount(found, minlength=classes) - both
        return np.concatenate([both, either])

    def finish(sums: Array) -> float:
        both, either = np.asarray(sums, np.float64).reshape(2, -1)
        occurs = either > 0
        return float(np.mean(both[occurs] / either[occurs])) if occurs.any() else float("nan")

    return Metric("mean-iou", True, call, finish, needs_labels=True, summary="intersection over union of segments")
