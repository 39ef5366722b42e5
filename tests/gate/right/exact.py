"""Pairs whose answers agree to the last bit, or in all that their type can say."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from gate.case import EQUAL_OR_NOT_JUDGED, FLOATS, NOT_SHOWN, Trial, Verdict, right
from gate.sketch import Sketch

_EQUAL_OR_ERROR = EQUAL_OR_NOT_JUDGED | {Verdict.ERROR}
assert {Verdict.REFUSED} == NOT_SHOWN - _EQUAL_OR_ERROR


def _answer(s: Sketch, t: Trial, columns: int = 0) -> str:
    return s.linear(s.feed("x", t.batch, t.length, t.width), t.weights(t.width, columns or t.classes))


@right("the same model", dtypes=FLOATS)
def same_model(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", _answer(s, t))


@right("NaN where NaN was, and infinities where they were")
def equal_nonfinite(s: Sketch, t: Trial, other: bool) -> None:
    y = _answer(s, t)
    pick = t.rng.random((t.length, t.classes))
    y = s.op("Where", pick < 0.1, np.nan, y)
    y = s.op("Where", pick > 0.9, np.where(pick > 0.95, np.inf, -np.inf), y)
    s.give("answer", s.op("Identity", y) if other else y)


@right("NaN has another payload or sign")
def another_kind_of_nan(s: Sketch, t: Trial, other: bool) -> None:
    nan = np.array(0xFFC00001 if other else 0x7FC00000, np.uint32).view(np.float32)
    s.give("answer", s.op("Where", np.arange(t.classes) == 4, nan, _answer(s, t)))


@right("zero has the other sign")
def negative_zero(s: Sketch, t: Trial, other: bool) -> None:
    zero = np.where(np.arange(t.classes) % 2, -0.0 if other else 0.0, 1.0)
    s.give("answer", s.op("Mul", s.op("Abs", _answer(s, t)), zero))


@right("nothing but zeros of either sign beside an answer", accepted=EQUAL_OR_NOT_JUDGED)
def zeros_of_either_sign(s: Sketch, t: Trial, other: bool) -> None:
    y = _answer(s, t)
    s.give("answer", y)
    s.give("zeros", s.op("Mul", s.op("Abs", y), -0.0 if other else 0.0))


@right("a product with a power of two is computed before or after")
def power_of_two(s: Sketch, t: Trial, other: bool) -> None:
    x, weights = s.feed("x", t.batch, t.width), t.weights(t.width, t.classes)
    s.give("answer", s.linear(s.op("Mul", x, 0.5), weights) if other else s.op("Mul", s.linear(x, weights), 0.5))


@right("ids, flags and pictures agree")
def equal_discrete(s: Sketch, t: Trial, other: bool) -> None:
    y = _answer(s, t)
    if other:
        y = s.op("Transpose", s.op("Transpose", y, perm=[1, 0, 2]), perm=[1, 0, 2])
    s.give("ids", s.op("Add", s.op("ArgMax", y, axis=2), np.int64(2**53)), "int64")
    s.give("flags", s.op("Greater", y, 0.0), "bool")
    s.give("picture", s.cast(s.op("Clip", s.op("Mul", y, 100.0), 0.0, 255.0), "uint8"), "uint8")


@right("equal values in order, and their equal places")
def equal_places_of_the_best(s: Sketch, t: Trial, other: bool) -> None:
    values, places = s.ops("TopK", 2, _answer(s, t), s.ints(3), axis=2)
    s.give("values", s.op("Mul", values, 1.0) if other else values)
    s.give("places", places, "int64")


@right("words agree", accepted=_EQUAL_OR_ERROR)
def equal_strings(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 40, t.width)
    index = s.op("ArgMax", s.linear(x, t.weights(t.width, 3)), axis=1, keepdims=0)
    table = np.array(["\u00e9t\u00e9", "", "two words"], object)
    s.give_as("word", s.op("Gather", table, index), helper.make_tensor_type_proto(TensorProto.STRING, None))


@right("elements of a sequence agree", accepted=_EQUAL_OR_ERROR)
def equal_sequence(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    parts = [s.linear(x, t.weights(t.width, 4)) for _ in range(3)]
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    s.give_as("parts", s.op("SequenceConstruct", *parts), kind)


@right("an output is empty in both; the other output says that the models agree", accepted=EQUAL_OR_NOT_JUDGED)
def equally_empty_output(s: Sketch, t: Trial, other: bool) -> None:
    y = _answer(s, t)
    s.give("answer", y)
    s.give("boxes", s.part(y, 0, 0, 0))


@right("shapes are computed or constant")
def computed_shape(s: Sketch, t: Trial, other: bool) -> None:
    y = _answer(s, t)
    if other:
        shape = s.join(s.part(s.op("Shape", y), 0, 1, 0), s.ints(-1), axis=0)
        s.give("flat", s.op("Reshape", y, shape))
    else:
        s.give("flat", s.reshape(y, t.batch, t.length * t.classes))


@right("a table is repeated or broadcast")
def expand_or_tile(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 1, t.width)
    wide = s.op("Tile", x, s.ints(1, t.length, 1)) if other else s.op("Expand", x, s.ints(1, t.length, 1))
    s.give("hidden", s.op("Add", wide, t.rng.standard_normal((t.length, t.width))))


@right("one output more than once, under two names")
def output_twice(s: Sketch, t: Trial, other: bool) -> None:
    y = _answer(s, t)
    s.give("logits", y)
    s.give("again", s.op("Mul", y, 1.0) if other else y)
