"""Outputs that are missing, exchanged, of another type, or no tensors."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from gate.case import NOT_SHOWN, Trial, Verdict, wrong
from gate.sketch import Sketch

STRINGS = np.array(["cat", "dog", "horse", "bird", "fish"], object)
_REFUSED_OR_ERROR = frozenset({Verdict.REFUSED, Verdict.ERROR})


@wrong("the two outputs are exchanged")
def outputs_exchanged(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    first, second = s.linear(x, t.weights(t.width, 8)), s.linear(x, t.weights(t.width, 8))
    s.give("start", second if other else first)
    s.give("end", first if other else second)


@wrong("an output is missing", accepted=_REFUSED_OR_ERROR)
def missing_output(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    s.give("class", s.linear(x, t.weights(t.width, 8)))
    if not other:
        s.give("age", s.linear(x, t.weights(t.width, 1)))


@wrong("an output has another name", accepted=_REFUSED_OR_ERROR)
def renamed_output(s: Sketch, t: Trial, other: bool) -> None:
    s.give("klass" if other else "class", s.linear(s.feed("x", t.batch, t.width), t.weights(t.width, 8)))


@wrong("the answer lost an axis", accepted=_REFUSED_OR_ERROR)
def lost_axis(s: Sketch, t: Trial, other: bool) -> None:
    y = s.linear(s.feed("x", t.batch, t.width), t.weights(t.width, 1))
    s.give("age", s.op("Squeeze", y, s.ints(1)) if other else y)


@wrong("the answer has another number format", accepted=_REFUSED_OR_ERROR)
def another_number_format(s: Sketch, t: Trial, other: bool) -> None:
    y = s.linear(s.feed("x", t.batch, t.width), t.weights(t.width, 8))
    s.give("answer", s.cast(y, "float16") if other else y, "float16" if other else "")


@wrong("a square matrix is transposed")
def transposed_matrix(s: Sketch, t: Trial, other: bool) -> None:
    y = s.linear(s.feed("x", t.batch, t.width, t.width), t.weights(t.width, t.width))
    s.give("matrix", s.op("Transpose", y, perm=[0, 2, 1]) if other else y)


def _word(s: Sketch, t: Trial, table: np.ndarray) -> str:
    x = s.feed("x", 40, t.width)
    index = s.op("ArgMax", s.linear(x, t.weights(t.width, len(table))), axis=1, keepdims=0)
    return s.op("Gather", table, index)


@wrong("one word is spelt differently", words=["Horse", "horse ", "hors\u00e9"])
def strings(s: Sketch, t: Trial, other: bool, words: str) -> None:
    table = STRINGS.copy()
    if other:
        table[2] = words
    s.give_as("word", _word(s, t, table), helper.make_tensor_type_proto(TensorProto.STRING, None))


@wrong("all words are other words")
def all_strings(s: Sketch, t: Trial, other: bool) -> None:
    table = np.roll(STRINGS, 1) if other else STRINGS
    s.give_as("word", _word(s, t, table), helper.make_tensor_type_proto(TensorProto.STRING, None))


def _sequence(s: Sketch, parts: list[str]) -> str:
    return s.op("SequenceConstruct", *parts)


def _parts(s: Sketch, t: Trial) -> list[str]:
    x = s.feed("x", t.batch, t.width)
    return [s.linear(x, t.weights(t.width, 4)) for _ in range(3)]


SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))


@wrong("two elements of a sequence are exchanged", accepted=NOT_SHOWN)
def sequence_in_another_order(s: Sketch, t: Trial, other: bool) -> None:
    parts = _parts(s, t)
    s.give_as("parts", _sequence(s, parts[::-1] if other else parts), SEQUENCE)


@wrong("a sequence lacks its last element", accepted=NOT_SHOWN)
def sequence_is_shorter(s: Sketch, t: Trial, other: bool) -> None:
    parts = _parts(s, t)
    s.give_as("parts", _sequence(s, parts[:2] if other else parts), SEQUENCE)


@wrong("one element of a sequence is unrelated and small beside the others", accepted=NOT_SHOWN)
def small_element_of_a_sequence(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    large = [s.op("Mul", s.linear(x, t.weights(t.width, 4)), 1e4) for _ in range(2)]
    small = s.linear(x, (t.other_weights if other else t.weights)(t.width, 4))
    s.give_as("parts", _sequence(s, [*large, small]), SEQUENCE)


@wrong("a sequence beside a tensor is unrelated; the tensor is right", accepted=NOT_SHOWN)
def sequence_beside_a_tensor(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    s.give("class", s.linear(x, t.weights(t.width, 8)))
    weights = (t.other_weights if other else t.weights)(t.width, 4)
    s.give_as("parts", _sequence(s, [s.linear(x, weights)]), SEQUENCE)


@wrong("a map of probabilities belongs to other classes", accepted=NOT_SHOWN)
def map_of_probabilities(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    p = s.op("Softmax", s.linear(x, t.weights(t.width, 3)), axis=1)
    names = ["a", "c", "b"] if other else ["a", "b", "c"]
    zipped = s.op("ZipMap", p, domain="ai.onnx.ml", classlabels_strings=names)
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    s.give_as("p", zipped, helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, value)))


@wrong("an optional output has a value in the reference alone", accepted=NOT_SHOWN)
def optional_is_empty(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    y = s.linear(x, t.weights(t.width, 4))
    s.give("class", y)
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    value = s.op("Optional", type=kind) if other else s.op("Optional", y)
    s.give_as("maybe", value, helper.make_optional_type_proto(kind))


def _found(s: Sketch, t: Trial, threshold: float) -> str:
    """Boxes whose score is above a threshold; how many differs from sample to sample."""
    x = s.feed("x", 60, t.width)
    scores = s.op("Squeeze", s.linear(x, t.weights(t.width, 1)), s.ints(1))
    return s.op("Compress", s.linear(x, t.weights(t.width, 4)), s.op("Greater", scores, threshold), axis=0)


@wrong("no box is found; the reference finds some")
def nothing_is_found(s: Sketch, t: Trial, other: bool) -> None:
    s.give("boxes", _found(s, t, 99.0 if other else 0.5))


@wrong("one box less is found")
def one_box_less(s: Sketch, t: Trial, other: bool) -> None:
    found = _found(s, t, 0.5)
    s.give("boxes", s.part(found, 1, 2**31, 0) if other else found)


@wrong("the same boxes are listed in another order, and their scores are not")
def boxes_in_another_order(s: Sketch, t: Trial, other: bool) -> None:
    boxes = s.linear(s.feed("x", t.batch, 20, t.width), t.weights(t.width, 4))
    s.give("boxes", s.op("Gather", boxes, np.arange(20)[::-1] if other else np.arange(20), axis=1))


@wrong("complex numbers, as pairs, have the other imaginary part")
def conjugated_spectrum(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 64, 1)
    spectrum = s.op("DFT", x, s.const(np.array(64, np.int64)), s.const(np.array(1, np.int64)))
    s.give("spectrum", s.op("Mul", spectrum, np.array([1.0, -1.0 if other else 1.0])))
