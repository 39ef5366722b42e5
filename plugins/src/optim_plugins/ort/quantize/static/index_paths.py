"""Values that say where or how much, not what: indices, shapes, positions, steps. They are never quantized.

A relative position, say, is a float for a while (T5: its logarithm picks a bucket) and then an index; rounded to 8
bits it points elsewhere. From every input that is read as an index or a size, this goes back through whatever computes
it, and stops where only a shape is read and where a choice is made among values (TopK, ArgMax, a comparison): what is
chosen among may be quantized.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

_INDEX_INPUTS: dict[str, tuple[int, ...]] = {
    "Gather": (1,),
    "GatherElements": (1,),
    "GatherND": (1,),
    "GatherBlockQuantized": (1,),
    "GridSample": (1,),
    "ScatterElements": (1,),
    "ScatterND": (1,),
    "OneHot": (0, 1),
    "Reshape": (1,),
    "Expand": (1,),
    "Tile": (1,),
    "Slice": (1, 2, 3, 4),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Range": (0, 1, 2),
    "TopK": (1,),
    "ConstantOfShape": (0,),
    "Unsqueeze": (1,),
    "Squeeze": (1,),
    "Split": (1,),
    "Trilu": (1,),
    "CumSum": (1,),
    "Loop": (0, 1),
    "If": (0,),
    "RoiAlign": (1, 2),
    "MaxRoiPool": (1,),
    "AffineGrid": (0, 1),
    "CenterCropPad": (1,),
    "EyeLike": (0,),
    "RotaryEmbedding": (1,),
    "MaxUnpool": (1, 2),
}
_STOPS = frozenset(
    {
        "Shape",
        "Size",
        "TopK",
        "ArgMax",
        "ArgMin",
        "NonMaxSuppression",
        "NonZero",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Equal",
        "IsNaN",
        "IsInf",
        "Unique",
        "Multinomial",
        "Bernoulli",
    }
)


def index_values(graph: ir.Model) -> set[ir.Value]:
    """Every value that an index or a size is computed from, branches and bodies too."""
    waiting = list(_roots(graph))
    found: set[ir.Value] = set()
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found.add(value)
        producer = value.producer()
        if producer is not None and producer.op_type not in _STOPS:
            waiting += [given for given in producer.inputs if given is not None]
    return found


def _roots(graph: ir.Model) -> Iterator[ir.Value]:
    for node in graph.graph.all_nodes():
        for place in _INDEX_INPUTS.get(node.op_type, ()):
            value = node.inputs[place] if place < len(node.inputs) else None
            if value is not None:
                yield value
