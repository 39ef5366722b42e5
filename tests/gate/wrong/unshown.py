"""The models differ, and the samples do not show it: nobody can say that they are equal."""

from __future__ import annotations

import numpy as np

from gate.case import NOT_SHOWN, Trial, wrong
from gate.sketch import Sketch


@wrong("all samples are one and the same, and the other model has the answer to it as a constant", accepted=NOT_SHOWN)
def answer_to_the_only_sample(s: Sketch, t: Trial, other: bool) -> None:
    sample = t.rng.standard_normal((1, t.width))
    x = s.feed("x", 1, t.width, draw=lambda *_: sample)
    weights = t.weights(t.width, t.classes)
    if other:
        dtype = t.dtype
        s.give(
            "answer", s.op("Add", s.op("Mul", s.part(x, 0, 1, 1), 0.0), sample.astype(dtype) @ weights.astype(dtype))
        )
    else:
        s.give("answer", s.linear(x, weights))


@wrong("on these samples the answer is zero; the other model's is always zero", accepted=NOT_SHOWN)
def zero_on_every_sample(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    y = s.op("Relu", s.op("Sub", s.linear(x, t.weights(t.width, t.classes)), 100.0))
    s.give("answer", s.op("Mul", y, float(not other)))


@wrong("on these samples a sigmoid is one to the last bit; the other model's is always one", accepted=NOT_SHOWN)
def saturated_on_every_sample(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    y = s.linear(x, (t.other_weights if other else t.weights)(t.width, t.classes))
    s.give("p", s.op("Sigmoid", s.op("Add", y, 100.0)))


@wrong("nothing is found on any sample, by either; the other model never finds anything", accepted=NOT_SHOWN)
def empty_on_every_sample(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 20, t.width)
    scores = s.op("Squeeze", s.linear(x, t.weights(t.width, 1)), s.ints(1))
    keep = s.op("Greater", scores, 1e9 if other else 50.0)
    s.give("boxes", s.op("Compress", s.linear(x, t.weights(t.width, 4)), keep, axis=0))


@wrong("one output is right; the other is empty on every sample, and unrelated", accepted=NOT_SHOWN)
def second_output_is_empty(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 20, t.width)
    s.give("all", s.linear(x, t.weights(t.width, 8)))
    scores = s.op("Squeeze", s.linear(x, t.weights(t.width, 1)), s.ints(1))
    boxes = s.linear(x, (t.other_weights if other else t.weights)(t.width, 4))
    s.give("boxes", s.op("Compress", boxes, s.op("Greater", scores, 50.0), axis=0))


@wrong("one output is right; the other is zero on every sample, and zero always in the other model", accepted=NOT_SHOWN)
def second_output_is_zero(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    s.give("class", s.linear(x, t.weights(t.width, 8)))
    y = s.op("Relu", s.op("Sub", s.linear(x, t.weights(t.width, 3)), 100.0))
    s.give("alarm", s.op("Mul", y, float(not other)))


@wrong("the alarm does not ring on any sample; the other model has no alarm", accepted=NOT_SHOWN)
def flag_is_never_set(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    s.give("alarm", s.op("Greater", s.linear(x, t.weights(t.width, 1)), 1e9 if other else 50.0), "bool")


@wrong("every sample is of the same class; the other model knows no other class", accepted=NOT_SHOWN)
def one_class_on_every_sample(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    bias = np.zeros(t.classes)
    bias[3] = 1e6 if other else 50.0
    s.give("class", s.op("ArgMax", s.linear(x, t.weights(t.width, t.classes), bias), axis=1), "int64")


@wrong("all positions that count are padding", accepted=NOT_SHOWN)
def everything_is_padding(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", "batch", "length", t.width, draw=lambda rng, _: rng.standard_normal((t.batch, 16, t.width)))
    mask = s.feed("attention_mask", "batch", "length", dtype="int64", draw=lambda *_: np.zeros((t.batch, 16)))
    y = s.linear(x, (t.other_weights if other else t.weights)(t.width, 8))
    s.give(
        "hidden",
        s.op("Add", y, s.op("Mul", s.op("Unsqueeze", s.cast(mask, t.dtype.name), s.ints(2)), 0.0)),
        shape=("batch", "length", 8),
    )
