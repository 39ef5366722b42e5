"""What can be said of a value by looking at the node that makes it: a constant, its number, an order of axes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.onnx import read_constant

_SMALL = 64


def small_constant(value: ir.Value | None) -> NDArray[np.generic] | None:
    """The array of an initializer or a Constant node; None for anything larger than a few numbers."""
    found: NDArray[np.generic] | None = read_constant(value, at_most=_SMALL)
    return found


def scalar(value: ir.Value | None) -> float | None:
    """The number that a constant of one element holds."""
    array = small_constant(value)
    return float(array.reshape(())) if array is not None and array.size == 1 and array.dtype.kind in "fiub" else None


def permutation(node: ir.Node | None) -> list[int] | None:
    """How a Transpose orders axes; None for any other node."""
    if node is None or node.op_type != "Transpose" or "perm" not in node.attributes:
        return None
    return list(node.attributes.get_ints("perm", []))


def producer(value: ir.Value | None, *operators: str) -> ir.Node | None:
    """The node that makes a value, where it is one of these standard operators (any, if none is named)."""
    node = value.producer() if value is not None else None
    if node is None or node.domain not in ("", "ai.onnx") or (operators and node.op_type not in operators):
        return None
    return node
