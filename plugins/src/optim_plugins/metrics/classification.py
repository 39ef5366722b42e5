"""Accuracy among the first k, and F1."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from optim import CannotJudge, Metric, PassOptions
from optim.arrays import Array, Feeds, Outputs
from optim_plugins.metrics.pick import IGNORED, classes_of, counted, pick_label, pick_output
from optim_plugins.metrics.share import share


class TopOptions(PassOptions):
    """Which scores and which labels."""

    output: str = Field(
        default="",
        description="name of the scores, shape (..., classes), or of class numbers; the first output if empty",
    )
    label: str = Field(default="", description="name of the labels, class numbers; -100 does not count")


class TopKOptions(TopOptions):
    """Among how many scores a label counts as found."""

    k: int = Field(default=5, ge=1, description="among how many of the highest scores the label must be")


class F1Options(TopOptions):
    """How classes are averaged."""

    average: Literal["macro", "micro", "binary"] = Field(
        default="macro", description="the mean over classes that occur, over all decisions, or of class 1 alone"
    )
    threshold: float = Field(
        default=0.5, description="a single score above it means class 1; 0 for logits, 0.5 for probabilities"
    )


def top_1(options: TopOptions) -> Metric:
    """Share of rows whose highest score is the label's."""
    return _top("top-1", 1, options)


def top_k(options: TopKOptions) -> Metric:
    """Share of rows whose label is among the k highest scores."""
    return _top(f"top-{options.k}", options.k, options)


def f1(options: F1Options) -> Metric:
    """F1, 2 tp / (2 tp + fp + fn), over all samples together; scores of shape (..., 1) are of class 1 alone."""

    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Array:
        given = pick_output(outputs, options.output)
        if given.dtype.kind != "f" or not given.ndim:
            raise CannotJudge(f"the output is {given.dtype} of shape {list(given.shape)}; F1 needs scores")
        scores = np.asarray(given, np.float64)
        truth = classes_of(pick_label(labels, options.label), scores)
        classes = max(2, scores.shape[-1])
        single = scores.shape[-1] == 1
        found = (scores.ravel() > options.threshold).astype(np.int64) if single else scores.argmax(-1).ravel()
        valid = counted(truth, classes)
        truth, found = truth[valid], found[valid]
        hits = np.bincount(truth[truth == found], minlength=classes)
        return np.stack([hits, np.bincount(found, minlength=classes), np.bincount(truth, minlength=classes)]).ravel()

    def finish(sums: Array) -> float:
        hits, found, true = np.asarray(sums, np.float64).reshape(3, -1)
        if options.average == "micro":
            hits, found, true = hits.sum(keepdims=True), found.sum(keepdims=True), true.sum(keepdims=True)
        elif options.average == "binary":
            hits, found, true = hits[1:2], found[1:2], true[1:2]
        occurs = found + true > 0
        return float(np.mean(2 * hits[occurs] / (found + true)[occurs])) if occurs.any() else float("nan")

    return Metric("f1", True, call, finish, needs_labels=True, summary="F1 of classes")


def _top(name: str, k: int, options: TopOptions) -> Metric:
    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Array:
        scores, truth = pick_output(outputs, options.output), pick_label(labels, options.label)
        if scores.dtype.kind in "iu" and k == 1 and scores.size == truth.size:
            valid = truth.ravel() != IGNORED
            same = scores.ravel()[valid] == truth.ravel()[valid]
            return np.array([same.sum(), same.size])
        if not scores.ndim:
            raise CannotJudge("the output is a single number; accuracy needs scores of classes")
        truth = classes_of(truth, scores)
        valid = counted(truth, scores.shape[-1])
        rows = scores.reshape(-1, scores.shape[-1])[valid].astype(np.float64)
        own = np.take_along_axis(rows, truth[valid][:, None], 1)
        better = (rows > own).sum(1) + ((rows == own).sum(1) - 1) / 2  # equal scores: half of them come first
        return np.array([(better < k).sum(), valid.sum()])

    return Metric(name, True, call, share, needs_labels=True, summary=f"share of labels among the {k} highest scores")
