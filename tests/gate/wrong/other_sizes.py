"""The models differ in sizes that no sample has: verify makes such samples from those given."""

from __future__ import annotations

import numpy as np

from gate.case import Trial, wrong
from gate.sketch import Sketch


def _rows(s: Sketch, t: Trial) -> str:
    x = s.feed("x", "batch", t.width, draw=lambda rng, _: rng.standard_normal((t.batch, t.width)))
    return s.linear(x, t.weights(t.width, t.width))


def _text(s: Sketch, t: Trial) -> tuple[str, str]:
    """Positions with a mask that hides none of them, and the mask as a column."""
    x = s.feed("x", "batch", "length", t.width, draw=lambda rng, _: rng.standard_normal((1, t.length, t.width)))
    mask = s.feed("attention_mask", "batch", "length", dtype="int64", draw=lambda *_: np.ones((1, t.length)))
    return s.linear(x, t.weights(t.width, t.width)), s.op("Unsqueeze", s.cast(mask, t.dtype.name), s.ints(2))


def _shown(s: Sketch, x: str, axis: int, below: int) -> str:
    """One at the first places along an axis, zero behind them; shaped like ``x`` with one at all other axes."""
    size = s.op("Gather", s.op("Shape", x), 2 if axis > 1 else axis)
    places = s.op("Range", np.int64(0), size, np.int64(1))
    first = s.cast(s.op("Less", places, np.int64(below)), s.dtype.name)
    return s.op("Unsqueeze", first, s.ints(*(one for one in range(3) if one != axis)))


@wrong("the mean over positions counts what the mask hides; no sample has padding")
def mask_ignored(s: Sketch, t: Trial, other: bool) -> None:
    y, mask = _text(s, t)
    mask = s.op("Max", mask, 1.0) if other else mask
    total = s.op("ReduceSum", s.op("Mul", s.op("Add", y, 1.0), mask), s.ints(1), keepdims=0)
    s.give("pooled", s.op("Div", total, s.op("ReduceSum", mask, s.ints(1), keepdims=0)), shape=("batch", t.width))


@wrong("positions beyond twenty are zero; samples have sixteen")
def longer_than_all_samples(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, "length", t.width, draw=lambda rng, _: rng.standard_normal((1, t.length, t.width)))
    y = s.linear(x, t.weights(t.width, t.width))
    s.give("hidden", s.op("Mul", y, _shown(s, y, 1, 20)) if other else y, shape=(1, "length", t.width))


@wrong("rows beyond those of a sample are zero")
def more_rows_than_all_samples(s: Sketch, t: Trial, other: bool) -> None:
    y = s.op("Unsqueeze", _rows(s, t), s.ints(0))
    y = s.op("Mul", y, _shown(s, y, 1, t.batch)) if other else y
    s.give("rows", s.op("Squeeze", y, s.ints(0)), shape=("batch", t.width))


@wrong("a hidden size is that of the samples, which the input leaves open")
def other_batches_fail(s: Sketch, t: Trial, other: bool) -> None:
    y = _rows(s, t)
    s.give("rows", s.reshape(y, t.batch, t.width) if other else y, shape=("batch", t.width))


@wrong("the mean that scales a row is that of all rows; each sample has one")
def rows_are_mixed(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", "batch", t.width, draw=lambda rng, _: rng.standard_normal((1, t.width)))
    y = s.linear(x, t.weights(t.width, t.width))
    mean = s.op("ReduceMean", y, s.ints(0, 1) if other else s.ints(1), keepdims=1)
    s.give("rows", s.op("Mul", y, s.op("Exp", s.op("Mul", mean, 8.0))), shape=("batch", t.width))


@wrong("what came before is ignored; no sample has a past")
def past_ignored(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, "length", t.width, draw=lambda rng, _: rng.standard_normal((1, t.length, t.width)))
    past = s.feed("past", 1, "past", t.width, draw=lambda *_: np.zeros((1, 0, t.width)))
    y = s.linear(x, t.weights(t.width, t.width))
    present = s.join(s.op("Mul", past, 0.0) if other else past, y, axis=1)
    s.give("present", s.join(past, y, axis=1), shape=(1, "total", t.width))
    s.give("y", s.op("ReduceSum", present, s.ints(1), keepdims=0), shape=(1, t.width))
