"""The differences between two models that no comparison of outputs shows.

optim compares outputs by name, on some samples. A program may also give inputs and read outputs by their place, send
other sizes, or call a model a million times.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from optim.errors import some_of
from optim.model import Model
from optim.onnx.operators import walk_nodes
from optim.onnx.skeleton import read_skeleton

_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomUniform")
"""The beginnings of the names of operators that give other numbers in each call."""
_NAMED = 4
"""Inputs or outputs that a sentence names."""


def hidden_differences(before: Model, after: Model, *, fixes_sizes: bool = False) -> tuple[str, ...]:
    """Returns a sentence for each difference, with ``it`` for the model ``after``, which may have fixed sizes."""
    sizes = () if fixes_sizes else _fixed_sizes(before, after)
    return (*_other_names(before, after), *sizes, *_new_randomness(before.path, after.path))


def _other_names(before: Model, after: Model) -> Iterator[str]:
    for kind, old, new in (("inputs", before.inputs, after.inputs), ("outputs", before.outputs, after.outputs)):
        names, others = ([info.name for info in infos] for infos in (old, new))
        if lost := [name for name in names if name not in others]:
            yield f"it lacks {kind} {some_of(lost, _NAMED)}"
        if added := [name for name in others if name not in names]:
            yield f"it has more {kind}: {some_of(added, _NAMED)}"
        if sorted(names) == sorted(others) and names != others:
            place = next(place for place, name in enumerate(names) if name != others[place])
            yield f"its {kind} are in another order: '{others[place]}' is in the place of '{names[place]}'"


def _fixed_sizes(before: Model, after: Model) -> Iterator[str]:
    """Sizes of outputs may become known; those of inputs, which programs choose, may not."""
    known = {info.name: info for info in before.inputs}
    for info in after.inputs:
        old_shape = known[info.name].shape if info.name in known else None
        for place, (was, size) in enumerate(zip(old_shape or (), info.shape or (), strict=False)):
            if isinstance(size, int) and not isinstance(was, int):
                yield f"it takes no other size than {size} in dimension {place} of input '{info.name}', which was open"


def _new_randomness(before: Path, after: Path) -> Iterator[str]:
    if (drawn := _random_operators(after)) and not _random_operators(before):
        yield f"it draws random numbers ({', '.join(sorted(drawn))}), so another call may give another answer"


def _random_operators(path: Path) -> set[str]:
    def draws(node: onnx.NodeProto) -> bool:
        trains = node.op_type == "Dropout" and len(node.input) > 2 and bool(node.input[2])
        return trains or node.op_type.startswith(_RANDOM)

    return {node.op_type for node in walk_nodes(read_skeleton(path)) if draws(node)}
