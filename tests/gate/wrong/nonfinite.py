"""NaN and infinities: their places and signs are part of the answer."""

from __future__ import annotations

import numpy as np

from gate.case import FLOATS, NOT_SHOWN, Trial, wrong
from gate.sketch import Sketch


def _answer(s: Sketch, t: Trial) -> str:
    return s.linear(s.feed("x", t.batch, t.length, t.width), t.weights(t.width, t.classes))


def _with(s: Sketch, t: Trial, value: float, row: int, column: int) -> str:
    place = np.zeros((t.length, t.classes), bool)
    place[row, column] = True
    return s.op("Where", place, value, _answer(s, t))


@wrong("one element became NaN", dtypes=FLOATS)
def one_nan(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", _with(s, t, np.nan if other else 1.0, 0, 3))


@wrong("NaN is at another place")
def nan_moved(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", _with(s, t, np.nan, 0, 4 if other else 3))


@wrong("NaN, which says that the sensor failed, became zero")
def nan_became_zero(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", _with(s, t, 0.0 if other else np.nan, 2, 1))


@wrong("NaN became infinity")
def nan_became_infinity(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", _with(s, t, np.inf if other else np.nan, 2, 1))


@wrong("the infinity has the other sign", dtypes=FLOATS)
def sign_of_infinity(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", _with(s, t, np.inf if other else -np.inf, 1, 1))


@wrong("infinity is at another place")
def infinity_moved(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", _with(s, t, -np.inf, 2 if other else 1, 1))


@wrong("infinity became the largest number, with which a softmax computes something else")
def infinity_became_finite(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", _with(s, t, t.lowest if other else -np.inf, 1, 1))


@wrong("every element became NaN")
def all_became_nan(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Mul", _answer(s, t), np.nan if other else 1.0))


@wrong("both give NaN alone on every sample: nothing was compared", accepted=NOT_SHOWN)
def nothing_but_nan(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Mul", _answer(s, t), np.nan))


@wrong("one output is right; the other is NaN on every sample, in both models", accepted=NOT_SHOWN)
def second_output_is_nothing_but_nan(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    s.give("class", s.linear(x, t.weights(t.width, t.classes)))
    s.give("age", s.op("Mul", s.linear(x, (t.other_weights if other else t.weights)(t.width, 1)), np.nan))


@wrong("NaN is nearly everywhere, at the same places; the few numbers are unrelated")
def numbers_among_nan(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    weights = (t.other_weights if other else t.weights)(t.width, t.classes)
    keep = np.arange(t.classes) < 2
    s.give("answer", s.op("Where", keep, s.linear(x, weights), np.nan))


@wrong("minus infinity masks nearly every class, at the same places; the few logits are unrelated", dtypes=FLOATS)
def logits_among_infinities(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    weights = (t.other_weights if other else t.weights)(t.width, t.classes)
    s.give("logits", s.op("Where", np.arange(t.classes) < 3, s.linear(x, weights), -np.inf))


@wrong("one infinity is in both; boxes beside scores are mixed, and scores are unrelated")
def scores_beside_boxes_and_an_infinity(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 50, t.width)
    boxes = s.op("Mul", s.linear(x, t.weights(t.width, 4)), 300.0)
    scores = s.linear(x, (t.other_weights if other else t.weights)(t.width, 1))
    first = np.zeros((50, 5), bool)
    first[0, 0] = True
    s.give("found", s.op("Where", first, np.inf, s.join(boxes, s.op("Sigmoid", scores), axis=2)))


@wrong("the answer of one sample became NaN")
def one_sample_became_nan(s: Sketch, t: Trial, other: bool) -> None:
    flag = s.feed("flag", 1, dtype="bool", draw=lambda _, number: [number == 3])
    answer = _answer(s, t)
    s.give("answer", s.op("Where", flag, s.op("Mul", answer, np.nan if other else 1.0), answer))
