"""Apply a lossy pass with some nodes left alone, and measure how far the result drifts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx_ir as ir

from optim._engine.compare.place import compare_session, mapped_feeds
from optim._engine.feeds.feedset import SYNTHESIZED
from optim._engine.gate.drift import worst_drift
from optim._engine.jobs.candidate import Request
from optim._engine.plugins.registry import load_registry
from optim.arrays import Feeds
from optim.backend import Session
from optim.context import MeasuringContext
from optim.errors import ExitStatus, OptimError
from optim.model import Model
from optim.onnx.files import discard_measured, save_for_measuring
from optim.options import options_class, parse_options
from optim.passes import Applicable, PassResult


class PassProbe:
    """A pass on a model, loaded once; a context manager that leaves no file behind.

    Whatever fails, the pass, the runtime or the disk, raises: a failure is no drift.

    Attributes:
        request: the pass with its options, the model it is applied to, and what that is compared with.
        nodes: names of what the pass can leave alone, in graph order, without those that its options leave alone.
        refinable: names of nodes that its option ``finer`` can compute in a precision between.
        calibrates: whether the pass needs samples.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self._comparison = request.comparison
        pass_class = load_registry(only=[request.plugin]).find_pass(request.name, request.target).over_models
        self._pass = pass_class()
        self._backend = request.comparison.place.backend()
        self._feeds = self._comparison.reference.feed_set()
        self.calibrates = self._pass.calibrates
        self._measured: dict[str, dict[str, Any]] = {}
        has, options = options_class(pass_class).model_fields, parse_options(pass_class, request.options)
        self._kept = tuple(getattr(options, "keep", ())) if "keep" in has else ()
        names = dict.fromkeys(self._pass.keepable(request.model, options)) if "keep" in has else ()
        self.nodes = tuple(name for name in names if name not in self._kept)
        self._finer = tuple(getattr(options, "finer", ())) if "finer" in has else ()
        between = self._pass.refinable(request.model, options) if "finer" in has else ()
        self.refinable = frozenset(between) - {*self._kept, *self._finer}

    def applicable(self) -> Applicable:
        """What the pass says of the model."""
        return self._pass.applicable(self.request.model, self.request.target)

    def __enter__(self) -> PassProbe:
        self._scratch = TemporaryDirectory(dir=self.request.store.parent, prefix="scratch-")
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.cleanup()

    def feeds(self, sample: int) -> Feeds:
        """What the model is fed on a sample."""
        return mapped_feeds(self._feeds.sample(sample), self._comparison.interfaces)

    def drift(self, keep: Collection[str], samples: Iterable[int]) -> float:
        """The worst drift of :meth:`drifts`."""
        return max(drift for _, drift in self.drifts(keep, samples))

    @property
    def is_estimate(self) -> bool:
        """Whether :meth:`drifts` are those of another session than the gate judges, on the target, if not told else."""
        return self._backend.has_estimate

    def drifts(
        self, keep: Collection[str], samples: Iterable[int], finer: Collection[str] = (), *, on_target: bool = False
    ) -> Iterator[tuple[int, float]]:
        """Drift from the original with some nodes left alone, for each sample; infinite where NaN appears.

        Args:
            keep: names of nodes to leave alone, beside those that the options say.
            samples: of the run, measured one by one.
            finer: names of nodes in a precision between, beside those that the options say.
            on_target: whether it is opened as the gate opens it, and not in the backend's quick session.

        Raises:
            OptimError[not-applicable]: the pass changes nothing though no node is to be left alone.
            OptimError: the pass fails, or the runtime does not open or run what the pass makes.
        """
        model = self.request.model
        with self.applied(model, keep, self._calibration, finer) as result:
            if not keep and not result.changed:
                raise does_nothing(self.request, "; ".join(result.notes))
            comparison = self._comparison.after(result.interface, model)
            with self.opened(result.model, on_target=on_target) as session:
                for sample in samples:
                    found = compare_session(session, comparison.reference, [sample], comparison.interfaces)
                    yield sample, worst_drift(found).relative_error

    @contextmanager
    def written(self, graph: ir.Model) -> Iterator[Model]:
        """A graph that refers to the store's weights, as a model; its file goes with the context."""
        model = save_for_measuring(graph, self.request.store, session=self.request.model.session)
        try:
            yield model
        finally:
            discard_measured(model)

    @contextmanager
    def applied(
        self, model: Model, keep: Collection[str], samples: Callable[[], Iterable[Feeds]], finer: Collection[str] = ()
    ) -> Iterator[PassResult]:
        """What the pass makes of a model that is not its own; its files go with the context.

        What the pass measures inside the request's model is kept for the next time.
        """
        asked = self.request
        context = MeasuringContext(
            target=asked.target,
            scratch=Path(self._scratch.name),
            store=asked.store,
            seed=asked.seed,
            samples=lambda: iter(samples()),
            log=logging.getLogger("optim.pass"),
            report_progress=lambda share, text: None,
            feeds_given=self._feeds.origin != SYNTHESIZED,
            measured=self._measured if model.digest == self.request.model.digest else {},
        )
        left = [*self._kept, *(name for name in self.nodes if name in keep)]
        changed = {"keep": left} if "keep" in asked.options or left else {}
        if finer:
            changed["finer"] = [*self._finer, *(name for name in self.nodes if name in finer)]
        options = parse_options(type(self._pass), {**asked.options, **changed})
        try:
            yield self._pass.apply(model, options, context)
        finally:
            context.discard()

    def opened(self, model: Model, *, on_target: bool = False) -> Session:
        """A session that computes as the run's target does, or about so where that takes long."""
        open_model = self._backend.open if on_target else self._backend.open_estimate
        return open_model(model, self.request.target)

    def _calibration(self) -> Iterator[Feeds]:
        """What the pass is fitted to, as in a run."""
        return (self.feeds(sample) for sample in self._feeds.calibration)


def does_nothing(request: Request, reason: str) -> OptimError:
    """The error of a pass that can do nothing for a model."""
    return OptimError(
        "not-applicable",
        f"{request.name} can do nothing for this model here",
        reason,
        "optim passes list",
        status=ExitStatus.BAD_INPUT,
    )
