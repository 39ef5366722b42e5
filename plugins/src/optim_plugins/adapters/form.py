"""The one form of LoRA, DoRA and LoHa: two factors and a gain; and which inputs take them.

    y = base + (x down) up + gain * (base - bias)

LoHa multiplies two products of matrices element by element. Of rank r each, that is one product of rank r * r: row by
row, the columns of the factors multiplied pairwise (C. G. Khatri and C. R. Rao, 1968).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim_plugins.adapters.packing import Packing, packed

DOWN, UP, GAIN = "down", "up", "gain"
"""Roles of adapter inputs; of packed weights those of scales and zero points follow, as in ``down.scales``."""

_SUFFIX = {DOWN: "lora_A", UP: "lora_B", GAIN: "lora_gain"}


def input_name(module: str, role: str) -> str:
    """The name of the input of a module."""
    factor, dot, rest = role.partition(".")
    return f"{module}.{_SUFFIX[factor]}{'_' if dot else ''}{rest}"


@dataclass(frozen=True, slots=True)
class Factors:
    """Arrays of an adapter at one module, in the form that graphs take.

    Attributes:
        down: shape (in, rank).
        up: shape (rank, out), every scale in it.
        gain: shape (out,), of DoRA; None for the others.
    """

    down: NDArray[Any]
    up: NDArray[Any]
    gain: NDArray[Any] | None = None


def role_arrays(factors: Factors, rank: int | None, packing: Packing | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of a module by role, as its inputs take them.

    Args:
        factors: of the module.
        rank: that they are filled up to; None: their own.
        packing: of both factors; None: as floats.
    """
    found: dict[str, NDArray[Any]] = {}
    for role, array in ((DOWN, factors.down), (UP, factors.up)):
        whole = padded(array, role, rank)
        parts = packed(whole, packing) if packing is not None else {"": whole}
        found |= {role + part: each for part, each in parts.items()}
    if factors.gain is not None:
        found[GAIN] = np.ascontiguousarray(factors.gain)
    return found


def khatri_rao(
    w1_a: NDArray[Any], w1_b: NDArray[Any], w2_a: NDArray[Any], w2_b: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two matrices, (in, r * r) and (r * r, out), whose product is ``((w1_a @ w1_b) * (w2_a @ w2_b)).T``.

    Args:
        w1_a: shape (out, r), as ``w2_a``.
        w1_b: shape (r, in), as ``w2_b``.
        w2_a: as ``w1_a``.
        w2_b: as ``w1_b``.
    """
    out, width = w1_a.shape[0], w1_b.shape[1]
    up = (w1_a[:, :, None] * w2_a[:, None, :]).reshape(out, -1).T
    down = (w1_b[:, None, :] * w2_b[None, :, :]).reshape(-1, width).T
    return np.ascontiguousarray(down), np.ascontiguousarray(up)


def padded(array: NDArray[Any], role: str, rank: int | None) -> NDArray[Any]:
    """An array with zeros up to a rank, which change nothing; as it is where any rank fits."""
    if rank is None:
        return np.ascontiguousarray(array)
    axis = 1 if role == DOWN else 0
    missing = [(0, 0), (0, 0)]
    missing[axis] = (0, rank - array.shape[axis])
    return np.ascontiguousarray(np.pad(array, missing))
