"""How the model at the end of a chain is held against the original: a part of the requests of jobs that do it.

A model may be fed in other ways than the original. A pass that recasts it (``optim.passes.Interface.raw``) is held to
two things at once: the model that it was given is compared with the original on the original's feeds, and the new
model, on raw samples, with what an independent implementation of the new steps makes of that given model::

    original feeds -> given model -> compared with the original's outputs
    raw sample -> given() -> given model -> expected() -> compared with: raw sample -> new model

Each variant, such as another adapter, is held against a model of its own, on the original's feeds, or against the
original::

    original feeds -> variant's model                           -> expected
    original feeds -> variant's feeds() -> model at the end     -> compared with it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from optim._engine.compare.place import (
    Place,
    Reference,
    call_interface,
    chosen,
    compare_session,
    mapped_feeds,
    mapped_outputs,
)
from optim._engine.compare.unseen import LOOKED_AT, batch_drift
from optim._engine.gate.budget import TaskFigure
from optim._engine.gate.drift import BatchDrift, OutputComparison, merge_samples, worst_drift
from optim._engine.gate.outputs import compare_sample, elements
from optim.arrays import Feeds, Outputs
from optim.backend import Session
from optim.drift import compare_outputs
from optim.errors import OptimError
from optim.jobs.doing import doing
from optim.model import Model, SessionConfig
from optim.onnx.files import describe_model
from optim.options import import_named
from optim.passes import Interface


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where a chain's models run, and what they are compared with.

    Attributes:
        given: the model that a recasting step was given; None where there is none.
    """

    place: Place
    reference: Reference
    interfaces: tuple[Interface, ...]
    given: Model | None = None

    def after(self, interface: Interface | None, model: Model) -> Comparison:
        """The comparison of a chain with one more step, which was given a model."""
        if interface is None:
            return self
        given = model if interface.raw and self.given is None else self.given
        return replace(self, interfaces=(*self.interfaces, interface), given=given)

    def judge(
        self, session: Session, samples: Sequence[int], *, measure_task: bool, everything: bool
    ) -> tuple[tuple[OutputComparison, ...], TaskFigure | None]:
        """Compare the model at the end of the chain with the original.

        Args:
            session: of that model.
            samples: of the original's feeds; with none, no output is compared.
            measure_task: whether the run's task metric is measured; it is not where an output has a problem.
            everything: the metric on all its samples, or on those that candidates are explored on.

        Returns:
            Every output at its worst, and the task metric where it was asked for and can be measured.

        Raises:
            OptimError: nothing-compared, interface-changed, two-recasts, metric-failed, metric-nonsense.
        """
        place = recast_place(self.interfaces)
        with self._fed_as_original(session, place) as (inner, interfaces):
            found = compare_session(inner, self.reference, samples, interfaces) if samples else []
            found += compare_variants(inner, self.reference, samples, interfaces, self.place)
            if samples and inner is not session:
                found += compare_raw(session, inner, self.interfaces[place:])
            measure_task = measure_task and not any(comparison.problem for comparison in found)
            return tuple(found), self._task(inner, interfaces, everything=everything) if measure_task else None

    def batch_drift(self, session: Session, model: Model) -> BatchDrift:
        """How far the model's answers move in a batch and with padding; raw samples are not looked at."""
        if recast_place(self.interfaces) is not None:
            return BatchDrift(notes=("a pass changed the inputs: optim does not batch raw samples",))
        feeds = self.reference.feed_set()
        samples = [mapped_feeds(feeds.sample(index), self.interfaces) for index in self.reference.compared[:LOOKED_AT]]
        adapters = {one.info.name for one in model.adapters}
        inputs = [info for info in model.inputs if info.name not in adapters]
        is_renamed = any(interface.outputs for interface in self.interfaces)  # a name may mean something else then
        return batch_drift(session, inputs, samples, {} if is_renamed else self.reference.variations())

    def timed_feeds(self, samples: Sequence[int]) -> list[tuple[str, Feeds]]:
        """What the model is timed on, with names; raw samples where its feeds are of another kind, as many."""
        place = recast_place(self.interfaces)
        if place is None:
            feeds = self.reference.feed_set()
            return [(feeds.name_of(i), mapped_feeds(feeds.sample(i), self.interfaces)) for i in samples]
        raw = [mapped_feeds(feeds, self.interfaces[place + 1 :]) for feeds in _raw(self.interfaces[place])]
        return [(f"raw sample {number}", raw[number % len(raw)]) for number in range(len(samples))]

    def score(self, session: SessionConfig, samples: Sequence[int], path: Path) -> float:
        """How good a model file is, for a pass that tries many models itself (``Context.score``).

        Args:
            session: settings to open it with.
            samples: to compare on where the run has no task metric.
            path: of the model, which lies outside the store.

        Returns:
            The task metric, turned so that higher is better; without one, 1 less the drift from the original. Minus
            infinity where outputs became NaN or infinite.

        Raises:
            OptimError: metric-failed, metric-nonsense.
        """
        model = describe_model(path, session=session, digest=path.name)
        with self.place.backend().open(model, self.place.target) as opened:
            task = self._task(opened, self.interfaces, everything=False)
            if task is not None and self.reference.task is not None:
                return task.value if self.reference.task.higher_is_better else -task.value
            return 1 - worst_drift(compare_session(opened, self.reference, samples, self.interfaces)).relative_error

    def _task(self, session: Session, interfaces: tuple[Interface, ...], *, everything: bool) -> TaskFigure | None:
        """The task metric; a run without one does not import what measures it."""
        if self.reference.task is None:
            return None
        from optim._engine.compare.task import measure_task

        return measure_task(session, self.reference, interfaces, everything=everything)

    @contextmanager
    def _fed_as_original(self, session: Session, place: int | None) -> Iterator[tuple[Session, tuple[Interface, ...]]]:
        """A session that takes the original's feeds, and the interfaces up to it."""
        if place is None or self.given is None:
            yield session, self.interfaces
            return
        if recast_place(self.interfaces[place + 1 :]) is not None:
            raise OptimError(
                "two-recasts",
                "two passes of one chain change inputs or outputs",
                "only one pass of a chain may bring raw samples",
                "name one of them",
            )
        with self.place.backend().open_reference(self.given, self.place.target) as inner:
            yield inner, self.interfaces[:place]


def recast_place(interfaces: Sequence[Interface]) -> int | None:
    """The place of the interface that brings raw samples, in a chain's interfaces."""
    return next((place for place, interface in enumerate(interfaces) if interface.raw), None)


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
    named = []
    for found in compared:
        having = [number for number, (expected, _) in enumerate(pairs) if found.name in expected]
        worst = f"raw sample {having[found.by_sample.index(found.relative_error)]}"
        named.append(replace(found, name=f"raw: {found.name}", sample=worst, limit=recast.tolerance))
    return named


def _raw(interface: Interface) -> Sequence[Feeds]:
    samples: Sequence[Feeds] = call_interface(interface.raw, interface)
    if not samples:
        raise OptimError(
            "nothing-compared",
            "the models have nothing to compare",
            f"{interface.raw} gave no sample",
            "give the pass raw samples of your own; optim passes show PASS lists the option",
        )
    return samples


def compare_variants(
    session: Session, reference: Reference, samples: Sequence[int], interfaces: Sequence[Interface], place: Place
) -> list[OutputComparison]:
    """Compare every variant of a chain's interfaces, the worst of each output."""
    found: list[OutputComparison] = []
    variants = [(index, one) for index, interface in enumerate(interfaces) for one in interface.variants]
    for index, variant in variants if samples else ():
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
                named = [
                    replace(one, name=f"{variant.name}: {one.name}", sample=f"sample {sample}") for one in compared
                ]
                merged = merge_samples(merged, named)
        found += merged.values()
    return found


def variant_models(interfaces: Sequence[Interface]) -> list[Model]:
    """The models that a chain's variants are compared with, beside the original."""
    found = (variant.model for interface in interfaces for variant in interface.variants)
    return [model for model in found if model is not None]
