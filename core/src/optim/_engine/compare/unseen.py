"""Sizes that no given sample has: more rows, masked positions, twice the length, a past.

*Against itself.* A model that takes ranges of activations from a whole run (dynamic quantization) gives a sample
another answer in every batch. :func:`batch_drift` says how far a sample's answer moves with what it is run with.

*Against the original.* A model that ignores its mask, mixes the rows of a batch, or is wrong beyond the longest sample
shows that on no sample without these. So such samples are made from those given. The original's outputs on them are
kept beside its others, and a result is compared with them. The values are those of given samples, so an honest lossy
result drifts about as far on them. A sample that the original does not run on is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from optim._engine.compare.place import Reference, mapped_outputs
from optim._engine.feeds.feedset import FeedSet, FeedWriter
from optim._engine.gate.drift import BatchDrift, OutputComparison
from optim._engine.gate.outputs import compare_output, compare_sample, elements
from optim._engine.gate.variation import Variation
from optim.arrays import Array, Feeds, Outputs
from optim.backend import Session
from optim.decoders.conventions import carried_by_name, why_not_taken
from optim.errors import describe_exception, some_of
from optim.jobs.doing import doing
from optim.model import Model, TensorInfo, row_inputs
from optim.passes import Interface

LOOKED_AT = 8
"""Samples that others are made from."""

_MOST_ROWS = 4
"""Samples in a batch: with more the answer moves little further, and a run takes longer."""

_RUNS = 12
"""Runs of a sample that take as long as those of all that are made: four in a batch, others twice as long."""


@dataclass(frozen=True, slots=True)
class UnseenSample:
    """A sample made from those given.

    Attributes:
        how: it differs from them, for a message.
        alone: the sample that padding was put behind; what the outputs have beyond its own is not compared.
    """

    how: str
    feeds: Feeds
    alone: int | None = None


def unseen_outputs(outputs: Path) -> Path:
    """Returns the folder of the original's outputs on unseen samples, beside those on given ones."""
    return outputs.with_name("unseen")


def write_unseen(session: Session, reference: Reference, run_s: float, left_s: float) -> None:
    """Keep the original's outputs on unseen samples, if there is time for them.

    Args:
        session: of the original.
        reference: with its outputs on the given samples.
        run_s: duration of a run on one of these.
        left_s: time that is left.
    """
    if run_s * _RUNS > left_s:
        return
    with FeedWriter(unseen_outputs(reference.outputs)) as writer:
        for one in unseen_samples(reference):
            with doing(f"a sample made from those given, {one.how}"):
                writer.add(_run(session, one.feeds)[0])
        writer.finish("the original's outputs on unseen samples", ())


def compare_unseen(
    session: Session, model: Model, reference: Reference, interfaces: Sequence[Interface]
) -> list[OutputComparison]:
    """Compare a result with the original on unseen samples, one comparison for each output and sample.

    Nothing is compared if a pass changed what goes in, or on a sample of a size that the result says not to take.
    """
    folder, found = unseen_outputs(reference.outputs), list[OutputComparison]()
    if not folder.is_dir() or any(interface.feeds or interface.raw for interface in interfaces):
        return found
    kept, samples = FeedSet.open(folder), unseen_samples(reference)
    if len(kept) != len(samples):  # the original ran at fixed sizes, where nothing can be made
        return found
    variations = reference.variations() if samples else {}
    for index, sample in enumerate(samples):
        expected = kept.sample(index)
        if not expected or not _takes(model.inputs, sample.feeds):
            continue
        got, reason = _run(session, sample.feeds)
        if reason:
            compared = [OutputComparison("", "", (), problem=f"the original runs, and it does not: {reason}")]
        else:
            compared = _compare(expected, mapped_outputs(got, interfaces), sample, reference, variations)
        found += [replace(one, sample=sample.how) for one in compared]
    return found


def _compare(
    expected: Outputs, got: Outputs, sample: UnseenSample, reference: Reference, variations: Mapping[str, Variation]
) -> list[OutputComparison]:
    """Compare outputs on one sample, but those that given samples do not judge, and those of a size that values decide.

    A detector that finds one box more is right: no input has the name of that size.
    """
    if sample.alone is not None:
        shapes = {name: array.shape for name, array in reference.expected(sample.alone).items()}
        expected, got = _cut_to(expected, shapes), _cut_to(got, shapes)
    original = reference.original
    sizes = {size for info in original.inputs for size in info.shape or ()}
    free = {
        info.name: [size is None or (isinstance(size, str) and size not in sizes) for size in info.shape or ()]
        for info in original.outputs
    }

    def is_chosen(name: str) -> bool:
        new = got[name].shape if name in got else ()
        pairs = zip(expected[name].shape, new, free.get(name, ()), strict=False)
        return any(is_free and was != now for was, now, is_free in pairs)

    judged = {
        name: one for name, one in variations.items() if name in expected and not one.unjudged and not is_chosen(name)
    }
    wanted, found = ({name: one[name] for name in judged if name in one} for one in (expected, got))
    return compare_sample(wanted, found, sample.feeds, original, judged)


def unseen_samples(reference: Reference) -> list[UnseenSample]:
    """Returns what can be made from the given samples; the same ones each time."""
    feeds, original = reference.feed_set(), reference.original
    adapters = {one.info.name for one in original.adapters}
    infos = {info.name: info for info in original.inputs if info.name not in adapters}
    given = {index: feeds.sample(index) for index in reference.compared[:LOOKED_AT]}
    found: list[UnseenSample] = []
    for make in (_batched, _padded, _longer, partial(_behind_a_past, reference)):
        with suppress(LookupError, TypeError, ValueError):  # inputs that are left out, texts, arrays that do not fit
            found += make(given, infos)
    return [one for one in found if not why_not_taken(one.feeds)]


def _batched(given: Mapping[int, Feeds], infos: Mapping[str, TensorInfo]) -> Iterator[UnseenSample]:
    """Several samples of one shape in a batch, or one several times."""
    rows = row_inputs(infos.values())
    if rows and given:
        alike = samples_alike(list(given.values()), rows)
        together = in_a_batch(alike if len(alike) > 1 else 2 * alike, rows)
        yield UnseenSample(f"in a batch of {len(together[rows[0]])} rows", together)


def _padded(given: Mapping[int, Feeds], infos: Mapping[str, TensorInfo]) -> Iterator[UnseenSample]:
    """A sample with masked positions behind it, if none has masked positions already."""
    if given and all(map(_shows_all, given.values())):
        index, one = next(iter(given.items()))
        padded, more = with_padding(one, infos)
        if more:
            yield UnseenSample(f"with {more} masked positions behind it", padded, index)


def _longer(given: Mapping[int, Feeds], infos: Mapping[str, TensorInfo]) -> Iterator[UnseenSample]:
    """The largest sample twice, along every open dimension but that of rows."""
    rows = {info.shape[0] for info in infos.values() if info.shape} - {None}
    axes = {
        name: [
            axis
            for axis, size in enumerate(info.shape or ())
            if axis and not isinstance(size, int) and size not in rows
        ]
        for name, info in infos.items()
    }
    whole = [one for one in given.values() if _shows_all(one)]
    if whole and any(axes.values()):
        largest = max(whole, key=lambda one: sum(array.size for array in one.values()))
        twice = {name: _doubled(array, axes.get(name, ())) for name, array in largest.items()}
        sizes = {
            f"{(info.shape or ())[axis] or f'{name}[{axis}]'} {twice[name].shape[axis]}"
            for name, info in infos.items()
            for axis in axes[name]
            if name in twice
        }
        yield UnseenSample(f"with {some_of(sorted(sizes), 3)}", twice)


def _behind_a_past(
    reference: Reference, given: Mapping[int, Feeds], infos: Mapping[str, TensorInfo]
) -> Iterator[UnseenSample]:
    """A sample behind itself, if no sample has a past: the keys and values are those that the original gives for it."""
    takers = carried_by_name(infos, [info.name for info in reference.original.outputs])
    is_first = all(not one[taker].size for one in given.values() for taker in takers.values())
    index = next((index for index, one in given.items() if _shows_all(one)), None)
    if not takers or not is_first or index is None:
        return
    first, outputs = given[index], reference.expected(index)
    past = {taker: outputs[giver] for giver, taker in takers.items()}
    taker = next(iter(past))
    length = past[taker].shape[first[taker].shape.index(0)]
    tokens = {size for info in infos.values() if not _is_mask(info.name) for size in info.shape or ()}
    moved = {
        name: array + np.array(length, array.dtype)
        for name, array in first.items()
        if "position" in name.lower() and array.dtype.kind == "i"
    }
    grown = {
        name: np.concatenate([array, array], axis=1)
        for name, array in first.items()
        if _is_mask(name) and array.ndim == 2 and (infos[name].shape or (0, 0))[1] not in tokens
    }
    yield UnseenSample(f"behind a past of {length}", {**first, **past, **moved, **grown})


def _is_mask(name: str) -> bool:
    return "mask" in name.lower()


def _shows_all(one: Feeds) -> bool:
    """Whether no mask hides anything: padding in the middle would be no padding."""
    return all(bool(np.asarray(array).all()) for name, array in one.items() if _is_mask(name))


def _doubled(array: Array, axes: Sequence[int]) -> Array:
    for axis in axes:
        array = np.concatenate([array, array], axis=axis)
    return array


def _takes(inputs: Sequence[TensorInfo], feeds: Feeds) -> bool:
    """Whether the sizes that a model declares are those of a sample."""
    return all(
        not isinstance(size, int) or size == have
        for info in inputs
        if info.name in feeds
        for size, have in zip(info.shape or (), feeds[info.name].shape, strict=False)
    )


def _run(session: Session, feeds: Feeds) -> tuple[Outputs, str]:
    """The outputs, or why there are none."""
    try:
        return elements(session.run(feeds)), ""
    except Exception as error:  # a model may refuse what it was never run on
        return {}, describe_exception(error)


def _cut_to(outputs: Outputs, shapes: Mapping[str, tuple[int, ...]]) -> Outputs:
    return {name: cut(array, shapes[name]) if name in shapes else array for name, array in outputs.items()}


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
    for way, many, measured in (("batched", "rows", _moved_in_a_batch), ("padded", "padding", _moved_by_padding)):
        try:
            found = measured(session, infos, samples, variations or {})
        except Exception as error:  # a model may refuse what it was never run on
            found = f"the model does not run: {describe_exception(error)}"
        if isinstance(found, str):
            notes.append(f"{way}: {found}")
        else:
            figures |= {way: found[0], many: found[1]}
    return BatchDrift(**figures, notes=tuple(notes))


def _moved_in_a_batch(
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


def _moved_by_padding(
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
    padded = dict(one)
    if mask is None or mask.name not in one or not isinstance(length, str):
        return padded, 0
    more, longer = max(1, one[mask.name].shape[1] // 2), 0
    for name, info in infos.items():
        if length in (info.shape or ()):
            longer += 1
            if name in one:
                padded[name] = np.pad(one[name], [(0, more if size == length else 0) for size in info.shape or ()])
    return (padded, more) if longer > 1 else (one, 0)


def cut(array: Array, shape: tuple[int, ...]) -> Array:
    """Returns the part of an array that stands where a smaller one has its own."""
    return array[tuple(slice(size) for size in shape)] if array.ndim == len(shape) else array


def _drifts(alone: Outputs, other: Outputs, variations: Mapping[str, Variation]) -> list[float]:
    """Drift of each output that both have; infinite where they cannot be compared."""
    both = (name for name in alone if name in other)
    compared = [compare_output(name, alone[name], other[name], None, variations.get(name)) for name in both]
    return [one.relative_error for one in compared]
