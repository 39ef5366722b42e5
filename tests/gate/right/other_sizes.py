"""Right pairs whose open sizes verify tries beyond those of the samples."""

from __future__ import annotations

import numpy as np

from gate.case import ACCEPTED, Trial, right
from gate.right.rewritten import ORDER, reordered
from gate.sketch import Sketch


def _hidden(s: Sketch, t: Trial, other: bool, least: int = 0) -> tuple[str, str]:
    """An answer for each position, and a mask of the positions."""

    def shown(rng: np.random.Generator, number: int) -> np.ndarray:
        return (np.arange(t.length) < t.length - number * least)[None]

    x = s.feed("x", "batch", "length", t.width, draw=lambda rng, _: rng.standard_normal((1, t.length, t.width)))
    mask = s.cast(s.feed("attention_mask", "batch", "length", dtype="int64", draw=shown), t.dtype.name)
    return reordered(s, t, x, t.weights(t.width, t.width), other), s.op("Unsqueeze", mask, s.ints(2))


@right(ORDER + "; the mean over positions heeds the mask, with padded samples and without", hidden=(0, 1))
def mask_heeded(s: Sketch, t: Trial, other: bool, hidden: int) -> None:
    y, mask = _hidden(s, t, other, hidden)
    total = s.op("ReduceSum", s.op("Mul", y, mask), s.ints(1), keepdims=0)
    s.give("pooled", s.op("Div", total, s.op("ReduceSum", mask, s.ints(1), keepdims=0)), shape=("batch", t.width))


@right("a position that the mask hides has another number in each model; no sample has one")
def hidden_positions_differ(s: Sketch, t: Trial, other: bool) -> None:
    y, mask = _hidden(s, t, other)
    beside = s.op("Mul", s.op("Sub", 1.0, mask), 7.0 if other else 3.0)
    s.give("hidden", s.op("Add", s.op("Mul", y, mask), beside), shape=("batch", "length", t.width))


@right("neither model takes more positions than its table has", accepted=ACCEPTED)
def no_longer_than_the_table(s: Sketch, t: Trial, other: bool) -> None:
    y, mask = _hidden(s, t, other)
    places = s.op("Range", np.int64(0), s.op("Gather", s.op("Shape", mask), 1), np.int64(1))
    table = s.op("Gather", t.weights(t.length, t.width), places)
    s.give("hidden", s.op("Add", s.op("Mul", y, mask), table), shape=("batch", "length", t.width))


@right("activations are rounded in one scale for the whole run, so a row differs in a batch", accepted=ACCEPTED)
def dynamic_scale_of_a_batch(s: Sketch, t: Trial, other: bool) -> None:
    def loud(rng: np.random.Generator, number: int) -> np.ndarray:
        return rng.standard_normal((1, t.width)) * 1.5**number

    x = s.feed("x", "batch", t.width, draw=loud)
    if other:
        x = s.op("DequantizeLinear", *s.ops("DynamicQuantizeLinear", 3, x))
    s.give("rows", s.linear(x, t.weights(t.width, t.width)), shape=("batch", t.width))
