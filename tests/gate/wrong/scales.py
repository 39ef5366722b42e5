"""Numbers so small or so large that their squares, or a constant in a formula, swallow them."""

from __future__ import annotations

import numpy as np

from gate.case import NOT_EQUAL, Trial, wrong
from gate.sketch import Sketch

UNRELATED = "the answer is unrelated to the reference's"


def _unrelated(s: Sketch, t: Trial, other: bool) -> str:
    x = s.feed("x", t.batch, t.length, t.width)
    weights, unrelated = t.weights(t.width, t.classes), t.other_weights(t.width, t.classes)
    return s.linear(x, unrelated if other else weights)


@wrong(UNRELATED, scale=[1e-12, 1e-7, 1e-30, 1e30], dtypes=("float32", "float64"))
def small_or_large(s: Sketch, t: Trial, other: bool, scale: float) -> None:
    s.give("answer", s.op("Mul", _unrelated(s, t, other), scale))


@wrong(UNRELATED + "; squares overflow or vanish in float64", scale=[1e200, 1e-200, 1e300], dtypes=("float64",))
def extreme_doubles(s: Sketch, t: Trial, other: bool, scale: float) -> None:
    each = np.full(t.classes, scale)  # onnxruntime folds a single factor into the product as float32, which overflows
    s.give("answer", s.op("Mul", _unrelated(s, t, other), each))


@wrong("all elements but one are unrelated; that one is 1e200", dtypes=("float64",))
def one_huge_element(s: Sketch, t: Trial, other: bool) -> None:
    huge = np.zeros((t.length, t.classes))
    huge[0, 0] = 1e200
    s.give("answer", s.op("Add", _unrelated(s, t, other), huge))


@wrong("all elements but one are unrelated; that one is the largest float32")
def one_element_at_the_limit(s: Sketch, t: Trial, other: bool) -> None:
    limit = np.zeros((t.length, t.classes), bool)
    limit[0, 0] = True
    s.give("answer", s.op("Where", limit, 3.4e38, _unrelated(s, t, other)))


@wrong("an answer of 1e-12 became zero")
def small_answer_became_zero(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Mul", _unrelated(s, t, False), 0.0 if other else 1e-12))


@wrong(
    "denormals unrelated to the reference's; zeros would be accepted in some programs, other numbers are not",
    accepted=NOT_EQUAL,
)
def unrelated_denormals(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Mul", s.op("Mul", _unrelated(s, t, other), 1e-20), 1e-19))


@wrong("half-precision answers near its smallest numbers are unrelated", dtypes=("float16",))
def small_half_precision(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Mul", _unrelated(s, t, other), 2e-4))


@wrong("the answer is in other units", factor=[2.0, 0.5, 1.2, -1.0, 57.3], dtypes=("float32", "float16"))
def other_units(s: Sketch, t: Trial, other: bool, factor: float) -> None:
    s.give("answer", s.op("Mul", _unrelated(s, t, False), factor if other else 1.0))


@wrong("a scale is two per mille too large: that is no rounding", accepted=NOT_EQUAL)
def scale_a_little_too_large(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Mul", _unrelated(s, t, False), 1.002 if other else 1.0))


@wrong("an offset of a tenth of the answer's spread is added")
def offset(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Add", _unrelated(s, t, False), 0.1 if other else 0.0))


@wrong("one output of two is unrelated, and a millionth of the other")
def second_output_is_small(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    s.give("large", s.op("Mul", s.linear(x, t.weights(t.width, 8)), 1e3))
    s.give("small", s.op("Mul", s.linear(x, (t.other_weights if other else t.weights)(t.width, 8)), 1e-3))


@wrong("all probabilities below a millionth are lost; whoever takes their logarithm gets minus infinity")
def vanishing_probabilities(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    p = s.op(
        "Mul", s.op("Exp", s.linear(x, t.weights(t.width, t.classes))), np.where(np.arange(t.classes) < 2, 1, 1e-9)
    )
    s.give("p", s.op("Where", s.op("Less", p, 1e-6), 0.0, p) if other else p)


@wrong("the quiet half of the recording is unrelated: a whisper behind a shout")
def whisper_behind_a_shout(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 40, 100)
    shout = s.op("Mul", s.part(x, 0, 20, 1), 100.0)
    whisper = s.part(x, 20, 40, 1)
    s.give("sound", s.join(shout, s.roll(whisper, 100, 2, 31) if other else whisper, axis=1))


@wrong(
    "a layer of a deep network in half precision counts half; rounding moves all of its answers", dtypes=("float16",)
)
def deep_half_precision(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, 64)
    for layer in range(12):
        step = s.op("Tanh", s.linear(x, t.weights(64, 64)))
        x = s.op("Add", x, s.op("Mul", step, 0.7 if other and layer == 6 else 1.0))
    s.give("hidden", x)
