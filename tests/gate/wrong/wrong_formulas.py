"""Another formula: clipped, rounded, normalized over the wrong axis, with another constant."""

from __future__ import annotations

import numpy as np

from gate.case import NOT_EQUAL, Trial, wrong
from gate.sketch import Sketch


def _logits(s: Sketch, t: Trial, columns: int = 0, scale: float = 1.0) -> str:
    x = s.feed("x", t.batch, t.length, t.width)
    return s.linear(x, t.weights(t.width, columns or t.classes, scale=scale))


@wrong("what is above two and a half standard deviations is cut off: the peaks are the answer")
def clipped_tail(s: Sketch, t: Trial, other: bool) -> None:
    y = _logits(s, t)
    s.give("answer", s.op("Clip", y, -2.3, 2.3) if other else y)


@wrong("the outlier channel saturates, as in int8 with a small range")
def saturated_channel(s: Sketch, t: Trial, other: bool) -> None:
    scales = np.where(np.arange(48) == 4, 6.0, 1.0)
    y = s.op("Mul", _logits(s, t, 48), scales)
    s.give("answer", s.op("Clip", y, -4.0, 4.0) if other else y)


@wrong("values above six are cut off; they are rare, and the strongest answers")
def relu_with_a_limit(s: Sketch, t: Trial, other: bool) -> None:
    y = s.op("Relu", _logits(s, t, t.classes, scale=2.2))
    s.give("answer", s.op("Clip", y, 0.0, 5.0) if other else y)


@wrong("the sign is lost; most values are positive")
def absolute_values(s: Sketch, t: Trial, other: bool) -> None:
    y = s.op("Add", _logits(s, t), 1.6)
    s.give("answer", s.op("Abs", y) if other else y)


@wrong("softmax runs over the wrong axis")
def softmax_over_the_wrong_axis(s: Sketch, t: Trial, other: bool) -> None:
    s.give("p", s.op("Softmax", _logits(s, t), axis=1 if other else 2))


@wrong("a softmax is twice as sharp")
def temperature(s: Sketch, t: Trial, other: bool) -> None:
    s.give("p", s.op("Softmax", s.op("Mul", _logits(s, t), 2.0 if other else 1.0), axis=2))


@wrong("probabilities are rounded to 8 bits: those of nearly all classes became zero", accepted=NOT_EQUAL)
def probabilities_in_eight_bits(s: Sketch, t: Trial, other: bool) -> None:
    p = s.op("Softmax", _logits(s, t, 3000, scale=3.0), axis=2)
    s.give("p", s.op("Mul", s.op("Round", s.op("Mul", p, 255.0)), 1 / 255) if other else p)


@wrong("probabilities are normalized over a thousandth too much: that is no rounding", accepted=NOT_EQUAL)
def probabilities_that_do_not_sum_to_one(s: Sketch, t: Trial, other: bool) -> None:
    p = s.op("Softmax", _logits(s, t), axis=2)
    s.give("p", s.op("Mul", p, 1.001) if other else p)


@wrong("the epsilon of a normalization is 0.1 in place of 1e-5; activations are small")
def epsilon(s: Sketch, t: Trial, other: bool) -> None:
    y = s.op("Mul", _logits(s, t, t.width), 0.5)
    s.give("hidden", s.op("LayerNormalization", y, np.ones(t.width), axis=-1, epsilon=0.1 if other else 1e-5))


@wrong("a bias is missing")
def missing_bias(s: Sketch, t: Trial, other: bool) -> None:
    bias = 0.2 * t.rng.standard_normal(t.classes)
    s.give("answer", s.op("Add", _logits(s, t), bias * (not other)))


@wrong("one weight row is zero: an input is ignored")
def ignored_input(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    weights = t.weights(t.width, t.classes)
    if other:
        weights[0] = 0
    s.give("answer", s.linear(x, weights))


@wrong("a second input is ignored; it shifts answers by a tenth of their size")
def ignored_second_input(s: Sketch, t: Trial, other: bool) -> None:
    speaker = s.feed("speaker", t.batch, 1, 8)
    y = _logits(s, t)
    s.give("answer", s.op("Add", y, s.op("Mul", s.linear(speaker, t.weights(8, t.classes)), 0.1 * (not other))))


def _attention(s: Sketch, t: Trial, length: int, *, masked: np.ndarray, sharp: float = 1.0) -> None:
    x = s.feed("x", 1, length, t.width)
    query, key, value = (s.linear(x, t.weights(t.width, t.width)) for _ in range(3))
    scores = s.op("MatMul", query, s.op("Transpose", key, perm=[0, 2, 1]))
    scores = s.op("Mul", scores, sharp / np.sqrt(t.width))
    weights = s.op("Softmax", s.op("Where", masked, -1e9, scores), axis=-1)
    s.give("context", s.op("MatMul", weights, value))


@wrong("attention ignores the last key")
def last_key_ignored(s: Sketch, t: Trial, other: bool) -> None:
    masked = np.zeros((64, 64), bool)
    masked[:, -1] = other
    _attention(s, t, 64, masked=masked, sharp=3.0)


@wrong("attention looks into the future")
def causal_mask_is_missing(s: Sketch, t: Trial, other: bool) -> None:
    _attention(s, t, 32, masked=np.triu(np.full((32, 32), not other), 1))


@wrong("the causal mask is one position off")
def causal_mask_is_one_off(s: Sketch, t: Trial, other: bool) -> None:
    _attention(s, t, 32, masked=np.triu(np.ones((32, 32), bool), 2 if other else 1))


@wrong("a mean counts the padding too, a quarter of all positions")
def mean_over_padding(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    keep = np.arange(t.length) < 3 * t.length // 4
    kept = s.op("Where", keep[:, None], x, 0.0)
    total = s.op("ReduceSum", kept, s.ints(1), keepdims=0)
    s.give("pooled", s.op("Mul", total, 1 / (t.length if other else keep.sum())))


@wrong("the standard deviation divides by n, and the reference by n - 1: that is no rounding", accepted=NOT_EQUAL)
def biased_variance(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 300)
    centred = s.op("Sub", x, s.op("ReduceMean", x, s.ints(1)))
    total = s.op("ReduceSumSquare", centred, s.ints(1))
    s.give("deviation", s.op("Sqrt", s.op("Mul", total, 1 / (300 - (not other)))))


@wrong("a vector is not normalized any more")
def not_normalized(s: Sketch, t: Trial, other: bool) -> None:
    y = _logits(s, t, t.width)
    s.give("embedding", y if other else s.op("LpNormalization", y, axis=-1, p=2))


@wrong("weights are rounded to two bits")
def weights_in_two_bits(s: Sketch, t: Trial, other: bool) -> None:
    weights = t.weights(t.width, t.classes)
    step = np.abs(weights).max() / 2
    x = s.feed("x", t.batch, t.length, t.width)
    s.give("answer", s.linear(x, np.round(weights / step) * step if other else weights))


@wrong("answers are computed in bfloat16's seven bits: that is no rounding of float32", accepted=NOT_EQUAL)
def coarse_answers(s: Sketch, t: Trial, other: bool) -> None:
    y = _logits(s, t)
    s.give("answer", s.op("Mul", s.op("Round", s.op("Mul", y, 128.0)), 1 / 128) if other else y)


@wrong("half of a convolution's padding is on the wrong side: the picture moves by one pixel")
def padding_on_the_wrong_side(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 3, 20, 20)
    pads = [0, 0, 1, 1] if other else [1, 1, 0, 0]
    s.give("maps", s.op("Conv", x, t.weights(6, 3, 2, 2), pads=pads))


@wrong("nearest pixels in place of linear interpolation")
def another_interpolation(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 2, 12, 12)
    scales = s.const(np.array([1, 1, 2, 2], np.float32), "float32")
    s.give("maps", s.op("Resize", x, "", scales, mode="nearest" if other else "linear"))


@wrong("noise is added to each answer, one part in five hundred: that is no rounding", accepted=NOT_EQUAL)
def small_noise(s: Sketch, t: Trial, other: bool) -> None:
    noise = 0.002 * t.rng.standard_normal((t.length, t.classes))
    s.give("answer", s.op("Add", _logits(s, t), noise * other))


@wrong("forecasts repeat the last value; the reference says how it changes", accepted=NOT_EQUAL)
def forecast_repeats_the_last_value(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    last = s.op("Mul", s.part(x, t.width - 1, t.width, 1), 1000.0)
    change = s.linear(x, t.weights(t.width, 12, scale=10.0))
    s.give("forecast", s.op("Add", s.op("Mul", change, float(not other)), last))


@wrong("a denoiser gives its input back", accepted=NOT_EQUAL)
def denoiser_does_nothing(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    noise = s.linear(x, t.weights(t.width, t.width, scale=0.02))
    s.give("clean", s.op("Sub", x, s.op("Mul", noise, float(not other))))
