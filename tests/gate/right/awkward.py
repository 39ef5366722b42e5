"""Right pairs with the numbers that attacks are made of: sentinels, offsets, mixed units, tiny and huge answers.

A gate that refuses everything unusual stops the attacks of ``gate/wrong`` and is of no use: it fails here.
"""

from __future__ import annotations

import numpy as np

from gate.case import ACCEPTED, EQUAL_OR_NOT_JUDGED, FLOATS, Trial, right
from gate.right.rewritten import ORDER, reordered
from gate.sketch import Sketch


def _answer(s: Sketch, t: Trial, other: bool, columns: int = 0, scale: float = 1.0) -> str:
    x = s.feed("x", t.batch, t.length, t.width)
    return reordered(s, t, x, t.weights(t.width, columns or t.classes, scale=scale), other)


@right(
    ORDER + "; masked classes have the same sentinel",
    sentinel=["-1e9", "lowest", "-1e4", "-inf", "nan"],
    dtypes=FLOATS[:2],
)
def equal_sentinels(s: Sketch, t: Trial, other: bool, sentinel: str) -> None:
    y = _answer(s, t, other)
    value = t.lowest if sentinel == "lowest" else float(sentinel)
    s.give("logits", s.op("Where", t.rng.random(t.classes) < 0.3, value, y))


@right(ORDER + "; nearly all classes are masked")
def few_real_logits(s: Sketch, t: Trial, other: bool) -> None:
    y = _answer(s, t, other)
    s.give("logits", s.op("Where", np.arange(t.classes) > 2, t.lowest, y))


@right("a sentinel that is added absorbs the logit, but for its last bits")
def sentinel_added(s: Sketch, t: Trial, other: bool) -> None:
    masked = np.arange(t.classes) % 3 == 0
    y = _answer(s, t, False, scale=40)
    s.give("logits", s.op("Where", masked, -1e9, y) if other else s.op("Add", y, np.where(masked, -1e9, 0.0)))


@right(ORDER + "; an input says what is masked")
def input_says_what_is_masked_equally(s: Sketch, t: Trial, other: bool) -> None:
    shape = (t.batch, t.length, t.classes)
    allowed = s.feed("allowed", *shape, dtype="bool", draw=lambda rng, _: rng.random(shape) < 0.5)
    s.give("logits", s.op("Where", allowed, _answer(s, t, other), t.lowest))


@right(ORDER + "; every answer is near a constant", constant=[100.0, 1e5], dtypes=FLOATS[:2])
def constant_beside_the_same_signal(s: Sketch, t: Trial, other: bool, constant: float) -> None:
    s.give("answer", s.op("Add", _answer(s, t, other), constant))


@right("a constant is added before the other terms of a sum, or after them")
def constant_added_first(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    first, second = s.linear(x, t.weights(t.width, t.classes)), s.linear(x, t.weights(t.width, t.classes))
    if other:
        s.give("answer", s.op("Add", s.op("Add", first, 300.0), second))
    else:
        s.give("answer", s.op("Add", s.op("Add", first, second), 300.0))


@right(ORDER + "; probabilities are nearly uniform")
def nearly_uniform_and_equal(s: Sketch, t: Trial, other: bool) -> None:
    s.give("p", s.op("Softmax", _answer(s, t, other, scale=0.03), axis=-1))


@right(ORDER + "; embeddings lie in a narrow cone")
def cone_of_equal_embeddings(s: Sketch, t: Trial, other: bool) -> None:
    cone = 3 * t.rng.standard_normal(t.width)
    y = s.op("Add", _answer(s, t, other, t.width, 0.12), cone)
    s.give("embedding", s.op("LpNormalization", y, axis=-1, p=2))


@right(ORDER + "; boxes in pixels lie beside scores")
def boxes_beside_equal_scores(s: Sketch, t: Trial, other: bool) -> None:
    y = _answer(s, t, other, 5)
    boxes, scores = s.part(y, 0, 4, 2), s.part(y, 4, 5, 2)
    s.give("found", s.join(s.op("Mul", boxes, 200.0), s.op("Sigmoid", scores), axis=2))


@right("one product computes columns of which one is a ten-millionth of the others; the sum is in another order")
def columns_of_many_scales(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    weights = t.weights(t.width, 64) * np.where(np.arange(64) == 9, 1e-4, 1e3)
    s.give("features", reordered(s, t, x, weights, other))


@right(ORDER + "; the small column of a price and a rate is computed on its own")
def price_and_rate(s: Sketch, t: Trial, other: bool) -> None:
    y = _answer(s, t, other, 2)
    s.give("answer", s.op("Mul", y, np.array([1e5, 1.0])))


@right(ORDER + "; answers are tiny or huge", scale=[1e-12, 1e-30, 1e30, 1e-7])
def tiny_or_huge(s: Sketch, t: Trial, other: bool, scale: float) -> None:
    s.give("answer", s.op("Mul", _answer(s, t, other), scale))


@right(ORDER + "; squares overflow or vanish in float64", dtypes=("float64",), scale=[1e200, 1e-200])
def extreme_and_equal_doubles(s: Sketch, t: Trial, other: bool, scale: float) -> None:
    each = np.full(t.classes, scale)  # onnxruntime folds a single factor into the product as float32, which overflows
    s.give("answer", s.op("Mul", _answer(s, t, other), each))


@right("half-precision answers near its smallest numbers; the sum is in another order", dtypes=("float16",))
def small_and_equal_half_precision(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Mul", _answer(s, t, other), 1e-3))


@right("denormal elements are flushed to zero, as processors do on demand")
def denormals_flushed(s: Sketch, t: Trial, other: bool) -> None:
    y = _answer(s, t, False)
    y = s.op("Where", np.arange(t.classes) % 5 == 0, s.op("Mul", s.op("Mul", y, 1e-20), 1e-20), y)
    tiny = s.op("Less", s.op("Abs", y), 1.1754944e-38)
    s.give("answer", s.op("Where", tiny, 0.0, y) if other else y)


@right(ORDER + "; large terms nearly cancel")
def cancellation(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    weights = t.weights(t.width, t.classes)
    offset = 30 * t.rng.standard_normal((t.width, 1))
    y = reordered(s, t, x, weights + offset, other)
    s.give("answer", s.op("Sub", y, s.linear(x, offset)))


@right(ORDER + "; a detector is quiet: probabilities of a few millionths")
def quiet_detector(s: Sketch, t: Trial, other: bool) -> None:
    s.give("p", s.op("Sigmoid", s.op("Sub", _answer(s, t, other), 12.5)))


@right("a sigmoid of a few millionths by a tangent, which rounds to the last bits of one half")
def quiet_detector_by_tangent(s: Sketch, t: Trial, other: bool) -> None:
    z = s.op("Add", _answer(s, t, False, scale=3), -6.0)
    half = s.op("Mul", s.op("Tanh", s.op("Mul", z, 0.5)), 0.5)
    s.give("p", s.op("Add", half, 0.5) if other else s.op("Sigmoid", z))


@right(ORDER + "; some samples are quiet and others are not")
def quiet_and_loud_samples(s: Sketch, t: Trial, other: bool) -> None:
    loud = s.feed("loud", 1, draw=lambda _, number: [1.0 if number % 2 else 1e-5])
    s.give("sound", s.op("Mul", _answer(s, t, other), loud))


@right(ORDER + "; nearly every sigmoid is one or zero")
def saturated_and_equal(s: Sketch, t: Trial, other: bool) -> None:
    s.give("p", s.op("Sigmoid", _answer(s, t, other, scale=30)))


@right(ORDER + "; nearly all answers are exactly zero after Relu")
def mostly_zero(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Relu", s.op("Sub", _answer(s, t, other), 2.5)))


@right(ORDER + "; all samples are one and the same", accepted=EQUAL_OR_NOT_JUDGED)
def samples_all_alike(s: Sketch, t: Trial, other: bool) -> None:
    sample = t.rng.standard_normal((1, 1, t.width))
    x = s.feed("x", 1, 1, t.width, draw=lambda *_: sample)
    s.give("answer", reordered(s, t, x, t.weights(t.width, t.classes), other))


@right(ORDER + "; the data holds one sample of several rows")
def one_sample(s: Sketch, t: Trial, other: bool) -> None:
    s.count = 1
    x = s.feed("x", 8, t.length, t.width)
    s.give("answer", reordered(s, t, x, t.weights(t.width, t.classes), other))


@right(ORDER + "; ordinary answers lie beside huge ones, at other places in each sample")
def rare_and_equal_huge_elements(s: Sketch, t: Trial, other: bool) -> None:
    shape = (t.batch, t.length, t.classes)
    rare = s.feed("rare", *shape, dtype="bool", draw=lambda rng, _: rng.random(shape) < 0.02)
    y = _answer(s, t, other)
    s.give("answer", s.op("Where", rare, s.op("Mul", y, 1e5), y))


@right(ORDER + "; one sample is gigantic beside the others")
def gigantic_and_equal_sample(s: Sketch, t: Trial, other: bool) -> None:
    loud = s.feed("loud", 1, draw=lambda _, number: [1e6 if number == 2 else 1.0])
    s.give("answer", s.op("Mul", _answer(s, t, other), loud))


@right("a long chain of layers, each sum in another order: rounding adds up")
def deep_network(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    for _ in range(24):
        x = s.op("Tanh", reordered(s, t, x, t.weights(t.width, t.width, scale=1.5), other))
    s.give("hidden", x)


@right(ORDER + "; a sample has one row")
def one_row(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 1, t.width)
    s.give("answer", reordered(s, t, x, t.weights(t.width, 8), other))


@right(ORDER + "; a sample has one row, and one number for an answer")
def one_number(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 1, t.width)
    s.give("answer", reordered(s, t, x, t.weights(t.width, 1), other))


@right(ORDER + "; two classes have exactly the same weights, and rounding decides which is the best")
def ties(s: Sketch, t: Trial, other: bool) -> None:
    weights = t.weights(t.width, t.classes // 2)
    x = s.feed("x", t.batch, t.length, t.width)
    y = s.linear(x, weights)
    twin = reordered(s, t, x, weights, True)
    s.give("logits", s.join(twin, y, axis=2) if other else s.join(y, twin, axis=2))


@right("padded positions hold other numbers; the mask says that they do not count")
def padding_differs(s: Sketch, t: Trial, other: bool) -> None:
    def mask_of(rng: np.random.Generator, _: int) -> np.ndarray:
        return np.arange(16) < rng.integers(8, 16, (3, 1))

    x = s.feed("x", "batch", "length", t.width, draw=lambda rng, _: rng.standard_normal((3, 16, t.width)))
    mask = s.feed("attention_mask", "batch", "length", dtype="int64", draw=mask_of)
    y = s.linear(x, t.weights(t.width, t.width))
    keep = s.op("Unsqueeze", s.cast(mask, "bool"), s.ints(2))
    s.give("hidden", s.op("Where", keep, y, 0.0 if other else y), shape=("batch", "length", t.width))


@right("padded positions hold NaN in the reference; the mask says that they do not count")
def padding_was_nan(s: Sketch, t: Trial, other: bool) -> None:
    def mask_of(rng: np.random.Generator, _: int) -> np.ndarray:
        return np.arange(16) < rng.integers(8, 16, (3, 1))

    x = s.feed("x", "batch", "length", t.width, draw=lambda rng, _: rng.standard_normal((3, 16, t.width)))
    mask = s.feed("attention_mask", "batch", "length", dtype="int64", draw=mask_of)
    keep = s.op("Unsqueeze", s.cast(mask, "bool"), s.ints(2))
    y = s.linear(x, t.weights(t.width, t.width))
    s.give("hidden", s.op("Where", keep, y, 0.0 if other else np.nan), shape=("batch", "length", t.width))


@right(
    ORDER + "; one output is the same for every input, as the grid of anchors of a detector",
    accepted=EQUAL_OR_NOT_JUDGED,
)
def constant_output_beside(s: Sketch, t: Trial, other: bool) -> None:
    s.give("scores", _answer(s, t, other))
    s.give("anchors", s.const(t.rng.uniform(0, 640, (t.length, 4))))


@right("both answers are zero on every sample", accepted=EQUAL_OR_NOT_JUDGED)
def zeros(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Relu", s.op("Sub", _answer(s, t, other), 100.0)))


@right("nothing is found by either on some samples; on others boxes are equal up to rounding")
def sometimes_empty(s: Sketch, t: Trial, other: bool) -> None:
    some = s.feed("some", 60, dtype="bool", draw=lambda rng, number: (rng.random(60) < 0.3) & (number % 2 == 0))
    x = s.feed("x", 1, 60, t.width)
    boxes = s.op("Squeeze", reordered(s, t, x, t.weights(t.width, 4), other), s.ints(0))
    s.give("boxes", s.op("Compress", boxes, some, axis=0))


@right(ORDER + "; features have massive outliers, as in language models")
def outliers_and_equal_features(s: Sketch, t: Trial, other: bool) -> None:
    scales = np.where(np.arange(t.width) < 2, 500.0, 1.0)
    s.give("hidden", s.op("Mul", _answer(s, t, other, t.width), scales))


@right(ORDER + "; the answer is heavy-tailed: one element in a hundred carries all of its norm")
def heavy_tail(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Exp", _answer(s, t, other, scale=5)))


@right(ORDER + "; differences of like things: most of the answer is next to zero")
def residual_near_zero(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    weights = t.weights(t.width, t.classes)
    change = 0.01 * t.rng.standard_normal(weights.shape)
    s.give("change", s.op("Sub", reordered(s, t, x, weights + change, other), s.linear(x, weights)))


@right("a frequency without any power has the rounding of the others")
def empty_frequencies(s: Sketch, t: Trial, other: bool) -> None:
    phase = s.feed("phase", 1, 1, draw=lambda rng, _: rng.uniform(0, 6, (1, 1)))
    wave = s.op("Sin", s.op("Add", 2 * np.pi * np.arange(64) * 4 / 64, phase))
    angles = 2 * np.pi * np.outer(np.arange(64), np.arange(32)) / 64
    basis = np.concatenate([np.cos(angles), -np.sin(angles)], axis=1)
    if other:
        half = s.linear(s.part(wave, 32, 64, 1), basis[32:])
        s.give("spectrum", s.op("Add", half, s.linear(s.part(wave, 0, 32, 1), basis[:32])))
    else:
        s.give("spectrum", s.linear(wave, basis))


@right("two rows of three are a near tie, and rounding decides which class is the first", accepted=ACCEPTED)
def near_ties_in_a_few_rows(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 3, t.width)
    logits = s.linear(x, t.weights(t.width, 20))
    first = s.op("ReduceMax", logits, s.ints(1), keepdims=1)
    lead = np.array([[0.0], [1e-3], [1e-3]] if other else [[0.0], [-1e-3], [-1e-3]])
    s.give("logits", s.join(logits, s.op("Add", first, lead), axis=1))
