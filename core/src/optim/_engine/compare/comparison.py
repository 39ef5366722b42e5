"""How the model at the end of a chain is held against the original: a part of the requests of jobs that do it.

What a pass that recasts a model changes is in here alone (:mod:`optim._engine.compare.recast`): the model that it was
given is what is compared on the original's feeds and what the task metric looks at, and the new one is held to that
on raw samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from optim._engine.compare.batching import batch_drift
from optim._engine.compare.place import Place, Reference, compare_session, mapped_feeds
from optim._engine.compare.recast import compare_raw, compare_variants, raw_samples, recast_place
from optim._engine.compare.unseen import compare_unseen
from optim._engine.gate.drift import BatchDrift, OutputComparison, worst_drift
from optim._engine.gate.max_loss import TaskFigure
from optim.arrays import Feeds
from optim.backend import Session
from optim.errors import OptimError
from optim.model import Model, SessionConfig
from optim.onnx.files import describe_model
from optim.passes import Interface

_LOOKED_AT = 8
"""Samples among which those of one shape are looked for."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found: every output at its worst, and the task metric where it was asked for and can be measured."""

    comparisons: tuple[OutputComparison, ...]
    task: TaskFigure | None = None


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

    def judge(self, session: Session, samples: Sequence[int], *, measure_task: bool, everything: bool) -> Judged:
        """Compare the model at the end of the chain with the original.

        Args:
            session: of that model.
            samples: of the original's feeds; with none, no output is compared.
            measure_task: whether the run's task metric is measured; it is not where an output has a problem.
            everything: the metric on all its samples, or on those that candidates are explored on.

        Raises:
            OptimError: nothing-compared, interface-changed, two-recasts, metric-failed, metric-nonsense.
        """
        place = recast_place(self.interfaces)
        with self._fed_as_original(session, place) as (inner, interfaces):
            found = compare_session(inner, self.reference, samples, interfaces) if samples else []
            found += compare_variants(inner, self.reference, samples, interfaces, self.place)
            if samples and inner is not session:
                found += compare_raw(session, inner, self.interfaces[place:])
            if not measure_task or any(comparison.problem for comparison in found):
                return Judged(tuple(found))
            return Judged(tuple(found), self._task(inner, interfaces, everything=everything))

    def batch_drift(self, session: Session, model: Model) -> BatchDrift:
        """How far the model's answers move in a batch and with padding; raw samples are not looked at."""
        if recast_place(self.interfaces) is not None:
            return BatchDrift(notes=("a pass changed the inputs: optim does not batch raw samples",))
        feeds = self.reference.feed_set()
        samples = [mapped_feeds(feeds.sample(index), self.interfaces) for index in self.reference.compared[:_LOOKED_AT]]
        adapters = {one.info.name for one in model.adapters}
        inputs = [info for info in model.inputs if info.name not in adapters]
        is_renamed = any(interface.outputs for interface in self.interfaces)  # a name may mean something else then
        return batch_drift(session, inputs, samples, {} if is_renamed else self.reference.variations())

    def judge_unseen(self, session: Session, model: Model) -> tuple[OutputComparison, ...]:
        """Compare with the original in sizes that no given sample has; raw samples are not looked at."""
        if recast_place(self.interfaces) is not None:
            return ()
        return tuple(compare_unseen(session, model, self.reference, self.interfaces))

    def timed_feeds(self, samples: Sequence[int]) -> list[tuple[str, Feeds]]:
        """What the model is timed on, with names; raw samples where its feeds are of another kind, as many."""
        if recast_place(self.interfaces) is None:
            feeds = self.reference.feed_set()
            return [(feeds.name_of(i), mapped_feeds(feeds.sample(i), self.interfaces)) for i in samples]
        raw = raw_samples(self.interfaces)
        return [(f"raw sample {place}", raw[place % len(raw)]) for place in range(len(samples))]

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
