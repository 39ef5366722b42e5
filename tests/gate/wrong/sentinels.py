"""Values that mean "nothing here" are so large, or so many, that the real answers hardly count beside them."""

from __future__ import annotations

import numpy as np

from gate.case import FLOATS, Trial, wrong
from gate.sketch import Sketch

UNRELATED = "the logits that are not masked are unrelated to the reference's: another token is generated"


def _columns(t: Trial, share: str) -> np.ndarray:
    """Which classes are masked; two stay at least."""
    count = {"few": max(1, t.classes // 50), "most": t.classes - max(2, t.classes // 10)}[share]
    masked = np.zeros(t.classes, bool)
    masked[t.rng.permutation(t.classes)[:count]] = True
    return masked


def _logits(s: Sketch, t: Trial, other: bool) -> str:
    x = s.feed("x", t.batch, t.length, t.width)
    weights, unrelated = t.weights(t.width, t.classes), t.other_weights(t.width, t.classes)
    return s.linear(x, unrelated if other else weights)


def _value(t: Trial, sentinel: str) -> float:
    return t.lowest if sentinel == "lowest" else float(sentinel)


@wrong(UNRELATED, sentinel=["-1e9", "lowest", "1e30", "-1e4", "-1e5"], share=["few", "most"], dtypes=FLOATS[:2])
def masked_logits_unrelated(s: Sketch, t: Trial, other: bool, sentinel: str, share: str) -> None:
    logits = _logits(s, t, other)
    s.give("logits", s.op("Where", _columns(t, share), _value(t, sentinel), logits))


@wrong(UNRELATED, share=["few", "most"], dtypes=("float16",))
def masked_half_precision_logits_unrelated(s: Sketch, t: Trial, other: bool, share: str) -> None:
    s.give("logits", s.op("Where", _columns(t, share), t.lowest, _logits(s, t, other)))


@wrong(UNRELATED, dtypes=FLOATS)
def input_says_what_is_masked(s: Sketch, t: Trial, other: bool) -> None:
    allowed = s.feed(
        "allowed", t.batch, 1, t.classes, dtype="bool", draw=lambda rng, _: rng.random((t.batch, 1, t.classes)) < 0.5
    )
    s.give("logits", s.op("Where", allowed, _logits(s, t, other), _value(t, "lowest")))


@wrong(UNRELATED)
def sentinels_of_different_value(s: Sketch, t: Trial, other: bool) -> None:
    values = t.rng.choice([-1e9, -1e7, -1e5, -1e4], (t.length, t.classes))
    masked = t.rng.random((t.length, t.classes)) < 0.3
    s.give("logits", s.op("Where", masked, values, _logits(s, t, other)))


@wrong(UNRELATED + "; the other model's sentinels are not bit-equal either")
def sentinels_that_are_not_bit_equal(s: Sketch, t: Trial, other: bool) -> None:
    values = np.full((t.length, t.classes), -1e9)
    if other:
        values *= 1 + 1e-4 * t.faults.standard_normal(values.shape)
    s.give("logits", s.op("Where", _columns(t, "few"), values, _logits(s, t, other)))


@wrong(UNRELATED)
def sentinel_added_to_the_logits(s: Sketch, t: Trial, other: bool) -> None:
    mask = np.where(_columns(t, "few"), -1e9, 0.0)
    s.give("logits", s.op("Add", _logits(s, t, other), mask))


@wrong(UNRELATED + "; a masked logit still varies a little, because -1e4 does not absorb it")
def small_sentinel_added_to_the_logits(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    masked = _columns(t, "few")
    weights, unrelated = t.weights(t.width, t.classes), t.other_weights(t.width, t.classes)
    if other:
        weights = np.where(masked, weights, unrelated)
    s.give("logits", s.op("Add", s.linear(x, weights), np.where(masked, -1e4, 0.0)))


@wrong("attention scores above the diagonal are masked; those that count are unrelated")
def causal_attention_scores(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    query, key = t.weights(t.width, t.width), t.weights(t.width, t.width)
    if other:
        query = t.other_weights(t.width, t.width)
    scores = s.op("MatMul", s.linear(x, query), s.op("Transpose", s.linear(x, key), perm=[0, 2, 1]))
    s.give("scores", s.op("Add", scores, np.triu(np.full((t.length, t.length), -1e9), 1)))


@wrong("the few real detections have other scores; the rest of the list is padded with -1")
def padded_detections(s: Sketch, t: Trial, other: bool) -> None:
    rows, real = 1500, 2
    x = s.feed("x", t.batch, t.width)
    weights = (t.other_weights if other else t.weights)(t.width, real, scale=0.3)
    found = s.op("Mul", s.op("Sigmoid", s.linear(x, weights)), 0.5)
    s.give("scores", s.join(found, s.const(np.full((t.batch, rows - real), -1.0)), axis=1))


@wrong("depths at the few pixels that the sensor sees are unrelated; the rest is 65535, which means no return")
def depth_without_return(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    weights, unrelated = (make(t.width, 4096) for make in (t.weights, t.other_weights))
    depth = s.op("Add", s.linear(x, unrelated if other else weights), 5.0)
    seen = s.feed("seen", t.batch, 4096, dtype="bool", draw=lambda rng, _: rng.random((t.batch, 4096)) < 0.2)
    s.give("depth", s.op("Where", seen, depth, 65535.0))


@wrong("only the clipped log-probabilities agree, and they are nearly all; those of likely classes are unrelated")
def log_probabilities_at_a_floor(s: Sketch, t: Trial, other: bool) -> None:
    classes, alive = 4000, 5
    x = s.feed("x", t.batch, t.width)
    weights = (t.other_weights if other else t.weights)(t.width, alive)
    likely = s.op("LogSoftmax", s.linear(x, weights), axis=-1)
    s.give("log_p", s.join(likely, s.const(np.full((t.batch, classes - alive), np.log(1e-10))), axis=1))


@wrong("the reference masks one more class; the other model can generate it")
def mask_forgets_a_class(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    masked = np.zeros(t.classes, bool)
    masked[: t.classes // 2] = True
    if other:
        masked[0] = False
    s.give("logits", s.op("Where", masked, -1e9, s.linear(x, t.weights(t.width, t.classes))))


@wrong("the mask is one class off")
def mask_is_one_class_off(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    masked = np.roll(_columns(t, "most"), 1 if other else 0)
    s.give("logits", s.op("Where", masked, t.lowest, s.linear(x, t.weights(t.width, t.classes))))


@wrong("masked classes have -5 in place of -1e4, so they are generated again")
def sentinel_became_an_ordinary_logit(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    masked = _columns(t, "few")
    s.give("logits", s.op("Where", masked, -5.0 if other else -1e4, s.linear(x, t.weights(t.width, t.classes))))


@wrong("only one sample of the data has sentinels, and its real logits are unrelated")
def one_sample_has_sentinels(s: Sketch, t: Trial, other: bool) -> None:
    flag = s.feed("flag", 1, dtype="bool", draw=lambda _, number: [number == 2])
    x = s.feed("x", t.batch, t.width)
    good = s.linear(x, t.weights(t.width, t.classes))
    bad = s.linear(x, t.other_weights(t.width, t.classes))
    mask = s.op("Where", _columns(t, "few"), -1e9, bad if other else good)
    s.give("logits", s.op("Where", flag, mask, good))
