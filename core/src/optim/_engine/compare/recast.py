"""How a model is compared that is fed in other ways than the original: recast, or with another adapter or none.

A pass that recasts a model (``optim.passes.Interface.raw``) is held to two things at once: the model that it was given
is compared with the original on the original's feeds, and the new model, on raw samples, with what an independent
implementation of the new steps makes of that given model::

    original feeds -> given model -> compared with the original's outputs
    raw sample -> given() -> given model -> expected() -> compared with: raw sample -> new model

Each variant, such as another adapter, is held against a model of its own, on the original's feeds, or against the
original::

    original feeds -> variant's model                           -> expected
    original feeds -> variant's feeds() -> model at the end     -> compared with it
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from optim._engine.compare.place import Place, Reference, call_interface, chosen, mapped_feeds, mapped_outputs
from optim._engine.gate.drift import OutputComparison, merge_samples
from optim._engine.gate.outputs import compare_sample, elements
from optim.arrays import Feeds, Outputs
from optim.backend import Session
from optim.drift import compare_outputs
from optim.errors import OptimError
from optim.jobs.doing import doing
from optim.model import Model
from optim.options import import_named
from optim.passes import Interface, Variant

_RAW_PREFIX = "raw: "
"""Before the name of an output that was compared on raw samples."""


def recast_place(interfaces: Sequence[Interface]) -> int | None:
    """Where in a chain's interfaces the one is that brings raw samples."""
    return next((place for place, interface in enumerate(interfaces) if interface.raw), None)


def raw_samples(interfaces: Sequence[Interface]) -> list[Feeds]:
    """Raw samples as the model at the end of the chain takes them.

    Raises:
        OptimError[nothing-compared]: there is none.
    """
    place = recast_place(interfaces)
    assert place is not None
    samples = _raw(interfaces[place])
    return [mapped_feeds(feeds, interfaces[place + 1 :]) for feeds in samples]


def compare_raw(session: Session, inner: Session, interfaces: Sequence[Interface]) -> list[OutputComparison]:
    """Compare a recast model with what its interface makes of the model inside, on raw samples.

    Raises:
        OptimError: nothing-compared, interface-changed.
    """
    recast, after = interfaces[0], interfaces[1:]
    pairs: list[tuple[Outputs, Outputs]] = []
    for number, raw in enumerate(_raw(recast)):
        with doing(f"raw sample {number}"):
            feeds = call_interface(recast.given, recast, raw)
            expected = elements(call_interface(recast.expected, recast, inner.run(feeds), raw))
            got = elements(mapped_outputs(session.run(mapped_feeds(raw, after)), interfaces))
        if set(got) != set(expected):
            raise OptimError(
                "interface-changed",
                "the candidate has other outputs than its pass says",
                f"expected: {', '.join(sorted(expected))}; candidate: {', '.join(sorted(got))}",
                "this is an issue of the pass that returned the interface",
            )
        pairs.append((expected, got))
    compared = compare_outputs(pairs)
    if not any(found.compared or found.problem for found in compared):
        raise OptimError(
            "nothing-compared",
            "the models have nothing to compare",
            "no raw sample gave a single element",
            "give the pass raw samples of your own on which the model finds something",
        )
    return [
        replace(
            found, name=_RAW_PREFIX + found.name, sample=f"raw sample {_worst_of(found, pairs)}", limit=recast.tolerance
        )
        for found in compared
    ]


def _worst_of(found: OutputComparison, pairs: Sequence[tuple[Outputs, Outputs]]) -> int:
    """Returns the number of the sample with the worst drift of an output; some samples may not have it."""
    having = [number for number, (expected, _) in enumerate(pairs) if found.name in expected]
    return having[found.by_sample.index(found.relative_error)]


def _raw(interface: Interface) -> Sequence[Feeds]:
    samples: Sequence[Feeds] = call_interface(interface.raw, interface)
    if not samples:
        what, cause = "the models have nothing to compare", f"{interface.raw} gave no sample"
        raise OptimError(
            "nothing-compared",
            what,
            cause,
            "give the pass raw samples of your own; optim passes show PASS lists the option",
        )
    return samples


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
    variations = reference.variations()
    feeds_of = import_named(variant.feeds)
    part_of = import_named(variant.outputs) if variant.outputs else lambda outputs, _: outputs
    opened: AbstractContextManager[Session | None] = nullcontext()
    if variant.model is not None:
        opened = place.backend().open_reference(variant.model, place.target)
    with opened as own:
        for sample, feeds in chosen(reference.feed_set(), samples):
            before = mapped_feeds(feeds, interfaces[:index])
            fed = mapped_feeds(feeds_of(before, **variant.parameters), interfaces[index + 1 :])
            got = mapped_outputs(session.run(fed), interfaces)
            made = None if own is None else mapped_outputs(own.run(before), interfaces[:index])
            expected = reference.expected(sample) if made is None else made
            parts = part_of(expected, feeds), part_of(got, feeds)
            compared = compare_sample(*parts, feeds, reference.original, variations)
            named = [replace(one, name=f"{variant.name}: {one.name}", sample=f"sample {sample}") for one in compared]
            merged = merge_samples(merged, named)
    return list(merged.values())
