"""Ids, counts, flags and pictures: their difference as numbers says nothing."""

from __future__ import annotations

import numpy as np

from gate.case import Trial, wrong
from gate.sketch import Sketch


def _ids(s: Sketch, t: Trial, other: bool) -> str:
    """The best class of each position, by weights that the other model lacks."""
    x = s.feed("x", t.batch, t.length, t.width)
    weights, unrelated = t.weights(t.width, t.classes), t.other_weights(t.width, t.classes)
    return s.op("ArgMax", s.linear(x, unrelated if other else weights), axis=-1, keepdims=0)


@wrong("every token id is another token; the vocabulary begins at 30000")
def all_token_ids(s: Sketch, t: Trial, other: bool) -> None:
    s.give("ids", s.op("Add", _ids(s, t, other), np.int64(30000)), "int64")


@wrong("every token id is another token; the model gives them as floating-point numbers")
def all_token_ids_as_floats(s: Sketch, t: Trial, other: bool) -> None:
    s.give("ids", s.op("Add", s.cast(_ids(s, t, other), "float32"), 30000.0))


@wrong("every class is the next one; the model gives classes as floating-point numbers")
def classes_one_further_as_floats(s: Sketch, t: Trial, other: bool) -> None:
    index = s.op("ArgMax", s.linear(s.feed("x", t.batch, 30, t.width), t.weights(t.width, 900)), axis=2, keepdims=0)
    s.give("class", s.op("Add", s.cast(index, t.dtype.name), float(other)))


@wrong("every class is the next one; a row holds a box's class and its score")
def classes_one_further_beside_scores(s: Sketch, t: Trial, other: bool) -> None:
    logits = s.linear(s.feed("x", 1, 100, t.width), t.weights(t.width, 90))
    index = s.cast(s.op("ArgMax", logits, axis=2, keepdims=1), t.dtype.name)
    score = s.op("Sigmoid", s.op("ReduceMax", logits, s.ints(2), keepdims=1))
    s.give("found", s.join(s.op("Add", index, float(other)), score, axis=2))


@wrong("row ids of a database differ by one; float64 cannot tell them apart")
def ids_above_two_to_the_53(s: Sketch, t: Trial, other: bool) -> None:
    s.give("ids", s.op("Add", _ids(s, t, False), np.int64(2**53 + 2 + other)), "int64")


@wrong("hashes differ in their last bit")
def hashes(s: Sketch, t: Trial, other: bool) -> None:
    index = _ids(s, t, False)
    table = t.rng.integers(2**62, 2**63, t.classes, dtype=np.uint64)
    s.give("hash", s.op("Gather", table ^ np.uint64(other), index), "uint64")


@wrong("one id of many is wrong")
def one_id_of_many(s: Sketch, t: Trial, other: bool) -> None:
    fault = np.zeros((t.batch, t.length), np.int64)
    fault[-1, -1] = other
    s.give("ids", s.op("Add", _ids(s, t, False), fault), "int64")


@wrong("two tokens of a sentence are exchanged")
def two_tokens_exchanged(s: Sketch, t: Trial, other: bool) -> None:
    order = np.arange(t.length)
    if other:
        order[[3, 4]] = order[[4, 3]]
    ids = s.op("Gather", _ids(s, t, False), order, axis=1)
    s.give("ids", s.op("Add", ids, np.int64(1000) + np.arange(t.length)), "int64")


@wrong("a count of 10000 and some is one too high")
def count_off_by_one(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    above = s.cast(s.op("Greater", x, 0.0), "int32")
    count = s.op("ReduceSum", above, s.ints(1), keepdims=0)
    s.give("count", s.op("Add", count, np.int32(10000 + other)), "int32")


@wrong("every timestamp, in seconds, is a minute late")
def timestamps_in_seconds(s: Sketch, t: Trial, other: bool) -> None:
    s.give("time", s.op("Add", _ids(s, t, False), np.int64(1_700_000_000 + 60 * other)), "int64")


@wrong("the end of the answer is found one token late")
def end_of_answer(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 4096, t.width)
    s.give("end", s.op("Add", s.op("ArgMax", s.linear(x, t.weights(t.width, 1)), axis=1), np.int64(other)), "int64")


@wrong("a bright picture lacks the mark that the reference draws")
def picture_lacks_a_mark(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 64, 64, 3, draw=lambda rng, _: 200 + 20 * rng.standard_normal((t.batch, 64, 64, 3)))
    mark = np.zeros((64, 64, 3))
    if not other:
        mark[20:24, 20:24] = -15
    s.give("picture", s.cast(s.op("Clip", s.op("Add", x, mark), 0.0, 255.0), "uint8"), "uint8")


@wrong("a picture has noise of one level where the reference has none")
def picture_with_noise(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 64, 64, 3, draw=lambda rng, _: 180 + 30 * rng.standard_normal((t.batch, 64, 64, 3)))
    noise = t.rng.integers(0, 2, (64, 64, 3)) * float(other)
    s.give("picture", s.cast(s.op("Clip", s.op("Add", s.op("Round", x), noise), 0.0, 255.0), "uint8"), "uint8")


@wrong("quantized features have another zero point: each is one level higher")
def zero_point_off_by_one(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width, draw=lambda rng, _: 80 + 10 * rng.standard_normal((t.batch, t.width)))
    s.give("q", s.op("QuantizeLinear", x, 1.0, np.int8(other)), "int8")


@wrong("one flag of many is flipped")
def one_flag_of_many(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 2000)
    flip = np.zeros(2000, bool)
    flip[7] = other
    s.give("flags", s.op("Xor", s.op("Greater", x, -1.0), flip), "bool")


@wrong("the mask is inverted")
def inverted_mask(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    flags = s.op("Greater", x, 0.0)
    s.give("mask", s.op("Not", flags) if other else flags, "bool")


@wrong("the only object of the segmentation is missing; nearly all pixels are background")
def object_missing_in_a_segmentation(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 128, 128)
    is_object = s.op("Greater", x, 9.0 if other else 3.3)
    s.give("classes", s.op("Where", is_object, np.int32(2), np.int32(1)), "int32")


@wrong("selected boxes point at other boxes")
def selected_boxes(s: Sketch, t: Trial, other: bool) -> None:
    scores = s.feed("scores", t.batch, 3000)
    _, places = s.ops("TopK", 2, scores, s.ints(20), axis=1)
    s.give("selected", s.op("Add", places, np.int64(1)) if other else places, "int64")


@wrong("the best values are right, and their places belong to others")
def places_of_the_best(s: Sketch, t: Trial, other: bool) -> None:
    scores = s.feed("scores", t.batch, t.classes)
    values, places = s.ops("TopK", 2, scores, s.ints(5), axis=1)
    s.give("values", values)
    s.give("places", s.roll(places, 5, 1) if other else places, "int64")


@wrong("an 8-bit counter overflows: 200 becomes -56")
def overflowing_integers(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width, dtype="int32", draw=lambda rng, _: rng.integers(100, 140, (t.batch, t.width)))
    s.give("sum", s.cast(s.cast(x, "int8"), "int32") if other else x, "int32")


@wrong("yes and no are given as 1.0 and 0.0, and one answer of 2000 is turned around")
def decisions_as_floats(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 2000)
    flip = np.zeros(2000, bool)
    flip[11] = other
    s.give("decisions", s.cast(s.op("Xor", s.op("Greater", x, -1.5), flip), "float32"))


@wrong("flags are packed into bytes, and the lowest bit of each is lost")
def packed_bits(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 64, dtype="uint8", draw=lambda rng, _: rng.integers(0, 256, (t.batch, 64)))
    s.give("bits", s.op("BitwiseAnd", x, np.uint8(254)) if other else x, "uint8")
