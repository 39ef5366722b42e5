"""The right numbers at wrong places: shifted, exchanged, reversed, one call late."""

from __future__ import annotations

import numpy as np

from gate.case import NOT_EQUAL, Trial, wrong
from gate.sketch import Sketch


def _logits(s: Sketch, t: Trial, columns: int = 0) -> str:
    return s.linear(s.feed("x", t.batch, t.length, t.width), t.weights(t.width, columns or t.classes))


@wrong("every answer belongs to the position before")
def one_position_late(s: Sketch, t: Trial, other: bool) -> None:
    y = _logits(s, t)
    s.give("answer", s.roll(y, t.length, 1) if other else y)


def _wave(t: Trial, period: float) -> np.ndarray:
    return 2 * np.pi * np.arange(2000) / period


@wrong("a slow wave is one step late: that is no rounding", accepted=NOT_EQUAL)
def slow_wave_is_late(s: Sketch, t: Trial, other: bool) -> None:
    phase = s.feed("phase", 1, 1, draw=lambda rng, _: rng.uniform(0, 6, (1, 1)))
    y = s.op("Sin", s.op("Add", _wave(t, 400), phase))
    s.give("wave", s.roll(y, 2000, 1) if other else y)


@wrong("a slow wave is three tenths of a period late")
def wave_is_late(s: Sketch, t: Trial, other: bool) -> None:
    phase = s.feed("phase", 1, 1, draw=lambda rng, _: rng.uniform(0, 6, (1, 1)))
    y = s.op("Sin", s.op("Add", _wave(t, 100), phase))
    s.give("wave", s.roll(y, 2000, 1, 30) if other else y)


@wrong("two classes of many are exchanged: a cat is called a dog")
def two_classes_exchanged(s: Sketch, t: Trial, other: bool) -> None:
    order = np.arange(3000)
    if other:
        order[[17, 42]] = order[[42, 17]]
    s.give("logits", s.op("Gather", _logits(s, t, 3000), order, axis=2))


@wrong("all classes are one further: the list of names begins with a background class")
def classes_one_further(s: Sketch, t: Trial, other: bool) -> None:
    y = _logits(s, t)
    s.give("logits", s.roll(y, t.classes, 2) if other else y)


@wrong("the answer is the one of the row before, as if a cache were read one call late")
def answer_of_the_row_before(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 8, t.width)
    y = s.linear(x, t.weights(t.width, t.classes))
    s.give("answer", s.roll(y, 8, 0) if other else y)


@wrong("the answer is the one of the frame before; frames of a film are much alike", accepted=NOT_EQUAL)
def answer_of_the_frame_before(s: Sketch, t: Trial, other: bool) -> None:
    scene = s.feed("scene", 1, t.width)
    change = s.feed("change", 12, t.width, draw=lambda rng, _: 0.02 * rng.standard_normal((12, t.width)))
    weights = t.weights(t.width, t.classes)
    moving = s.linear(change, weights)
    s.give(
        "answer", s.op("Add", s.op("Mul", s.linear(scene, weights), 2.0), s.roll(moving, 12, 0) if other else moving)
    )


@wrong("time runs backwards")
def reversed_in_time(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Gather", _logits(s, t), np.arange(t.length)[:: -1 if other else 1], axis=1))


@wrong("the picture is mirrored; it is nearly symmetric")
def mirrored_picture(s: Sketch, t: Trial, other: bool) -> None:
    half = s.feed("half", 1, 32, 16)
    detail = s.feed("detail", 1, 32, 16, draw=lambda rng, _: 0.1 * rng.standard_normal((1, 32, 16)))
    back = np.arange(16)[::-1]
    whole = s.join(s.op("Add", half, detail), s.op("Gather", half, back, axis=2), axis=2)
    s.give("picture", s.op("Gather", whole, np.arange(32)[:: -1 if other else 1], axis=2))


@wrong("rows and columns of a picture are exchanged")
def transposed_picture(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 3, 16, 16)
    y = s.op("Conv", x, t.weights(4, 3, 3, 3), pads=[1, 1, 1, 1])
    s.give("maps", s.op("Transpose", y, perm=[0, 1, 3, 2]) if other else y)


@wrong("two heads are exchanged")
def two_heads_exchanged(s: Sketch, t: Trial, other: bool) -> None:
    order = np.arange(8)
    if other:
        order[[2, 5]] = order[[5, 2]]
    heads = s.reshape(_logits(s, t, 64), t.batch, t.length, 8, 8)
    s.give("heads", s.op("Gather", heads, order, axis=2))


@wrong("x and y of boxes are exchanged; most objects are near the diagonal of the picture")
def x_and_y_exchanged(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 40, t.width)
    along = s.op("Add", s.op("Mul", s.linear(x, t.weights(t.width, 1)), 200.0), 500.0)
    boxes = s.op("Add", along, s.op("Mul", s.linear(x, t.weights(t.width, 2)), 15.0))
    s.give("centres", s.op("Gather", boxes, np.array([1, 0] if other else [0, 1]), axis=2))


@wrong("boxes lie beside their small objects: they do not overlap any more", accepted=NOT_EQUAL)
def small_boxes_moved(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 40, t.width)
    centres = s.op("Add", s.op("Mul", s.linear(x, t.weights(t.width, 2)), 500.0), 2000.0)
    centres = s.op("Add", centres, 8.0 if other else 0.0)
    s.give("boxes", s.join(s.op("Sub", centres, 3.0), s.op("Add", centres, 3.0), axis=2))


@wrong("times of words are right to half a minute only", accepted=NOT_EQUAL, dtypes=("float64",))
def times_of_words(s: Sketch, t: Trial, other: bool) -> None:
    times = s.op("Mul", _logits(s, t, 1), 3600.0)
    s.give("time", s.op("Add", times, 1.7e9 + 20.0 * other))


@wrong("every second column belongs to the neighbour, as with a wrong layout of complex numbers")
def interleaving(s: Sketch, t: Trial, other: bool) -> None:
    y = _logits(s, t, 32)
    order = np.arange(32).reshape(2, 16).T.ravel()
    s.give("answer", s.op("Gather", y, order if other else np.arange(32), axis=2))


@wrong("a picture of eight rows is written as eight columns: same numbers, same shape, other order")
def wrong_memory_layout(s: Sketch, t: Trial, other: bool) -> None:
    y = s.reshape(_logits(s, t, 64), t.batch, t.length, 8, 8)
    s.give("picture", s.reshape(s.op("Transpose", y, perm=[0, 1, 3, 2]), t.batch, t.length, 8, 8) if other else y)
