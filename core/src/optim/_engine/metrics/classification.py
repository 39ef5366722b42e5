"""Accuracy among the first k, and F1."""

from __future__ import annotations

from typing import Literal

import numpy as np

from optim._engine.metrics.pick import CannotJudge, classes_of, counted, pick_label, pick_output
from optim.arrays import Array, Feeds, Outputs
from optim.metric import Metric


def top_1(*, output: str = "", label: str = "") -> Metric:
    """Share of rows whose highest score is the label's.

    Args:
        output: name of the scores, shape (..., classes), or of class numbers; the first output if empty.
        label: name of the labels, class numbers; -100 does not count.
    """
    return _top("top-1", 1, output, label)


def top_k(*, k: int = 5, output: str = "", label: str = "") -> Metric:
    """Share of rows whose label is among the k highest scores.

    Args:
        k: how many.
        output: name of the scores, shape (..., classes); the first output if empty.
        label: name of the labels, class numbers; -100 does not count.
    """
    return _top(f"top-{k}", k, output, label)


def f1(
    *, average: Literal["macro", "micro", "binary"] = "macro", threshold: float = 0.5, output: str = "", label: str = ""
) -> Metric:
    """F1, 2 tp / (2 tp + fp + fn), over all samples together.

    Args:
        average: the mean over classes that occur, over all decisions, or of class 1 alone.
        threshold: a single score above it means class 1; 0 for logits, 0.5 for probabilities.
        output: name of the scores, shape (..., classes), or (..., 1) for a single score; the first output if empty.
        label: name of the labels, class numbers; -100 does not count.
    """

    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Array:
        del feeds
        given = pick_output(outputs, output)
        if given.dtype.kind != "f" or not given.ndim:
            raise CannotJudge(f"the output is {given.dtype} of shape {list(given.shape)}; F1 needs scores")
        scores = np.asarray(given, np.float64)
        truth = classes_of(pick_label(labels, label), scores)
        classes = max(2, scores.shape[-1])
        single = scores.shape[-1] == 1
        found = (scores.ravel() > threshold).astype(np.int64) if single else scores.argmax(-1).ravel()
        valid = counted(truth, classes)
        truth, found = truth[valid], found[valid]
        hits = np.bincount(truth[truth == found], minlength=classes)
        return np.stack([hits, np.bincount(found, minlength=classes), np.bincount(truth, minlength=classes)]).ravel()

    def finish(sums: Array) -> float:
        hits, found, true = np.asarray(sums, np.float64).reshape(3, -1)
        if average == "micro":
            hits, found, true = hits.sum(keepdims=True), found.sum(keepdims=True), true.sum(keepdims=True)
        elif average == "binary":
            hits, found, true = hits[1:2], found[1:2], true[1:2]
        occurs = found + true > 0
        return float(np.mean(2 * hits[occurs] / (found + true)[occurs])) if occurs.any() else float("nan")

    return Metric("f1", True, call, finish, needs_labels=True, summary="F1 of classes")


def _top(name: str, k: int, output: str, label: str) -> Metric:
    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Array:
        del feeds
        scores, truth = pick_output(outputs, output), pick_label(labels, label)
        if scores.dtype.kind in "iu" and k == 1 and scores.size == truth.size:
            same = scores.ravel() == truth.ravel()
            return np.array([same.sum(), same.size])
        if not scores.ndim:
            raise CannotJudge("the output is a single number; accuracy needs scores of classes")
        truth = classes_of(truth, scores)
        valid = counted(truth, scores.shape[-1])
        rows = scores.reshape(-1, scores.shape[-1])[valid].astype(np.float64)
        own = np.take_along_axis(rows, truth[valid][:, None], 1)
        better = (rows > own).sum(1) + ((rows == own).sum(1) - 1) / 2  # equal scores: half of them come first
        return np.array([(better < k).sum(), valid.sum()])

    return Metric(name, True, call, _share, needs_labels=True, summary=f"share of labels among the {k} highest scores")


def _share(sums: Array) -> float:
    return float(sums[0] / sums[1]) if sums[1] else float("nan")
