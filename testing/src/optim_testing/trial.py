"""A pass tried on a model the way a run tries it, in a store of its own: what the conformance class is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optim.backend import Backend, Session
from optim.engine.testing import (
    NO_DRIFT,
    Calibration,
    Drift,
    FeedSet,
    Untouched,
    checked_model,
    compare_raw,
    compare_sample,
    context_for,
    elements,
    ingest,
    load_feeds,
    mapped_feeds,
    mapped_outputs,
    outputs_with_padding,
    proposed_options,
    require_fit,
    synthesize_feeds,
    variations_of,
    worst_drift,
)
from optim.errors import OptimError
from optim.model import Model, TensorInfo
from optim.onnx import describe_model
from optim.options import PassOptions, parse_options
from optim.passes import Applicable, Interface, Pass, PassResult
from optim.target import Target
from optim_testing.exact_integers import exact_integers, saturates

SEED = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """A model in a store of its own, with input samples to compare on.

    Attributes:
        model: the model as passes get it: with external data, small constants as initializers.
        target: target of the model.
        backend: backend that runs it here.
        feeds: input samples; if synthesized, eight of several sizes.
        store: folder of the store.
    """

    model: Model
    target: Target
    backend: Backend
    feeds: FeedSet
    store: Path

    @classmethod
    def of(
        cls,
        path: Path | str,
        folder: Path,
        target: Target,
        backend: Backend,
        data: str | None = None,
        sizes: Callable[[Model], Sequence[TensorInfo]] | None = None,
    ) -> Trial:
        """Brings a model file into a new store.

        Args:
            path: an ``.onnx`` file.
            folder: an empty folder for store and samples.
            target: target of the model.
            backend: backend that runs it here.
            data: input samples as in ``--data``; None: synthesized.
            sizes: inputs of the model in the sizes of the samples; None: any sizes.
        """
        store = folder / "models"
        model = ingest(Path(path), store)
        where = folder / "feeds"
        fed = model if sizes is None else replace(model, inputs=tuple(sizes(model)))
        if data is not None:
            return cls(model, target, backend, load_feeds(data, fed, where, SEED), store)
        with backend.open(model, target) as session:
            feeds = synthesize_feeds(fed, where, SEED, check=session.run)
        return cls(model, target, backend, feeds, store)

    def options(self, pass_class: type[Pass], values: Mapping[str, Any]) -> PassOptions:
        """Makes the options of a pass from values as a user writes them."""
        return parse_options(pass_class, values)

    def applicable(self, transformation: Pass, model: Model) -> Applicable:
        """Returns whether the pass can change a model."""
        return require_fit(transformation.applicable(model, self.target), Applicable, transformation.name)

    def candidates(self, transformation: Pass) -> list[PassOptions]:
        """Returns the options that a run would try."""
        with context_for(self.target, self.store, Calibration(self.feeds.folder), SEED) as context:
            return proposed_options(transformation, self.model, self.target, context)

    def apply(self, transformation: Pass, model: Model, options: PassOptions) -> PassResult:
        """Applies the pass.

        Raises:
            OptimError[bad-result]: the pass returned no PassResult, or one that does not fit.
        """
        with context_for(self.target, self.store, Calibration(self.feeds.folder), SEED, score=self._score) as context:
            return require_fit(transformation.apply(model, options, context), PassResult, transformation.name)

    def apply_watched(self, transformation: Pass, options: PassOptions) -> PassResult:
        """Ask the pass and apply it to the model itself, and distrust what it did and returned as a run does.

        Raises:
            OptimError: mutated-input, and where it says that it changed something not-in-store, store-changed,
                invalid-graph.
        """
        before = Untouched.now(self.model)
        try:
            with suppress(OptimError):  # a refusal is an answer too, of a pass that nobody gave options
                self.applicable(transformation, self.model)
                self.candidates(transformation)
            result = self.apply(transformation, self.model, options)
        finally:
            before.require(transformation.name)
        if result.changed:
            checked_model(result, self.model, self.store, transformation.name)
        return result

    def drift(self, result: PassResult) -> Drift:
        """Returns the drift of the result's outputs from the model's on every sample, through its interface.

        If sums of 8-bit products lose what exceeds 16 bits here, the backend computes integers exactly. So the same
        pass has the same drift on every processor.

        Raises:
            OptimError[interface-changed]: outputs have other names, and no interface leads back.
        """
        return self._drift(result.model, (result.interface,) if result.interface else ())

    def _score(self, path: Path) -> float:
        """As a run scores a model that a pass tries."""
        return 1 - self._drift(describe_model(path, session=self.model.session, digest=path.name), ()).relative_error

    def _drift(self, model: Model, interfaces: Sequence[Interface]) -> Drift:
        drift = NO_DRIFT
        with self.backend.open(self.model, self.target) as original, self._open_exact(model) as changed:
            if any(interface.raw for interface in interfaces):
                for comparison in compare_raw(changed, original, interfaces):
                    drift = drift.worst(comparison.drift)
                return drift
            padded = outputs_with_padding(original.run, self.model, self.feeds.iterate())
            samples = [(elements(original.run(feeds)), feeds) for feeds in self.feeds.iterate()]
            variations = variations_of(samples, self.model, padded)
            for expected, feeds in samples:
                got = elements(mapped_outputs(changed.run(mapped_feeds(feeds, interfaces)), interfaces))
                if set(got) != set(expected):
                    raise OptimError(
                        "interface-changed",
                        f"outputs {_names(got)} instead of {_names(expected)}",
                        "the pass returned no interface that says so",
                        "a pass that changes inputs or outputs must return PassResult(interface=...)",
                    )
                comparisons = compare_sample(expected, got, feeds, self.model, variations)
                drift = drift.worst(worst_drift(comparisons))
        return drift

    def _open_exact(self, model: Model) -> Session:
        exact = exact_integers(model, self.store)
        if exact is not None and saturates(self.backend, self.target, self.store.parent):
            try:
                return exact.backend.open(exact.model, exact.target)
            except OptimError:  # onnxruntime has no kernel for a node that the backend runs
                pass
        return self.backend.open(model, self.target)


def _names(outputs: Mapping[str, object] | Sequence[str]) -> str:
    return ", ".join(sorted(outputs))
