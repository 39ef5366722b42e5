"""All of the error is in a small place, which is the one that counts."""

from __future__ import annotations

import numpy as np

from gate.case import FLOATS, Trial, wrong
from gate.sketch import Sketch


def _faulty(s: Sketch, t: Trial, good: str, bad: str, where: np.ndarray, other: bool) -> str:
    """The good answer, in the other model with the bad one at some places."""
    return s.op("Where", where, bad, good) if other else s.op("Identity", good)


def _two(s: Sketch, t: Trial, rows: int, columns: int, *, batch: int = 0) -> tuple[str, str]:
    """A good answer and an unrelated one."""
    x = s.feed("x", batch or t.batch, rows, t.width)
    return s.linear(x, t.weights(t.width, columns)), s.linear(x, t.other_weights(t.width, columns))


def _at(shape: tuple[int, ...], *places: object) -> np.ndarray:
    where = np.zeros(shape, bool)
    where[places] = True
    return where


@wrong("the logits of the last token are unrelated: that is the one generation reads", dtypes=FLOATS[:2])
def last_token(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _two(s, t, 1500, 20, batch=1)
    s.give("logits", _faulty(s, t, good, bad, _at((1500, 1), -1), other))


@wrong("the first token is unrelated: that is the one a classifier reads")
def first_token(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _two(s, t, 1500, t.width, batch=1)
    s.give("hidden", _faulty(s, t, good, bad, _at((1500, 1), 0), other))


@wrong("one row of 2000 is unrelated")
def one_row_of_many(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 2000, t.width)
    good, bad = s.linear(x, t.weights(t.width, 16)), s.linear(x, t.other_weights(t.width, 16))
    s.give("rows", _faulty(s, t, good, bad, _at((2000, 1), 1234), other))


@wrong("one channel of 1500 has the other sign")
def sign_of_one_channel(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _two(s, t, t.length, 1500)
    sign = np.ones(1500)
    sign[700] = -1 if other else 1
    s.give("features", s.op("Mul", good, sign))


@wrong("one map of 1200 has the other sign; channels lie along axis 1")
def sign_of_one_map(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 8, 6, 6)
    kernels = t.weights(1200, 8, 1, 1, scale=0.3)
    if other:
        kernels[77] *= -1
    s.give("maps", s.op("Conv", x, kernels))


@wrong("one class of 2000 has an unrelated logit")
def one_class_of_many(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _two(s, t, t.length, 2000)
    s.give("logits", _faulty(s, t, good, bad, _at((2000,), 5), other))


@wrong("one picture of a batch of 1024 is unrelated")
def one_element_of_a_batch(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1024, t.width)
    good, bad = s.linear(x, t.weights(t.width, 10)), s.linear(x, t.other_weights(t.width, 10))
    s.give("logits", _faulty(s, t, good, bad, _at((1024, 1), 3), other))


@wrong("a region of 4 by 4 pixels of a depth map is unrelated")
def one_region_of_a_map(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 1, 160, 160)
    bad = s.roll(x, 160, 3, 40)
    s.give("depth", _faulty(s, t, x, bad, _at((160, 160), slice(50, 54), slice(60, 64)), other))


@wrong("the outermost row of pixels is unrelated, as with wrong padding")
def border_of_a_picture(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 1, 1600, 24)
    s.give("picture", _faulty(s, t, x, s.roll(x, 24, 3, 11), _at((1600, 1), 0), other))


@wrong("one attention head of 1024 is unrelated")
def one_head(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 1024, 4, 8)
    s.give("heads", _faulty(s, t, x, s.roll(x, 4, 2), _at((1024, 1, 1), 500), other))


@wrong("one sample of the data is unrelated")
def one_sample_of_many(s: Sketch, t: Trial, other: bool) -> None:
    flag = s.feed("flag", 1, dtype="bool", draw=lambda _, number: [number == 1])
    good, bad = _two(s, t, t.length, t.classes)
    s.give("logits", s.op("Where", flag, bad, good) if other else s.op("Where", flag, good, good))


@wrong("eight of 16000 values are unrelated: a click that everybody hears")
def click_in_a_recording(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 16000)
    s.give("sound", _faulty(s, t, x, s.roll(x, 16000, 1, 99), _at((16000,), slice(9000, 9008)), other))


@wrong("white dots at scattered pixels, one in 2000; no slice of any axis holds many of them")
def scattered_dots(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 200, 200, draw=lambda rng, _: 0.5 + 0.1 * rng.standard_normal((1, 200, 200)))
    dots = t.rng.random((200, 200)) < 1 / 2000
    s.give("picture", s.op("Where", dots, 1.0, x) if other else s.op("Identity", x))


@wrong("the diagonal of a matrix of 1000 similarities is unrelated; it is no slice of an axis")
def diagonal_of_similarities(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, 1000, 8)
    matrix = s.op("MatMul", x, s.op("Transpose", x, perm=[0, 2, 1]))
    s.give("similarity", _faulty(s, t, matrix, s.roll(matrix, 1000, 2, 17), np.eye(1000, dtype=bool), other))


@wrong("the box of the only object is unrelated; the other 3000 boxes are background")
def box_of_the_only_object(s: Sketch, t: Trial, other: bool) -> None:
    good, bad = _two(s, t, 3000, 4, batch=1)
    s.give("boxes", _faulty(s, t, good, bad, _at((3000, 1), 2000), other))
    s.give("scores", s.const(np.where(_at((3000,), 2000), 0.9, 0.01)))


@wrong("the last position is unrelated, and samples are of different length")
def last_token_at_any_length(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1, "length", t.width, draw=lambda rng, number: rng.standard_normal((1, 900 + 77 * number, t.width)))
    good = s.linear(x, t.weights(t.width, 16))
    last = s.linear(s.part(x, -1, 2**31, 1), t.other_weights(t.width, 16))
    s.give("logits", s.join(s.part(good, 0, -1, 1), last, axis=1) if other else s.op("Identity", good))


@wrong("one step of a sequence of 1200 repeats the one before it")
def one_step_repeats(s: Sketch, t: Trial, other: bool) -> None:
    good, _ = _two(s, t, 1200, 8, batch=1)
    order = np.arange(1200)
    if other:
        order[600] = 599
    s.give("steps", s.op("Gather", good, order, axis=1))


@wrong("an embedding of one word is another word's; only positions with that word show it")
def embedding_of_one_word(s: Sketch, t: Trial, other: bool) -> None:
    def words(rng: np.random.Generator, _: int) -> np.ndarray:
        drawn = rng.integers(1, 400, (1, 1000))
        drawn[0, [10, 777]] = 0
        return drawn

    ids = s.feed("ids", 1, 1000, dtype="int64", draw=words)
    table = t.rng.standard_normal((400, t.width))
    if other:
        table[0] = table[1]
    s.give("hidden", s.linear(s.op("Gather", table, ids), t.weights(t.width, t.width)))


@wrong("one user's answer holds another user's, in a batch of 600")
def answers_of_two_users_exchanged(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", 1200, t.width)
    order = np.arange(1200)
    if other:
        order[[5, 800]] = order[[800, 5]]
    s.give("answers", s.op("Gather", s.linear(x, t.weights(t.width, 10)), order, axis=0))
