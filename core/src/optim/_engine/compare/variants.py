"""How a model is compared that can be fed in further ways: with another adapter, or without one.

Each variant is held against a model of its own, on the original's feeds, or against the original::

    original feeds -> variant's model                           -> expected
    original feeds -> variant's feeds() -> model at the end     -> compared with it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from optim._engine.compare.place import Place, Reference, chosen, mapped_feeds, mapped_outputs
from optim._engine.gate.drift import OutputComparison, merge_samples
from optim._engine.gate.outputs import compare_sample
from optim.arrays import Feeds, Outputs
from optim.backend import Session
from optim.model import Model
from optim.options import import_named
from optim.passes import Interface, Variant


def compare_variants(
    session: Session, reference: Reference, samples: Sequence[int], interfaces: Sequence[Interface], place: Place
) -> list[OutputComparison]:
    """Compare every variant of a chain's interfaces, the worst of each output."""
    found: list[OutputComparison] = []
    for index, interface in enumerate(interfaces):
        for variant in interface.variants if samples else ():
            found += _compare(session, reference, samples, interfaces, index, variant, place)
    return found


def variant_models(interfaces: Sequence[Interface]) -> list[Model]:
    """The models that a chain's variants are compared with, beside the original."""
    found = (variant.model for interface in interfaces for variant in interface.variants)
    return [model for model in found if model is not None]


def _compare(
    session: Session,
    reference: Reference,
    samples: Sequence[int],
    interfaces: Sequence[Interface],
    index: int,
    variant: Variant,
    place: Place,
) -> list[OutputComparison]:
    merged: dict[str, OutputComparison] = {}
    inputs, outputs, variations = reference.original.inputs, reference.original.outputs, reference.variations()
    feeds_of = import_named(variant.feeds)
    part_of = import_named(variant.outputs) if variant.outputs else _whole
    with _expecting(reference, interfaces[:index], variant.model, place) as expecting:
        for sample, feeds in chosen(reference.feed_set(), samples):
            before = mapped_feeds(feeds, interfaces[:index])
            fed = mapped_feeds(feeds_of(before, **variant.parameters), interfaces[index + 1 :])
            got = mapped_outputs(session.run(fed), interfaces)
            expected = expecting(sample, before)
            parts = part_of(expected, feeds), part_of(got, feeds)
            compared = compare_sample(*parts, feeds, inputs, outputs, variations)
            named = [replace(one, name=f"{variant.name}: {one.name}", sample=f"sample {sample}") for one in compared]
            merged = merge_samples(merged, named)
    return list(merged.values())


@contextmanager
def _expecting(
    reference: Reference, interfaces: Sequence[Interface], model: Model | None, place: Place
) -> Iterator[Callable[[int, Feeds], Outputs]]:
    """What says what a variant should give on a sample: a model of its own, else the original."""
    if model is None:
        yield lambda sample, _: reference.expected(sample)
        return
    with place.backend().open_reference(model, place.target) as session:
        yield lambda _, feeds: mapped_outputs(session.run(feeds), interfaces)


def _whole(outputs: Outputs, feeds: Feeds) -> Outputs:
    return outputs
