"""One output holds numbers of several units: those of small ones may be anything, beside large ones."""

from __future__ import annotations

import numpy as np

from gate.case import FLOATS, Trial, wrong
from gate.sketch import Sketch


def _both(s: Sketch, t: Trial, other: bool, large: int, small: int, *, rows: int = 0) -> tuple[str, str]:
    """Answers of ordinary size; those of the second are unrelated in the other model."""
    x = s.feed("x", t.batch, rows or t.length, t.width)
    first, second = t.weights(t.width, large), t.weights(t.width, small)
    if other:
        second = t.other_weights(t.width, small)
    return s.linear(x, first), s.linear(x, second)


@wrong("scores are unrelated; the same output holds boxes in pixels", rows=[300, 20], dtypes=FLOATS[:2])
def scores_beside_boxes(s: Sketch, t: Trial, other: bool, rows: int) -> None:
    boxes, scores = _both(s, t, other, 4, 1, rows=rows)
    s.give("found", s.join(s.op("Mul", boxes, 200.0), s.op("Sigmoid", scores), axis=2))


@wrong("scores of all classes are unrelated; boxes and classes lie along axis 1, as YOLO gives them")
def scores_below_boxes(s: Sketch, t: Trial, other: bool) -> None:
    boxes, scores = _both(s, t, other, 4, 80, rows=200)
    found = s.join(s.op("Mul", boxes, 200.0), s.op("Sigmoid", scores), axis=2)
    s.give("found", s.op("Transpose", found, perm=[0, 2, 1]))


@wrong("the rate is unrelated; the price beside it is in the hundred thousands")
def rate_beside_price(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    price = s.op("Mul", s.linear(x, t.weights(t.width, 1)), 1e5)
    s.give("answer", s.join(price, s.linear(x, (t.other_weights if other else t.weights)(t.width, 1)), axis=1))


@wrong("the rate is unrelated; a sample is one vector of a price and a rate", scale=[1e3, 1e5, 1e8])
def vector_of_price_and_rate(s: Sketch, t: Trial, other: bool, scale: float) -> None:
    x = s.feed("x", t.width)
    price = s.op("Mul", s.linear(x, t.weights(t.width, 1)), scale)
    s.give("answer", s.join(price, s.linear(x, (t.other_weights if other else t.weights)(t.width, 1)), axis=0))


@wrong("one column of 64 is unrelated; the others are a thousand times as large", scale=[3e1, 1e3, 1e7])
def one_small_column(s: Sketch, t: Trial, other: bool, scale: float) -> None:
    large, small = _both(s, t, other, 63, 1)
    s.give("features", s.join(s.op("Mul", large, scale), small, axis=2))


@wrong("start and end are right, in seconds; how sure the model is, is unrelated")
def sureness_beside_times(s: Sketch, t: Trial, other: bool) -> None:
    times, sure = _both(s, t, other, 2, 1, rows=3)
    s.give("segments", s.join(s.op("Add", s.op("Mul", times, 60.0), 600.0), s.op("Sigmoid", sure), axis=2))


@wrong("all frequencies but the lowest are unrelated; the lowest is the loudness, and large")
def spectrum_without_detail(s: Sketch, t: Trial, other: bool) -> None:
    loud, detail = _both(s, t, other, 1, 63)
    s.give("spectrum", s.join(s.op("Mul", loud, 500.0), detail, axis=2))


@wrong("the answer for the dark picture is unrelated; the bright one in the same batch hides it")
def units_along_the_batch(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 2, t.length, t.width)
    weights, unrelated = t.weights(t.width, t.classes), t.other_weights(t.width, t.classes)
    bright = s.op("Mul", s.linear(s.part(x, 0, 1, 0), weights), 1000.0)
    s.give("answer", s.join(bright, s.linear(s.part(x, 1, 2, 0), unrelated if other else weights), axis=0))


@wrong("the values of the cache are unrelated; keys with a large bias lie in the same output, along axis 2")
def values_beside_keys(s: Sketch, t: Trial, other: bool) -> None:
    keys, values = _both(s, t, other, t.width, t.width)
    keys = s.op("Mul", keys, 300.0)
    parts = [s.op("Unsqueeze", part, s.ints(2)) for part in (keys, values)]
    s.give("cache", s.reshape(s.join(*parts, axis=2), t.batch, t.length, 2, 4, t.width // 4))


@wrong("odd columns, of ordinary size, are unrelated; even columns are large")
def interleaved_units(s: Sketch, t: Trial, other: bool) -> None:
    large, small = _both(s, t, other, 24, 24)
    pairs = [s.op("Unsqueeze", part, s.ints(3)) for part in (s.op("Mul", large, 400.0), small)]
    s.give("answer", s.reshape(s.join(*pairs, axis=3), t.batch, t.length, 48))


@wrong("all features but two are unrelated; these two are outliers, as language models have them")
def features_beside_outliers(s: Sketch, t: Trial, other: bool) -> None:
    outliers, rest = _both(s, t, other, 2, 62)
    s.give("hidden", s.join(s.op("Add", s.op("Mul", outliers, 10.0), 300.0), rest, axis=2))


@wrong("all tokens but the first are unrelated; the first has massive activations, as language models have them")
def tokens_beside_a_massive_first(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    weights, unrelated = t.weights(t.width, t.width), t.other_weights(t.width, t.width)
    first = s.op("Mul", s.linear(s.part(x, 0, 1, 1), weights), 2000.0)
    s.give("hidden", s.join(first, s.linear(s.part(x, 1, t.length, 1), unrelated if other else weights), axis=1))


@wrong("two answers of a tenth are unrelated; the ten beside them are in the tens")
def small_head_beside_a_large_one(s: Sketch, t: Trial, other: bool) -> None:
    large, small = _both(s, t, other, 10, 2, rows=1)
    s.give("answers", s.join(s.op("Mul", large, 40.0), s.op("Mul", small, 0.1), axis=2))


@wrong("the rotation is unrelated; the translation in the same matrix is in millimetres")
def rotation_beside_translation(s: Sketch, t: Trial, other: bool) -> None:
    shift, turn = _both(s, t, other, 4, 12, rows=1)
    matrix = s.join(s.reshape(turn, t.batch, 4, 3), s.reshape(s.op("Mul", shift, 1000.0), t.batch, 4, 1), axis=2)
    s.give("pose", matrix)


@wrong("the alarm never rings; sensor values in the hundreds lie beside it")
def rare_alarm_beside_sensors(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 64, t.width)
    sensors = s.op("Add", s.op("Mul", s.linear(x, t.weights(t.width, 8)), 20.0), 300.0)
    alarm = s.cast(s.op("Greater", s.linear(x, t.weights(t.width, 1)), 99.0 if other else 1.0), t.dtype.name)
    s.give("state", s.join(sensors, alarm, axis=1))


@wrong("densities of each size between 1e-9 and 1 lie in a row; all below 1e-4 are unrelated")
def columns_of_every_magnitude(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    weights, unrelated = t.weights(t.width, 50), t.other_weights(t.width, 50)
    scales = np.logspace(-9, 0, 50)
    if other:
        weights = np.where(scales < 1e-4, unrelated, weights)
    s.give("densities", s.op("Mul", s.linear(x, weights), scales))


@wrong("one small channel of a picture-like output is unrelated; channels lie along axis 1")
def small_channel(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 8, 12, 12)
    kernels, unrelated = t.weights(16, 8, 1, 1, scale=0.3), t.other_weights(16, 8, 1, 1, scale=0.3)
    if other:
        kernels[5] = unrelated[5]
    scales = np.where(np.arange(16) == 5, 0.02, 30.0)
    s.give("maps", s.op("Conv", x, kernels * scales[:, None, None, None]))
