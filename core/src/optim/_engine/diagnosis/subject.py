"""A lossy pass on a model, as something to measure: apply it with some nodes left alone, and see how far it drifts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx_ir as ir

from optim._engine.compare.place import compare_session, mapped_feeds
from optim._engine.diagnosis.isolate import find_places
from optim._engine.feeds.feedset import SYNTHESIZED
from optim._engine.gate.drift import worst_drift
from optim._engine.jobs.candidate import Request
from optim._engine.plugins.registry import load_registry
from optim.arrays import Feeds
from optim.backend import Session
from optim.context import MeasuringContext
from optim.errors import OptimError
from optim.model import Model
from optim.onnx.files import discard_measured, save_for_measuring
from optim.options import options_class, parse_options
from optim.passes import Applicable, PassResult


class Subject:
    """The pass, the backend and the samples of a request, loaded once; a context manager that leaves no file behind.

    Attributes:
        request: the pass with its options, the model it is applied to, and what that is compared with.
        nodes: names of what the pass can leave alone, in graph order, without those that its options leave alone.
        samples: those that :meth:`drift` is measured on; the request's, unless somebody chose others.
        refinable: names of nodes that its option ``finer`` can compute in a precision between.
        refusal: why the pass changed nothing when it was to change everything; empty as long as it does.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self._comparison = request.comparison
        pass_class = load_registry(only=[request.plugin]).find_pass(request.name, request.target).over_models
        self._pass = pass_class()
        self._backend = request.comparison.place.backend()
        self._feeds = self._comparison.reference.feed_set()
        known = "keep" in options_class(pass_class).model_fields
        options = parse_options(pass_class, request.options)
        self.refusal = ""
        self._measured: dict[str, dict[str, Any]] = {}
        self.samples = tuple(request.samples)
        self._kept = tuple(getattr(options, "keep", ())) if known else ()
        names = dict.fromkeys(self._pass.keepable(request.model, options)) if known else ()
        self.nodes = tuple(name for name in names if name not in self._kept)
        has_finer = "finer" in options_class(pass_class).model_fields
        self._finer = tuple(getattr(options, "finer", ())) if has_finer else ()
        between = self._pass.refinable(request.model, options) if has_finer else ()
        self.refinable = frozenset(between) - {*self._kept, *self._finer}

    def applicable(self) -> Applicable:
        """What the pass says of the model."""
        return self._pass.applicable(self.request.model, self.request.target)

    def chained(self) -> tuple[str, ...]:
        """Convolutions whose results stay integers for the next, in graph order.

        None of a pass that needs no samples: ranges of activations that are found while running are of floats.
        """
        if not self._pass.calibrates:
            return ()
        return tuple(
            place.name for place in find_places(self.request.model.ir(), self.nodes) if place.operator == "Conv"
        )

    def __enter__(self) -> Subject:
        self._scratch = TemporaryDirectory(dir=self.request.store.parent, prefix="scratch-")
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.cleanup()

    def feeds(self, sample: int) -> Feeds:
        """What the model is fed on a sample."""
        return mapped_feeds(self._feeds.sample(sample), self._comparison.interfaces)

    def drift(self, keep: Collection[str], finer: Collection[str] = ()) -> float:
        """Relative L2 to the original with ``keep`` left alone, the worst of the samples; infinite without a run."""
        return max((drift for _, drift in self.drifts(keep, self.samples, finer)), default=float("inf"))

    def drifts(
        self, keep: Collection[str], samples: Iterable[int], finer: Collection[str] = ()
    ) -> Iterator[tuple[int, float]]:
        """The same sample by sample; one that is infinite, for the first of them, where it does not run at all."""
        asked, waiting = self.request, list(samples)
        try:
            with self.applied(asked.model, keep, self._samples, finer) as result:
                if not keep and not result.changed:
                    self.refusal = "; ".join(result.notes)
                comparison = self._comparison.after(result.interface, asked.model)
                with self.opened(result.model) as session:
                    while waiting:
                        found = compare_session(session, comparison.reference, waiting[:1], comparison.interfaces)
                        yield waiting.pop(0), worst_drift(found).relative_l2
        except OptimError:
            yield from [(sample, float("inf")) for sample in waiting[:1]]

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

        Args:
            model: what to apply it to.
            keep: names of nodes to leave alone, beside those that the options say.
            samples: feeds of ``model`` for calibration.
            finer: names of nodes in a precision between, beside those that the options say.
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

    def opened(self, model: Model) -> Session:
        """A session that computes as the run's target does, or about so where that takes long."""
        return self._backend.open_estimate(model, self.request.target)

    def _samples(self) -> Iterator[Feeds]:
        """What the pass is fitted to, as in a run."""
        return (self.feeds(sample) for sample in self._feeds.calibration)
