"""Scales for keys and values of a past, from what attentions are given on samples.

A scale has to do for every token there will be. Values do not know where they stand: the largest of each channel on
the samples tells. Keys are rotated by their position, which moves numbers between the two channels of a pair: a channel
that is small at position 10 may be large at 30,000. What a rotation leaves alone is the length of the pair, so both
channels get the scale of the longest pair. Where it is not known which channels are pairs, all channels of a head get
the scale of the longest that any two could make.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim_plugins.ort.quantize.weights.block_weights import Floats

Channels: TypeAlias = NDArray[np.int64]

_PRODUCTS = ("MatMul", "MatMulNBits", "Gemm", "MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul")
_TURNS = frozenset(("Concat", "Neg", "ScatterND", "Einsum", "RotaryEmbedding"))
"""One of them is in every rotation, however it is written: it joins channels that were taken from other places."""

_COMPUTES = frozenset(("Add", "Sub", "Mul", "Div", "Where"))
"""With more than one input of numbers; what others have beside the first says how they move numbers."""

_REACH = 24
"""Nodes that are looked at between keys and their product; an unfused rotation has a dozen."""


@dataclass(frozen=True)
class Attention:
    """A GroupQueryAttention with a past of its own.

    Attributes:
        node: the operator.
        heads: of its keys.
    """

    node: ir.Node
    heads: int

    @property
    def name(self) -> str:
        """What ``keep`` calls it."""
        return self.node.name or self.node.outputs[0].name or ""

    def value(self, place: int) -> ir.Value:
        """An input that it has."""
        found = self.node.inputs[place]
        assert found is not None
        return found


KEYS, VALUES = (1, 3), (2, 4)
"""Places among the inputs: new tokens, and the past."""


def find_pasts(graph: ir.Model) -> Iterator[Attention]:
    """Attentions with a past in floats that nobody else reads."""
    for node in graph.graph:
        if node.op_type != "GroupQueryAttention" or node.domain != "com.microsoft":
            continue
        pasts, presents = node.inputs[3:5], node.outputs[1:3]
        owned = all(p is not None and p.is_graph_input() and p.dtype == ir.DataType.FLOAT for p in pasts)
        owned = owned and all(len(p.uses()) == 1 for p in pasts if p is not None)
        given = all(present.is_graph_output() and not present.uses() for present in presents)
        if owned and given and node.inputs[1] is not None and node.inputs[2] is not None:
            yield Attention(node, node.attributes.get_int("kv_num_heads", 1))


class Extremes:
    """The largest numbers that were seen in each channel of one past.

    Args:
        rotation: of keys, see :func:`rotation_of`; None for what is not rotated.
    """

    def __init__(self, rotation: Channels | None) -> None:
        self._rotation = rotation
        self._squares: Floats | None = None

    def see(self, numbers: NDArray[Any]) -> None:
        """Look at [batch, heads, tokens, size]."""
        squares = np.square(np.nan_to_num(numbers.astype(np.float32)))
        if self._rotation is None:
            seen = squares
        elif self._rotation.size:
            seen = squares + np.where(self._rotation >= 0, squares[..., self._rotation], 0)
        else:
            longest = np.sort(squares, axis=-1)[..., -2:].sum(-1, keepdims=True)
            seen = np.broadcast_to(longest, squares.shape)
        most = seen.max(axis=(0, 2), initial=0)
        self._squares = most if self._squares is None else np.maximum(self._squares, most)

    def scales(self, bits: int) -> Floats | None:
        """For each head and channel, float32; None where nothing was seen."""
        if self._squares is None or not self._squares.any():
            return None
        largest = np.sqrt(self._squares)
        # What was nowhere seen may be seen later: it gets what the largest channel of all gets.
        return np.asarray(np.where(largest > 0, largest, largest.max()) / ((1 << (bits - 1)) - 1), np.float32)


def rotation_of(attention: Attention, size: int) -> Channels | None:
    """With which channel each channel of keys is rotated.

    Returns:
        For each of ``size`` channels the other of its pair, or -1 where it has none; empty where keys are rotated in a
        way that is not known; None where they are not.
    """
    node = attention.node
    if node.attributes.get_int("do_rotary", 0):
        cosine = node.inputs[7]
        half = cosine.shape[1] if cosine is not None and cosine.shape is not None else None
        interleaved = bool(node.attributes.get_int("rotary_interleaved", 0))
        return _pairs(size, half, interleaved=interleaved) if isinstance(half, int) else np.zeros(0, np.int64)
    rotary = attention.value(1).producer()
    if rotary is not None and rotary.op_type == "RotaryEmbedding" and rotary.domain == "com.microsoft":
        width = rotary.attributes.get_int("rotary_embedding_dim", 0) or size
        return _pairs(size, width // 2, interleaved=bool(rotary.attributes.get_int("interleaved", 0)))
    return np.zeros(0, np.int64) if _may_be_rotated(attention.value(1)) else None


def _pairs(size: int, half: int, *, interleaved: bool) -> Channels:
    other = np.full(size, -1)
    low = np.arange(half) * 2 if interleaved else np.arange(half)
    high = low + (1 if interleaved else half)
    other[low], other[high] = high, low
    return other


def _may_be_rotated(keys: ir.Value) -> bool:
    """Whether a rotation, or what is not known, stands between keys and their product."""
    todo: list[ir.Value | None] = [keys]
    for _ in range(_REACH):
        if not todo:
            return False
        value = todo.pop()
        node = value.producer() if value is not None else None
        if node is None or node.op_type in _PRODUCTS:
            continue
        if node.op_type in _TURNS:
            return True
        data = node.inputs if node.op_type in _COMPUTES else node.inputs[:1]
        todo += [value for value in data if value is not None and not value.is_initializer()]
    return True
