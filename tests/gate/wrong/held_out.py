"""Attacks that were written after the rules of the gate, by somebody who had not looked at it: all were new to it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from gate.case import NOT_EQUAL, NOT_SHOWN, Trial, wrong
from gate.sketch import Sketch


def _answers(s: Sketch, t: Trial, rows: int, columns: int) -> tuple[str, str]:
    """A good answer and an unrelated one, each of variance 1."""
    x = s.feed("x", rows, t.width)
    return s.linear(x, t.weights(t.width, columns)), s.linear(x, t.other_weights(t.width, columns))


@wrong("how often a rare thing happens is unrelated to the input; a common thing stands beside it", rare=(0.02, 0.005))
def rare_probability(s: Sketch, t: Trial, other: bool, rare: float) -> None:
    good, bad = _answers(s, t, 8, 2)
    shifted = s.op("Add", bad if other else good, np.array([0.0, np.log(rare)]))
    common = s.part(s.op("Sigmoid", good), 0, 1, 1)
    s.give("chances", s.join(common, s.part(s.op("Sigmoid", shifted), 1, 2, 1), axis=1))


@wrong("one quantity of one device is unrelated: its unit is small, and no slice has it alone", accepted=NOT_EQUAL)
def small_quantity_of_one_device(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 4, 3 * 5 * 20)
    good, bad = (s.reshape(one, 4, 3, 5, 20) for one in (good, bad))
    units = np.full((1, 3, 5, 1), 50.0)
    units[0, 1, 3] = 0.5
    here = np.zeros((1, 3, 5, 1), bool)
    here[0, 1, 3] = True
    s.give("readings", s.op("Mul", s.op("Where", here, bad, good) if other else good, units))


@wrong("the texture of pictures in a batch is lost; the brightness of each channel of each picture is right")
def texture_beside_brightness(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 6, 3 * 16 * 16)
    good, bad = (s.reshape(one, 6, 3, 16, 16) for one in (good, bad))
    level = s.feed("level", 6, 3, 1, 1)
    s.give("picture", s.op("Add", s.op("Mul", level, 40.0), bad if other else good))


@wrong("which of the answers to a question is the best is unrelated; each question has a level of its own")
def relevance_beside_difficulty(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 5, 7 * 30)
    good, bad = (s.reshape(one, 5, 7, 30) for one in (good, bad))
    level = s.feed("level", 5, 7, 1)
    s.give("relevance", s.op("Add", s.op("Mul", level, 30.0), bad if other else good))


@wrong("the upper quantile of a forecast is the median once more")
def upper_quantile_is_the_median(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 6, 24)
    median = s.op("Unsqueeze", s.op("Mul", good, 20.0), s.ints(2))
    spread = s.op("Unsqueeze", s.op("Exp", s.part(s.linear("x", t.weights(t.width, 30)), 0, 24, 1)), s.ints(2))
    upper = s.op("Add", median, spread)
    s.give("quantiles", s.join(s.op("Sub", median, spread), median, median if other else upper, axis=2))


@wrong("one bin later: a histogram of whole numbers that are written as floats")
def histogram_one_bin_late(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 4, 60)
    counts = s.op("Floor", s.op("Exp", s.op("Mul", good, 2.0)))
    s.give("histogram", s.roll(counts, 60, 1) if other else counts)


@wrong("letters are unrelated in the few frames that have one; in all others the blank wins by far")
def letters_among_blanks(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 100, t.width)
    frames = s.feed("speaks", 1, 100, 1, dtype="bool", draw=lambda rng, _: rng.random((1, 100, 1)) < 0.05)
    good, bad = (s.linear(x, one(t.width, 28)) for one in (t.weights, t.other_weights))
    blank = np.zeros(28)
    blank[0] = 25
    silent = s.op("Add", good, blank)
    s.give("logits", s.op("Where", frames, s.op("Mul", bad if other else good, 3.0), silent))


@wrong("the upper half of a spectrum in decibels became silence; silence is exactly -80 in both")
def high_frequencies_are_silent(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 2, 64 * 30)
    sound = s.op("Add", s.op("Mul", s.reshape(good, 2, 64, 30), 12.0), -60.0)
    spectrum = s.op("Max", sound, -80.0)
    high = np.arange(64)[None, :, None] >= 32
    s.give("decibels", s.op("Where", high, -80.0, spectrum) if other else spectrum)


@wrong("minutes are unrelated in a time whose days are right", dtypes=("float64",), accepted=NOT_EQUAL)
def minutes_of_a_date(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 8, 1)
    day = s.feed("day", 8, 1, draw=lambda rng, _: 20_000 + rng.integers(0, 3, (8, 1)))
    seconds = s.op("Mul", s.op("Tanh", bad if other else good), 300.0)
    s.give("epoch", s.op("Add", s.op("Mul", day, 86_400.0), seconds))


@wrong("a fifth of the rows of a one-hot answer in floats has another class")
def one_hot_of_another_class(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 20, 12)
    best = s.op("ArgMax", good, axis=1, keepdims=0)
    if other:
        moved = s.op("Mod", s.op("Add", best, s.ints(1)), s.ints(12))
        best = s.op("Where", np.arange(20) % 5 == 3, moved, best)
    s.give("choice", s.op("OneHot", best, np.int64(12), np.array([0.0, 1.0])))


@wrong("one probability of a map of labels is that of another label", accepted=NOT_SHOWN)
def map_with_integer_labels(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 3, 5)
    chances = s.op("Softmax", good, axis=1)
    if other:
        order = np.array([0, 1, 2, 4, 3])
        chances = s.op("Gather", chances, order, axis=1)
    labels = [10, 20, 30, 40, 50]
    found = s.op("ZipMap", s.cast(chances, "float32"), domain="ai.onnx.ml", classlabels_int64s=labels)
    value = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    entry = onnx.TypeProto()
    entry.map_type.key_type = onnx.TensorProto.INT64
    entry.map_type.value_type.CopyFrom(value)
    s.give_as("chances", found, helper.make_sequence_type_proto(entry))


@wrong("the last of three parts of a sequence, each of another shape, is unrelated")
def last_part_of_a_sequence(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 6, 40)
    parts = [s.part(good, 0, 6, 0), s.part(good, 0, 20, 1), s.part(bad if other else good, 36, 40, 1)]
    found = s.op("SequenceConstruct", *parts)
    s.give_as("parts", found, helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None)))


@wrong("a loss of no axis is unrelated; it lies around 700 and differs by less than 2")
def scalar_loss(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 8, 1)
    mean = s.op("ReduceMean", bad if other else good, keepdims=0)
    s.give("loss", s.op("Add", mean, 700.0))


@wrong("the few boxes that are found are unrelated; on most samples nothing is found")
def boxes_of_the_only_finding(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 6, 4)
    found = s.feed("found", 6, dtype="bool", draw=lambda _, number: np.arange(6) < (2 if number % 3 == 1 else 0))
    s.give("boxes", s.op("Compress", s.op("Mul", bad if other else good, 100.0), found, axis=0))


@wrong("tokens behind the twentieth are unrelated: a table of positions was cut; few samples are so long")
def behind_the_last_position(s: Sketch, t: Trial, other: bool) -> None:
    def draw(rng: np.random.Generator, number: int) -> np.ndarray:
        return rng.standard_normal((1, 26 if number == 1 else 10 + number, t.width))

    x = s.feed("x", 1, "length", t.width, draw=draw)
    good, bad = (s.linear(x, one(t.width, 40)) for one in (t.weights, t.other_weights))
    if other:
        kept, late = s.part(good, 0, 20, 1), s.part(bad, 20, 10_000, 1)
        good = s.join(kept, late, axis=1)
    s.give("tokens", good)


@wrong("large numbers are cut at 20,000", dtypes=("float16", "float32"))
def large_half_precision_numbers_are_cut(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 6, 30)
    large = s.op("Mul", s.op("Tanh", good), 30_000.0)
    s.give("energy", s.op("Min", large, 20_000.0) if other else large)


@wrong("the last state of a memory is that of the step before; the output of all steps is right")
def state_of_the_step_before(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 2, 12, t.width)
    steps = s.op("Tanh", s.linear(x, t.weights(t.width, 16)))
    s.give("steps", steps)
    last = 10 if other else 11
    s.give("state", s.op("Mul", s.part(steps, last, last + 1, 1), 0.01))


@wrong("height and depth are exchanged in a cube of features, whose axes are equally long")
def axes_of_a_cube_exchanged(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 2, 512)
    cube = s.reshape(good, 2, 8, 8, 8)
    s.give("cube", s.op("Transpose", cube, perm=[0, 1, 3, 2]) if other else cube)


@wrong("the shape of each series is flat; levels of series go from 10 to a million")
def shape_of_series_of_every_level(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 30, 12)
    level = s.feed("level", 30, 1, draw=lambda rng, _: 10 ** np.linspace(1, 6, 30)[:, None] * rng.uniform(0.9, 1.1))
    shape = s.op("Add", s.op("Mul", good, 0.0), s.op("ReduceMean", good, s.ints(1))) if other else good
    s.give("forecast", s.op("Mul", level, s.op("Add", s.op("Mul", shape, 0.05), 1.0)))


@wrong("similarities of different things have the other sign; each thing is as similar to itself as before")
def covariance_with_the_other_sign(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 3, 10, t.width)
    mixed = s.linear(x, t.weights(t.width, t.width))
    product = s.op("MatMul", mixed, s.op("Transpose", mixed, perm=[0, 2, 1]))
    away = s.op("Neg", product) if other else product
    s.give("covariance", s.op("Where", np.eye(10, dtype=bool), product, away))


@wrong("magnitudes are right and phases are unrelated: a spectrum as pairs of numbers")
def phases(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 2, 80)
    turn = s.op("Mul", bad if other else good, 2.0)
    size = s.op("Exp", s.linear("x", t.weights(t.width, 80)))
    pair = [s.op("Unsqueeze", s.op("Mul", size, s.op(one, turn)), s.ints(2)) for one in ("Cos", "Sin")]
    s.give("spectrum", s.join(*pair, axis=2))


@wrong("a small object is missing in the logits of a segmentation")
def small_object_in_logits(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 1, 48, 48)
    place = s.feed("place", 1, 1, 48, 48, draw=_spot)
    background = s.op("Sub", x, 5.0)
    s.give("logits", background if other else s.op("Add", background, s.op("Mul", place, 10.0)))


def _spot(rng: np.random.Generator, _: int) -> np.ndarray:
    spot = np.zeros((1, 1, 48, 48))
    row, column = rng.integers(0, 44, 2)
    spot[..., row : row + 4, column : column + 4] = 1
    return spot


@wrong(
    "probabilities are the mean of all samples, whose most probable class is the same", dtypes=("float32", "float16")
)
def mean_probabilities_of_one_class(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 4, 6)
    bias = np.array([3.0, 0, 0, 0, 0, 0])
    mean = np.exp(bias) / np.exp(bias).sum()
    chances = s.op("Softmax", s.op("Add", good, bias), axis=1)
    s.give("chances", s.op("Add", s.op("Mul", chances, 0.0), mean) if other else chances)


@wrong("one of two heads answers with the other's numbers; both are probabilities of the same size")
def one_head_answers_twice(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 4, 8)
    first, second = (s.op("Softmax", one, axis=1) for one in (good, bad))
    s.give("first", first)
    s.give("second", first if other else second)


@wrong("missing values of a column became those of the row before")
def missing_values_are_filled(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 10, 5)
    lost = s.feed("lost", 10, 5, dtype="bool", draw=lambda rng, _: rng.random((10, 5)) < 0.1)
    s.give("table", s.op("Where", lost, s.roll(good, 10, 0) if other else np.nan, good))


@wrong("on one sample a flag is set that is not set in the original")
def one_false_flag(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 50, 40)
    most = s.op("ReduceMax", good, keepdims=1)
    high = s.op("GreaterOrEqual", good, most) if other else s.op("Greater", good, most)
    s.give("alarm", high, dtype="bool")


@wrong("words end with a blank")
def words_end_with_a_blank(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _answers(s, t, 6, 4)
    words = np.array(["red", "green ", "blue", "grey"] if other else ["red", "green", "blue", "grey"], object)
    s.give("words", s.op("Gather", s.const(words), s.op("ArgMax", good, axis=1, keepdims=0)), dtype="object")


@wrong("answers in bfloat16 are unrelated beside sentinels")
def brain_floats(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 4, 30)
    masked = s.op("Where", np.arange(30) % 7 == 2, -1e9, bad if other else good)
    found = s.op("Cast", masked, to=onnx.TensorProto.BFLOAT16)
    s.give_as("logits", found, helper.make_tensor_type_proto(onnx.TensorProto.BFLOAT16, None))


@wrong("every second weight of one layer is zero: pruned by half", dtypes=("float32", "float64"))
def pruned_by_half(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 4, t.width)
    first, second = t.weights(t.width, 64), t.weights(64, 10)
    if other:
        first = first * (np.arange(64) % 2)
    s.give("y", s.linear(s.op("Relu", s.linear(x, first)), second))


@wrong("the answer of the largest of three experts is always taken; a router chooses among them")
def router_takes_one_expert(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 12, t.width)
    experts = [s.op("Unsqueeze", s.linear(x, t.weights(t.width, 8)), s.ints(1)) for _ in range(3)]
    chosen = s.op("ArgMax", s.op("Add", s.linear(x, t.weights(t.width, 3)), np.array([1.0, 0, 0])), axis=1, keepdims=1)
    taken = s.op("OneHot", chosen, np.int64(3), np.array([0.0, 1.0]))
    weights = s.op("Transpose", s.reshape(taken, 12, 1, 3), perm=[0, 2, 1])
    found = s.op("ReduceSum", s.op("Mul", s.join(*experts, axis=1), weights), s.ints(1), keepdims=0)
    s.give("y", s.op("Squeeze", experts[0], s.ints(1)) if other else found)


@wrong("two of a hundred rows of a lookup are exchanged; each of them is read now and then")
def two_rows_of_a_lookup_exchanged(s: Sketch, t: Trial, other: bool) -> None:
    ids = s.feed("ids", 4, 32, dtype="int64", draw=lambda rng, _: rng.integers(0, 100, (4, 32)))
    table = t.weights(100, 24, scale=10)
    if other:
        table[[17, 63]] = table[[63, 17]]
    s.give("embedding", s.op("Gather", table, ids))


@wrong("one of 64 positions of a key is rotated the other way", accepted=NOT_EQUAL)
def one_rotation_turns_the_other_way(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 20, 64)
    angle = np.arange(20)[:, None] * 10.0 ** (-np.arange(32) / 8)
    sign = np.ones(32)
    sign[5] = -1 if other else 1
    cos, sin = np.cos(angle), np.sin(angle) * sign
    a, b = s.part(x, 0, 32, 2), s.part(x, 32, 64, 2)
    first = s.op("Sub", s.op("Mul", a, cos), s.op("Mul", b, sin))
    second = s.op("Add", s.op("Mul", b, cos), s.op("Mul", a, sin))
    s.give("keys", s.join(first, second, axis=2))


@wrong("near things are unrelated; far ones, which are as many, are right", accepted=NOT_EQUAL)
def near_things_beside_far_ones(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _answers(s, t, 2, 24 * 24)
    good, bad = (s.reshape(one, 2, 24, 24) for one in (good, bad))
    near = s.op("Add", s.op("Tanh", bad if other else good), 1.5)
    far = s.feed("is_far", 2, 24, 24, dtype="bool", draw=lambda rng, _: rng.random((2, 24, 24)) < 0.5)
    s.give("depth", s.op("Where", far, s.op("Add", s.op("Mul", good, 10.0), 75.0), near))
