"""Whether a sample's answer depends on what it is run with: on other samples in a batch, and on padding.

A model that takes ranges of activations from a whole run (dynamic quantization) gives a sample another answer in every
batch. Nothing else of a run tells that: it compares outputs on the same feeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from optim._engine.gate.drift import BatchDrift
from optim._engine.gate.outputs import compare_output
from optim._engine.gate.variation import Variation
from optim.arrays import Array, Feeds, Outputs
from optim.backend import Session
from optim.errors import describe_exception
from optim.model import TensorInfo, row_inputs

_MOST_ROWS = 4
"""Samples in the batch: with more the answer moves little further, and a run takes longer."""


def batch_drift(
    session: Session,
    inputs: Iterable[TensorInfo],
    samples: Sequence[Feeds],
    variations: Mapping[str, Variation] | None = None,
) -> BatchDrift:
    """Run samples alone, together and padded.

    Args:
        session: of the model.
        inputs: of the model, for their names of dimensions.
        samples: as the model takes them; what is no such input, as an adapter, stays as it is.
        variations: how the model's outputs vary over samples; of one that is left out, it is measured on each alone.
    """
    infos = {info.name: info for info in inputs}
    figures: dict[str, Any] = {}
    notes = []
    for way, many, measured in (("batched", "rows", _batched), ("padded", "padding", _padded)):
        try:
            found = measured(session, infos, samples, variations or {})
        except Exception as error:  # a model may refuse what it was never run on
            found = f"the model does not run: {describe_exception(error)}"
        if isinstance(found, str):
            notes.append(f"{way}: {found}")
        else:
            figures |= {way: found[0], many: found[1]}
    return BatchDrift(**figures, notes=tuple(notes))


def _batched(
    session: Session, infos: dict[str, TensorInfo], samples: Sequence[Feeds], variations: Mapping[str, Variation]
) -> tuple[float, int] | str:
    """The drift of the worst row of a batch from the same sample alone, and how many rows; or why there is none."""
    rows = row_inputs(infos.values())
    alike = samples_alike(samples, rows)
    if not rows:
        return "the model has no dynamic first dimension that its inputs share"
    if len(alike) < 2:
        return "no two samples have the same shapes: give such in --data"
    together = in_a_batch(alike, rows)
    whole = together[rows[0]].shape[0]
    answer, start, drifts = session.run(together), 0, []
    for one in alike:
        count, alone = one[rows[0]].shape[0], session.run(one)
        part = {name: array[start : start + count] for name, array in answer.items() if array.shape[:1] == (whole,)}
        drifts += _drifts(alone, part, variations)
        start += count
    return (max(drifts), start) if drifts else "no output has a row for each sample"


def _padded(
    session: Session, infos: dict[str, TensorInfo], samples: Sequence[Feeds], variations: Mapping[str, Variation]
) -> tuple[float, int] | str:
    """The drift of a sample with masked positions behind it, and how many positions; or why there is none."""
    longer, more = with_padding(samples[0], infos) if samples else ({}, 0)
    if not more:
        return "the model takes no mask of the positions of another input"
    alone, answer = session.run(samples[0]), session.run(longer)
    shown = {name: cut(array, alone[name].shape) for name, array in answer.items()}
    return max(_drifts(alone, shown, variations)), more


def samples_alike(samples: Sequence[Feeds], rows: Sequence[str]) -> list[Feeds]:
    """Returns the first samples that have the same shapes, and the same values where an input has no rows."""
    groups: dict[object, list[Feeds]] = {}
    for one in samples:
        same = {name: array.tobytes() for name, array in one.items() if name not in rows}
        shapes = {name: array.shape for name, array in one.items()}
        groups.setdefault(repr((sorted(shapes.items()), sorted(same.items()))), []).append(one)
    return max(groups.values(), key=len, default=[])[:_MOST_ROWS]


def in_a_batch(alike: Sequence[Feeds], rows: Sequence[str]) -> Feeds:
    """Returns samples as one, the rows of each behind those of the one before."""
    return {
        name: np.concatenate([one[name] for one in alike]) if name in rows else array
        for name, array in alike[0].items()
    }


def with_padding(one: Feeds, infos: Mapping[str, TensorInfo]) -> tuple[Feeds, int]:
    """Returns a sample with masked positions behind it, and their number: 0 without a mask of another input."""
    mask = next((one for one in infos.values() if "mask" in one.name.lower() and len(one.shape or ()) == 2), None)
    length = mask.shape[1] if mask is not None and mask.shape else None
    axes = {name: _axes(info, length) for name, info in infos.items()} if isinstance(length, str) else {}
    if mask is None or mask.name not in one or sum(map(bool, axes.values())) < 2:
        return one, 0
    more = max(1, one[mask.name].shape[1] // 2)
    return {name: _with_zeros(array, axes.get(name, ()), more) for name, array in one.items()}, more


def cut(array: Array, shape: tuple[int, ...]) -> Array:
    """Returns the part of an array that stands where a smaller one has its own."""
    return array[tuple(slice(size) for size in shape)] if array.ndim == len(shape) else array


def _axes(info: TensorInfo, name: str) -> tuple[int, ...]:
    return tuple(axis for axis, size in enumerate(info.shape or ()) if size == name)


def _with_zeros(array: Array, axes: Sequence[int], more: int) -> Array:
    return np.pad(array, [(0, more if axis in axes else 0) for axis in range(array.ndim)])


def _drifts(alone: Outputs, other: Outputs, variations: Mapping[str, Variation]) -> list[float]:
    """Drift of each output that both have; infinite where they cannot be compared."""
    both = (name for name in alone if name in other)
    compared = [compare_output(name, alone[name], other[name], None, variations.get(name)) for name in both]
    return [one.relative_error for one in compared]
