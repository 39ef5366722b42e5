"""Most of an answer is the same for every input, and the other model gives only that part."""

from __future__ import annotations

import numpy as np

from gate.case import FLOATS, Trial, wrong
from gate.sketch import Sketch


def _signal(s: Sketch, t: Trial, columns: int, scale: float, factor: float) -> str:
    """What depends on the input, times a factor; 0 leaves nothing of it."""
    x = s.feed("x", t.batch, t.length, t.width)
    return s.op("Mul", s.linear(x, t.weights(t.width, columns, scale=scale)), factor)


@wrong("the answer is 100 for every input; the reference's varies around it", dtypes=FLOATS[:2])
def constant_beside_a_signal(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Add", _signal(s, t, t.classes, 1.0, float(not other)), 100.0))


@wrong("what varies around 100 has the other sign")
def signal_with_the_other_sign(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", s.op("Add", _signal(s, t, t.classes, 1.0, -1.0 if other else 1.0), 100.0))


@wrong("temperatures in kelvin vary by a tenth of a degree, or not at all")
def temperatures_in_kelvin(s: Sketch, t: Trial, other: bool) -> None:
    s.give("kelvin", s.op("Add", _signal(s, t, 1, 0.1, float(not other)), 293.0))


@wrong("probabilities are the same for every input; the reference's are nearly uniform, and their order is the answer")
def nearly_uniform_probabilities(s: Sketch, t: Trial, other: bool) -> None:
    s.give("p", s.op("Softmax", _signal(s, t, t.classes, 0.03, float(not other)), axis=-1))


@wrong("log-probabilities are those of the classes in general; what the input says is lost")
def prior_of_each_class(s: Sketch, t: Trial, other: bool) -> None:
    prior = -3 + 4 * t.rng.standard_normal(t.classes)
    s.give("log_p", s.op("Add", _signal(s, t, t.classes, 0.1, float(not other)), prior))


@wrong("probabilities are those of the classes in general; what the input says is lost")
def prior_as_probabilities(s: Sketch, t: Trial, other: bool) -> None:
    prior = 2 * t.rng.standard_normal(t.classes)
    s.give("p", s.op("Softmax", s.op("Add", _signal(s, t, t.classes, 0.04, float(not other)), prior), axis=-1))


@wrong("hidden states hold only the position; the token is lost")
def constant_of_each_position(s: Sketch, t: Trial, other: bool) -> None:
    positions = 5 * t.rng.standard_normal((t.length, t.width))
    s.give("hidden", s.op("Add", _signal(s, t, t.width, 0.15, float(not other)), positions))


@wrong("every input gives the mean picture; the reference adds what is special of it")
def mean_picture(s: Sketch, t: Trial, other: bool) -> None:
    mean = t.rng.uniform(0, 255, (3, 32, 32))
    x = s.feed("x", t.batch, t.width)
    detail = s.reshape(s.linear(x, t.weights(t.width, 3 * 32 * 32, scale=5.0)), t.batch, 3, 32, 32)
    s.give("picture", s.op("Add", s.op("Mul", detail, float(not other)), mean))


@wrong("embeddings of all texts are one vector; those of many models lie in a narrow cone around it")
def embeddings_in_a_cone(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    cone = 3 * t.rng.standard_normal(t.width)
    own = s.op("Mul", s.linear(x, t.weights(t.width, t.width, scale=0.12)), float(not other))
    s.give("embedding", s.op("LpNormalization", s.op("Add", own, cone), axis=-1, p=2))


@wrong("logits of a row share a large number that softmax ignores; what tells classes apart is unrelated")
def shift_that_softmax_ignores(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    weights, unrelated = t.weights(t.width, t.classes), t.other_weights(t.width, t.classes)
    shift = s.op("Mul", s.linear(x, t.weights(t.width, 1)), 100.0)
    s.give("logits", s.op("Add", s.linear(x, unrelated if other else weights), shift))


@wrong("logits of all rows are near -40; what tells classes apart is unrelated")
def logits_with_a_common_offset(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.length, t.width)
    weights, unrelated = t.weights(t.width, t.classes), t.other_weights(t.width, t.classes)
    s.give("logits", s.op("Add", s.linear(x, unrelated if other else weights), -40.0))


@wrong("one channel is 50 for every input; the others vary")
def one_channel_is_constant(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 8, 12, 12)
    kernels = t.weights(16, 8, 1, 1, scale=0.3)
    bias = 10 * t.rng.standard_normal(16)
    bias[3] = 50.0
    if other:
        kernels[3] = 0
    s.give("maps", s.op("Conv", x, kernels, bias))


@wrong("a sample's brightness is right; what the picture shows is lost")
def brightness_of_each_sample(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 24, 24)
    bright = s.feed("bright", 1, 1, 1, draw=lambda rng, _: rng.uniform(50, 250, (1, 1, 1)))
    s.give("picture", s.op("Add", s.op("Mul", x, float(not other)), bright))


@wrong("coordinates are those of the town's centre for every input; the reference tells streets apart")
def coordinates_within_a_town(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    place = s.op("Mul", s.linear(x, t.weights(t.width, 2)), 0.01 * (not other))
    s.give("place", s.op("Add", place, np.array([52.52, 13.40])))


@wrong("heart beats are gone; the slow baseline of the recording is there")
def peaks_on_a_baseline(s: Sketch, t: Trial, other: bool) -> None:
    times = np.arange(1000)
    shape = np.zeros(1000)
    shape[::100] = 8.0
    x = s.feed("x", t.batch, 1)
    beats = s.op("Mul", x, shape * (not other))
    s.give("ecg", s.op("Add", beats, 50 * np.sin(times / 200)))


@wrong("red and blue are exchanged; pictures are grey with a touch of colour")
def red_and_blue_exchanged(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 3, 24, 24, draw=lambda rng, _: 128 + 3 * rng.standard_normal((t.batch, 3, 24, 24)))
    s.give("picture", s.op("Gather", x, np.array([2, 1, 0] if other else [0, 1, 2]), axis=1))


@wrong("one output varies as it should; the other one is a constant, next to which its signal was small")
def second_output_is_constant(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    s.give("class", s.linear(x, t.weights(t.width, t.classes)))
    age = s.op("Mul", s.linear(x, t.weights(t.width, 1)), 1.0 * (not other))
    s.give("age", s.op("Add", age, 38.0))
