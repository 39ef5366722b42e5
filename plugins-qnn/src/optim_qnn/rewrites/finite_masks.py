"""Masks that are added before Softmax.

Before::

    y = Softmax(scores + Where(mask, 0, -3.4e38))           or -inf, or -10000

After::

    y = Softmax(scores + Where(mask, 0, -100))

Quantization spreads its 256 or 65536 steps over the whole range of a tensor, so a mask of -10000 leaves none for the
scores; and float16 ends at -65504. exp(-100) is 4e-44: nothing is left of a masked position either way.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim.arrays import Array
from optim_qnn.rewrites.rule import constant_of

_MASKED = -100.0
_LARGE = -1e3
_CARRIES = frozenset(
    ("Where", "Mul", "Add", "Expand", "Reshape", "Unsqueeze", "Squeeze", "Cast", "Slice", "Transpose", "Identity")
)
NAME = "masks"


def make_masks_finite(model: ir.Model) -> int:
    """Bring constants of masks that lead to a Softmax, and nowhere else, to -100; how many."""
    changed = 0
    for value in list(model.graph.initializers.values()):
        array = constant_of(value)
        if array is None or array.dtype.kind != "f" or not _is_mask(array):
            continue
        if not _ends_in_softmax(value):
            continue
        limited = np.where(np.less(array, _LARGE), np.asarray(_MASKED, array.dtype), array)
        value.const_value = ir.tensor(limited, name=value.name)
        changed += 1
    return changed


def _is_mask(array: Array) -> bool:
    """Large negative numbers, zeros and ones, and nothing else: weights are not."""
    large = np.less(array, _LARGE)
    return bool(large.any() and (large | (array == 0) | (array == 1)).all())


def _ends_in_softmax(value: ir.Value) -> bool:
    waiting, seen = [value], {value}
    found = False
    while waiting:
        current = waiting.pop()
        if current.is_graph_output():
            return False
        for node, _ in current.uses():
            if node.op_type == "Softmax":
                found = True
                continue
            if node.op_type not in _CARRIES:
                return False
            for output in node.outputs:
                if output not in seen:
                    seen.add(output)
                    waiting.append(output)
    return found
