"""Attacks on rules that a better gate may use: medians, variation over samples, exclusion of what is equal, masks."""

from __future__ import annotations

import numpy as np

from gate.case import NOT_EQUAL, Trial, wrong
from gate.sketch import Sketch


def _two(s: Sketch, t: Trial, columns: int, *, batch: int = 0) -> tuple[str, str]:
    """A good answer and an unrelated one."""
    x = s.feed("x", batch or t.batch, t.length, t.width)
    return s.linear(x, t.weights(t.width, columns)), s.linear(x, t.other_weights(t.width, columns))


@wrong("answers to all samples but one are unrelated; that one is gigantic, and so is the spread over samples")
def one_sample_is_gigantic(s: Sketch, t: Trial, other: bool) -> None:
    flag = s.feed("flag", 1, dtype="bool", draw=lambda _, number: [number == 2])
    good, bad = _two(s, t, t.classes)
    s.give("answer", s.op("Where", flag, s.op("Mul", good, 1e6), bad if other else good))


@wrong("all rows but one of a batch are unrelated; that one is gigantic, and so is the spread of each column")
def one_row_is_gigantic(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _two(s, t, t.classes, batch=6)
    row = np.arange(6)[:, None, None] == 4
    s.give("answer", s.op("Where", row, s.op("Mul", good, 1e6), bad if other else good))


@wrong("similarities of different things are unrelated; that of each thing with itself is huge, in each row and column")
def huge_diagonal(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 40, t.width)
    left, right = (s.linear(x, t.weights(t.width, t.width, scale=0.3)) for _ in range(2))
    if other:
        left = s.linear(x, t.other_weights(t.width, t.width, scale=0.3))
    apart = s.op("MatMul", left, s.op("Transpose", right, perm=[0, 2, 1]))
    itself = s.op("Mul", s.op("ReduceSumSquare", x, s.ints(2)), 1e4)
    s.give("similarity", s.op("Where", np.eye(40, dtype=bool), itself, apart))


@wrong("ordinary answers are unrelated; huge ones are at other places in each sample, and are no constant")
def rare_huge_elements(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _two(s, t, t.classes)
    shape = (t.batch, t.length, t.classes)
    rare = s.feed("rare", *shape, dtype="bool", draw=lambda rng, _: rng.random(shape) < 0.02)
    s.give("answer", s.op("Where", rare, s.op("Mul", good, 1e5), bad if other else good))


@wrong("nearly all answers are zero in both; the few others are unrelated")
def few_answers_among_zeros(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    alive = np.arange(t.classes) < 2
    weights = t.weights(t.width, t.classes)
    if other:
        weights = t.other_weights(t.width, t.classes)
    s.give("answer", s.op("Relu", s.op("Where", alive, s.linear(x, weights), 0.0)))


@wrong("answers of every order of magnitude; all but the tenth largest are unrelated", accepted=NOT_EQUAL)
def all_but_the_largest(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    good = s.op("Exp", s.linear(x, t.weights(t.width, t.classes, scale=5)))
    bad = s.op("Exp", s.linear(x, t.other_weights(t.width, t.classes, scale=2)))
    s.give("price", s.op("Where", s.op("Less", good, 500.0), bad, good) if other else good)


@wrong("a third of the rows, a fiftieth in size, is unrelated: short texts beside long ones")
def small_rows(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _two(s, t, t.classes, batch=9)
    rows = np.arange(9)[:, None, None] % 3 == 0
    small = s.op("Mul", bad if other else good, 1 / 50)
    s.give("answer", s.op("Where", rows, small, good))


@wrong("the second best class is the best one in every row; their logits are close")
def second_best_becomes_the_best(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    y = s.linear(x, t.weights(t.width, 2000))
    values, places = s.ops("TopK", 2, y, s.ints(2), axis=2)
    first = s.part(values, 0, 1, 2)
    close = s.join(first, s.op("Sub", first, 0.05), axis=2)
    if other:
        close = s.roll(close, 2, 2)
    s.give("logits", s.op("ScatterElements", y, places, close, axis=2))


@wrong("a grid that is the same for every input is another grid")
def constant_output_differs(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _two(s, t, t.classes)
    s.give("scores", good)
    s.give("anchors", s.const((t.other_weights if other else t.weights)(t.length, 4, scale=600)))


@wrong("a grid that is the same for every input is moved by 4 of 640 pixels: that is no rounding", accepted=NOT_EQUAL)
def constant_output_moved(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _two(s, t, t.classes)
    s.give("scores", good)
    s.give("anchors", s.const(t.rng.uniform(0, 640, (t.length, 4)) + 4.0 * other))


@wrong("one column that is the same for every input has another value")
def constant_column_differs(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _two(s, t, t.classes)
    bias = np.where(np.arange(t.classes) == 3, 1.3 if other else 0.3, 0.0)
    s.give("answer", s.op("Where", np.arange(t.classes) == 3, bias, good))


@wrong("the alarm rings on one sample of the data, and never in the other model")
def alarm_on_one_sample(s: Sketch, t: Trial, other: bool) -> None:
    ring = s.feed("ring", 1, 1, draw=lambda _, number: [[float(number == 3)]])
    x = s.feed("x", 1, t.width)
    loud = s.op("Sigmoid", s.op("Add", s.linear(x, t.weights(t.width, 1)), 3.0))
    s.give("alarm", s.op("Mul", s.op("Mul", loud, ring), float(not other)))


@wrong("answers have noise that is another one in each call, as if dropout were on", accepted=NOT_EQUAL)
def noise_in_each_call(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _two(s, t, t.classes)
    noise = s.op("Mul", s.op("RandomNormalLike", good), 0.003)
    s.give("answer", s.op("Add", good, noise) if other else good)


@wrong("answers of a float32 model are rounded to half precision: that is no rounding of float32", accepted=NOT_EQUAL)
def answers_in_half_precision(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _two(s, t, t.classes)
    s.give("answer", s.cast(s.cast(good, "float16"), "float32") if other else good)


def _padding(t: Trial, length: int) -> object:
    """Lengths of three rows, as a mask of ones and zeros."""
    return lambda rng, _: np.arange(length) < rng.integers(length // 3, length - 1, (3, 1))


@wrong("real positions are unrelated; the mask marks padding, as torch's key_padding_mask does, not what counts")
def mask_marks_padding(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", "batch", "length", t.width, draw=lambda rng, _: rng.standard_normal((3, 16, t.width)))
    counts = _padding(t, 16)
    mask = s.feed("key_padding_mask", "batch", "length", dtype="bool", draw=lambda rng, n: ~counts(rng, n))
    good, bad = s.linear(x, t.weights(t.width, 8)), s.linear(x, t.other_weights(t.width, 8))
    padded = s.op("Unsqueeze", mask, s.ints(2))
    s.give("hidden", s.op("Where", padded, good, bad if other else good), shape=("batch", "length", 8))


@wrong("positions that are to be kept are unrelated; the mask says which ones a painter fills in, and all count")
def mask_says_what_is_painted(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", "batch", "length", t.width, draw=lambda rng, _: rng.standard_normal((3, 64, t.width)))
    mask = s.feed("inpainting_mask", "batch", "length", dtype="int64", draw=lambda rng, _: rng.random((3, 64)) < 0.2)
    good, bad = s.linear(x, t.weights(t.width, 8)), s.linear(x, t.other_weights(t.width, 8))
    filled = s.op("Unsqueeze", s.cast(mask, "bool"), s.ints(2))
    s.give("patches", s.op("Where", filled, good, bad if other else good), shape=("batch", "length", 8))


@wrong("half of the features are unrelated; there are as many of them as positions, and the mask is not theirs")
def as_many_features_as_positions(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 3, 16, t.width)
    counts = _padding(t, 16)
    mask = s.feed("attention_mask", 3, 16, dtype="int64", draw=counts)
    weighed = s.op("Mul", x, s.op("Unsqueeze", s.cast(mask, t.dtype.name), s.ints(2)))
    pooled = s.op("ReduceMean", weighed, s.ints(1), keepdims=0)
    good, bad = s.linear(pooled, t.weights(t.width, 16)), s.linear(pooled, t.other_weights(t.width, 16))
    s.give("pooled", s.op("Where", s.cast(mask, "bool"), good, bad if other else good))


@wrong("one of 30 samples is unrelated", number=[0, 7, 29])
def one_of_thirty_samples(s: Sketch, t: Trial, other: bool, number: int) -> None:
    s.count = 30
    flag = s.feed("flag", 1, dtype="bool", draw=lambda _, place: [place == number])
    good, bad = _two(s, t, t.classes)
    s.give("answer", s.op("Where", flag, bad if other else good, good))
