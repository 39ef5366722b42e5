"""Fills up the input channels of a convolution to a multiple of four, where onnxruntime's fast kernel takes no others.

Before, for an image of three colours::

    y = Conv(x, W)                       x [N, 3, H, W], W [M, 3, h, w]

After, in integers::

    y = Conv(Pad(x), W')                 x [N, 4, H, W], W' [M, 4, h, w], what is new is 0

Nothing is approximated: the new weights are zeros. On x86 the kernel that reads the image in place takes multiples of
four channels; what does not fit is first copied out patch by patch, which for the first convolution of a net takes
longer than multiplying (``MlasConvSymPackWSize`` in onnxruntime's ``mlas/lib/convsym.cpp``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from optim_plugins.ort.quantize.static.scales_and_zero_points import Weight

_MULTIPLE = 4
_LEAST_OUTPUTS, _OUTPUTS_MULTIPLE = 16, 8
"""Output channels that the kernels of all x86 processors take; those of AVX512 take multiples of four, too."""


def missing_channels(shape: tuple[int, ...], groups: int) -> int:
    """How many input channels to add.

    Args:
        shape: of the weight, [M, C / groups, ...].
        groups: of the convolution.

    Returns:
        0 where the kernel takes the convolution as it is, or would not take it anyway.
    """
    if groups != 1 or shape[0] < _LEAST_OUTPUTS or shape[0] % _OUTPUTS_MULTIPLE:
        return 0
    return -shape[1] % _MULTIPLE


def fill_weight(weight: Weight, missing: int) -> Weight:
    """The weight with zeros for as many more input channels."""
    around = [(0, 0), (0, missing), *[(0, 0)] * (weight.integers.ndim - 2)]
    integers = np.pad(weight.integers, around, constant_values=weight.zero.reshape(-1)[0])
    return replace(weight, integers=integers, error=None)


def channel_pads(rank: int, missing: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """What Pad takes to add channels at the end of the second axis, int64 [2 * rank]."""
    pads = np.zeros(2 * rank, np.int64)
    pads[rank + 1] = missing
    return pads


def filled_shape(shape: ir.Shape | None, missing: int) -> ir.Shape | None:
    """The shape behind Pad, where it is known."""
    if shape is None or len(shape) < 2 or not isinstance(shape[1], int):
        return None
    return ir.Shape([shape[0], shape[1] + missing, *shape[2:]])
