"""Which output and which label a metric looks at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optim import CannotJudge
from optim.arrays import Array, Feeds, Outputs

IGNORED = -100
"""The label of what does not count, as torch's cross entropy has it."""


def pick_output(outputs: Outputs, name: str, usual: tuple[str, ...] = ("logits",)) -> Array:
    """The output of that name; without one, the first of the usual names, else the first output."""
    if name and name not in outputs:
        raise CannotJudge(f"there is no output '{name}'; the model has {', '.join(outputs)}")
    chosen = name or next((word for word in usual if word in outputs), next(iter(outputs)))
    return np.asarray(outputs[chosen])


def pick_label(labels: Feeds, name: str) -> Array:
    """The label of that name; without one, ``label`` or ``labels``, else the only one."""
    if name:
        if name not in labels:
            raise CannotJudge(f"there is no label '{name}'; the samples have {', '.join(labels) or 'none'}")
        return np.asarray(labels[name])
    for usual in ("label", "labels"):
        if usual in labels:
            return np.asarray(labels[usual])
    if len(labels) != 1:
        raise CannotJudge(f"the samples have {len(labels)} labels, {', '.join(labels)}: say which with label=")
    return np.asarray(next(iter(labels.values())))


def classes_of(label: Array, scores: Array) -> NDArray[np.int64]:
    """Labels as class numbers, one for each row of scores.

    Args:
        label: integers of as many elements as ``scores`` has rows, or scores of the same shape (one-hot).
        scores: shape (..., classes).
    """
    if label.shape == scores.shape and scores.ndim and label.dtype.kind == "f":
        return np.asarray(label.argmax(-1), np.int64).ravel()
    if label.dtype.kind not in "iub":
        raise CannotJudge(f"the label is {label.dtype}, not a class number")
    rows = scores.size // max(1, scores.shape[-1]) if scores.ndim else 0
    if label.size != rows:
        raise CannotJudge(f"there are {label.size} labels for {rows} rows of scores")
    return np.asarray(label, np.int64).ravel()


def counted(label: NDArray[np.int64], classes: int) -> NDArray[np.bool_]:
    """Which labels count; one that is no class is an error.

    Args:
        label: class numbers, or -100 for what does not count.
        classes: how many there are.
    """
    valid: NDArray[np.bool_] = label != IGNORED
    if valid.any() and (label[valid].min() < 0 or label[valid].max() >= classes):
        worst = int(label[valid].min()) if label[valid].min() < 0 else int(label[valid].max())
        raise CannotJudge(f"label {worst} is not one of the {classes} classes of the output")
    return valid
