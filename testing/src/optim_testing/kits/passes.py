"""What every pass must hold, as tests: subclass, say which pass and a model it should fire on, and run pytest.

Each test looks at one promise of the contract (docs/hooks.md), and its failure says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from optim.backend import Backend
from optim.engine.testing import Drift, Untouched
from optim.errors import OptimError
from optim.jobs import WorkerFailed
from optim.model import Model, TensorInfo
from optim.onnx import operator_counts
from optim.options import PassOptions, options_class, parse_options
from optim.passes import Pass, PassResult, Stage
from optim.target import Target
from optim_testing import models
from optim_testing.adapted import adapter_defect, adapter_refusal, with_adapter_inputs
from optim_testing.elsewhere import digest_elsewhere
from optim_testing.exact_integers import OnnxRuntimeCpu
from optim_testing.example import write_example
from optim_testing.imports import imported
from optim_testing.offered import StageConformance
from optim_testing.shared_weights import kept_defect, with_twin
from optim_testing.trial import Trial

_KEPT_ALL = 1e-4
"""Drift of a lossy pass that keeps every node it can keep: rounding, no more."""

_MOST_CANDIDATES = 64


@dataclass(slots=True)
class _Shared:
    """What the tests of one class share: made once, and once more after a pass damaged its input."""

    trial: Trial
    before: Untouched
    result: PassResult | None = None
    elsewhere: str = ""  # digest of what it made of the same model in another store

    def is_damaged(self) -> bool:
        try:
            self.before.require("the pass")
        except OptimError:
            return True
        return False


_SHARED: dict[tuple[str, str], _Shared] = {}
"""By the id of the class, and of what its fixtures are parametrized with."""


class PassConformance(StageConformance):
    """Subclass as ``TestMyPass``, with the two fixtures that raise here; a pass by declaration needs the first alone.

    Attributes:
        max_drift: largest drift between the outputs before and after; no default, so that somebody thought of it.
        options: what a user would write, for the options that have no default or do nothing by it.
        stage: where the plugin offers the pass.
        fires_on_everything: there is no model that it leaves alone, such as one that sets a session option.
        idempotent: False where a second time does something again on purpose.
        opset_may_rise: it converts to a newer opset and says so.
    """

    stage: ClassVar[Stage] = Stage.FUSE
    fires_on_everything: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True
    opset_may_rise: ClassVar[bool] = False

    # What the author says.

    @pytest.fixture
    def pass_class(self) -> type[Pass]:
        """The pass."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture pass_class that returns the pass")

    @pytest.fixture
    def offered(self, pass_class: type[Any]) -> type[Any]:
        """The class that the plugin offers."""
        return pass_class

    @pytest.fixture
    def model_path(self, pass_class: type[Any], tmp_path: Path) -> Path | str:
        """An ``.onnx`` file that the pass should do something for, e.g. ``models.mlp(tmp_path)``.

        A pass by declaration brings its own example.
        """
        if hasattr(pass_class, "example"):
            return write_example(pass_class.pattern, pass_class.example, tmp_path)
        raise NotImplementedError(f"{type(self).__name__} needs a fixture model_path that returns an .onnx file")

    # What it may say otherwise.

    @pytest.fixture
    def nothing_to_do(self, tmp_path: Path) -> Path:
        """A model that the pass has nothing to do for."""
        return models.identity(tmp_path)

    @pytest.fixture
    def backend(self) -> Backend:
        """Runs models here."""
        return OnnxRuntimeCpu()

    @pytest.fixture
    def data(self) -> str | None:
        """Input samples as in ``--data``; None: synthesized from the graph."""
        return None

    # What follows from it.

    @pytest.fixture
    def fresh_trial(
        self,
        model_path: Path | str,
        tmp_path: Path,
        target: Target,
        backend: Backend,
        data: str | None,
        pass_class: type[Pass],
    ) -> Trial:
        """The model in a store of its own, on which nothing was tried yet."""
        return Trial.of(model_path, tmp_path / "trial", target, backend, data, self._sizes(pass_class))

    def _sizes(self, pass_class: type[Pass]) -> Callable[[Model], Sequence[TensorInfo]]:
        """The sizes that samples have where this class's options fix some: those of a run, which asks the pass too."""
        return lambda model: pass_class().inputs_for(parse_options(pass_class, self.options), model)

    @pytest.fixture
    def shared(
        self,
        request: pytest.FixtureRequest,
        tmp_path_factory: pytest.TempPathFactory,
        target: Target,
        backend: Backend,
        pass_class: type[Pass],
    ) -> _Shared:
        """Values that the tests of this class share."""
        key = request.node.parent.nodeid, getattr(getattr(request.node, "callspec", None), "id", "")
        found = _SHARED.get(key)
        if found is None or found.is_damaged():
            path, data = request.getfixturevalue("model_path"), request.getfixturevalue("data")
            folder = tmp_path_factory.mktemp("trial")
            trial = Trial.of(path, folder, target, backend, data, self._sizes(pass_class))
            found = _SHARED[key] = _Shared(trial, Untouched.now(trial.model))
        found.trial = replace(found.trial, target=target, backend=backend)  # a backend may end with its test
        return found

    @pytest.fixture
    def trial(self, shared: _Shared) -> Trial:
        """The model in a store of its own, which the tests of this class share."""
        return shared.trial

    @pytest.fixture
    def chosen(self, trial: Trial, pass_class: type[Pass]) -> PassOptions:
        """The options of this class."""
        return trial.options(pass_class, self.options)

    @pytest.fixture
    def result(self, shared: _Shared, pass_class: type[Pass], chosen: PassOptions) -> PassResult:
        """The result of the pass, which is applied once for all tests of this class."""
        if shared.result is None:
            shared.result = shared.trial.apply(pass_class(), shared.trial.model, chosen)
        return shared.result

    # The promises.

    def test_it_fires(self, trial: Trial, pass_class: type[Pass], result: PassResult) -> None:
        """It changes the model it should fire on, and says what it did."""
        applicable = trial.applicable(pass_class(), trial.model)
        assert applicable.yes, f"it declines the model it should fire on: {applicable.reason}"
        assert result.changed, f"it changed nothing: {' '.join(result.notes)}"
        assert result.model.digest != trial.model.digest, "it says that it changed the model, which is as it was"
        assert result.counts or result.notes, "say in counts (or notes) what happened, so that a no-op is visible"

    def test_it_declines_with_a_reason(
        self, nothing_to_do: Path, tmp_path: Path, pass_class: type[Pass], target: Target, backend: Backend
    ) -> None:
        """Where there is nothing to do it changes nothing, and says why."""
        if self.fires_on_everything:
            pytest.skip("it declares that it fires on everything")
        trial = Trial.of(nothing_to_do, tmp_path / "nothing", target, backend)
        applicable = trial.applicable(pass_class(), trial.model)
        if not applicable.yes:
            assert applicable.reason.strip(), "Applicable.no(...) needs the reason that a user reads in the report"
            return
        result = trial.apply(pass_class(), trial.model, trial.options(pass_class, self.options))
        assert not result.changed, "it changed a model that has nothing to do for it"

    def test_it_leaves_its_input_alone(self, fresh_trial: Trial, shared: _Shared, pass_class: type[Pass]) -> None:
        """The files of its input are as they were, and its result is valid and in the store."""
        try:
            result = fresh_trial.apply_watched(pass_class(), fresh_trial.options(pass_class, self.options))
        except OptimError as error:
            pytest.fail(f"{error.what}: {error.cause}\n{error.fix}", pytrace=False)
        if fresh_trial.model.digest == shared.trial.model.digest:
            shared.elsewhere = result.model.digest

    def test_it_changes_session_settings_alone_if_it_says_so(
        self, trial: Trial, pass_class: type[Pass], result: PassResult
    ) -> None:
        """A pass with session_only makes no graph, and only such a pass leaves the graph."""
        same = result.model.path == trial.model.path
        assert same or not pass_class.session_only, "it says session_only, but it made another graph"
        said = pass_class.session_only or not result.changed
        assert not same or said, "it changed settings only: say session_only"

    def test_it_is_idempotent(
        self, trial: Trial, pass_class: type[Pass], chosen: PassOptions, result: PassResult
    ) -> None:
        """On its own result there is nothing left to do."""
        if not self.idempotent:
            pytest.skip("it declares that a second time changes the model again")
        if not trial.applicable(pass_class(), result.model).yes:
            return
        again = trial.apply(pass_class(), result.model, chosen)
        if again.changed and again.model.digest != result.model.digest:
            before, after = operator_counts(result.model.path), operator_counts(again.model.path)
            pytest.fail(f"on its own result it did something again: {before} became {after}", pytrace=False)

    def test_it_gives_the_same_twice(
        self, shared: _Shared, pass_class: type[Pass], chosen: PassOptions, result: PassResult
    ) -> None:
        """The same model and options give the same bytes, whichever folder the model is in."""
        again = shared.elsewhere or shared.trial.apply(pass_class(), shared.trial.model, chosen).model.digest
        assert again == result.model.digest, (
            "two times gave two models: draw from context.random, and sort what you iterate"
        )

    def test_it_keeps_inputs_outputs_and_opset(self, trial: Trial, result: PassResult) -> None:
        """Names, types and shapes stay, or an interface leads back; opsets stay."""
        before, after = trial.model, result.model
        _require_opset(before, after, may_rise=self.opset_may_rise)
        if result.interface is not None:
            for name in (result.interface.feeds, result.interface.outputs):
                assert not name or callable(imported(name)), f"{name} is no function"
            return
        hint = "; return PassResult(interface=...) if they really must change"
        assert after.inputs == before.inputs, "inputs changed" + hint
        assert after.outputs == before.outputs, "outputs changed" + hint

    def test_its_sizes_are_those_that_the_result_takes(
        self, trial: Trial, pass_class: type[Pass], chosen: PassOptions, result: PassResult
    ) -> None:
        """inputs_for gives the model's inputs, in the sizes that samples must have: they are made up so."""
        found = pass_class().inputs_for(chosen, trial.model)
        names = [(info.name, info.dtype) for info in trial.model.inputs]
        assert [(info.name, info.dtype) for info in found] == names, "inputs_for may change sizes, and nothing else"
        if result.interface is not None and result.interface.feeds:
            return  # another kind of sample
        for said, took in zip(found, result.model.inputs, strict=True):
            for size, fixed in zip(said.shape or (), took.shape or (), strict=False):
                is_open = not self.options and not isinstance(size, int)  # sizes are those of samples that are there
                assert not isinstance(fixed, int) or size == fixed or is_open, (
                    f"the result takes {list(took.shape or ())} of '{took.name}', and inputs_for says "
                    f"{list(said.shape or ())}: optim synthesizes samples in sizes that it refuses"
                )

    def test_it_computes_the_same_within_the_tolerance(self, trial: Trial, result: PassResult) -> None:
        """Every output on every sample is within max_drift."""
        limit = getattr(self, "max_drift", None)
        assert isinstance(limit, float) and 0 < limit < 1, "say max_drift = 1e-5, or what is right for your pass"
        drift = _drift(trial, result)
        assert drift.relative_error <= limit, f"drift {drift.relative_error:.3g}, max_drift {limit:.3g}"

    def test_it_keeps_inputs_for_adapters(self, trial: Trial, pass_class: type[Pass], chosen: PassOptions) -> None:
        """Weights that each run may bring stay inputs, and what is fed has the effect that it had."""
        adapted = with_adapter_inputs(trial.model, trial.store)
        if adapted is None:
            pytest.skip("no output of this model is of floats with a fixed last size")
        trial = replace(trial, model=adapted.model)
        if reason := adapter_refusal(adapted, trial.feeds.sample(0), trial.backend, trial.target):
            pytest.skip(f"this backend runs no model with an adapter: {reason}")
        if not trial.applicable(pass_class(), adapted.model).yes:
            return
        try:
            result = trial.apply(pass_class(), adapted.model, chosen)
        except OptimError as error:
            pytest.fail(
                f"with inputs for adapters: {error.what}: {error.cause}\n"
                "where it cannot work with them, decline: in applicable(), or with a note and changed=False",
                pytrace=False,
            )
        if not result.changed or result.interface is not None:
            return
        defect = adapter_defect(adapted, result.model, trial.feeds.sample(0), trial.backend, trial.target)
        assert not defect, (
            f"{defect}: take no input out that model.adapters lists, and compute nothing from its default"
        )

    def test_its_candidates_are_its_options(self, trial: Trial, pass_class: type[Pass]) -> None:
        """What auto would try is of its own options class, and not too much."""
        found = trial.candidates(pass_class())
        cls = options_class(pass_class)
        assert all(isinstance(one, cls) for one in found), f"candidates() must give instances of {cls.__name__}"
        assert len(found) <= _MOST_CANDIDATES, f"{len(found)} candidates: each is applied, compared and timed"

    def test_what_it_can_keep_is_kept(
        self, trial: Trial, pass_class: type[Pass], chosen: PassOptions, result: PassResult
    ) -> None:
        """keepable() names nodes, and keeping them all leaves the model as it was, or loses less, as ``kept`` says."""
        if "keep" not in options_class(pass_class).model_fields:
            pytest.skip("it has no option keep")
        names = list(pass_class().keepable(trial.model, chosen))
        known = {node.name for node in trial.model.ir().graph.all_nodes()}
        assert names, "it has an option keep: keepable() must name the nodes that it can leave alone"
        assert set(names) <= known, f"keepable() names what is not a node: {sorted(set(names) - known)}"
        kept = trial.apply(pass_class(), trial.model, chosen.model_copy(update={"keep": tuple(names)}))
        limit = _KEPT_ALL if pass_class.kept == Pass.kept else _drift(trial, result).relative_error
        assert not kept.changed or _drift(trial, kept).relative_error <= limit, "keeping every node still drifts"

    def test_a_kept_node_has_the_weights_that_it_had(
        self, trial: Trial, pass_class: type[Pass], chosen: PassOptions
    ) -> None:
        """Where two nodes share a weight and one is kept, its weight is bit for bit as it was before."""
        if "keep" not in options_class(pass_class).model_fields:
            pytest.skip("it has no option keep")
        if pass_class.kept != Pass.kept:
            pytest.skip(f"it says that what it keeps changes too: it stays {pass_class.kept}")
        twins = with_twin(trial.model, pass_class().keepable(trial.model, chosen), trial.store)
        if twins is None:
            pytest.skip("no node that it can keep has weights in this model")
        kept = twins.second if twins.second in pass_class().keepable(twins.model, chosen) else twins.first
        trial = replace(trial, model=twins.model)  # of which the pass may ask a score, with both outputs
        result = trial.apply(pass_class(), twins.model, chosen.model_copy(update={"keep": (kept,)}))
        if not result.changed:
            return
        defect = kept_defect(twins.model, result.model, kept)
        assert not defect, f"{defect}: give what you change a value of its own where somebody else reads it too"

    def test_it_works_in_a_process_of_its_own(
        self, trial: Trial, pass_class: type[Pass], chosen: PassOptions, result: PassResult
    ) -> None:
        """A process that knows only its import path makes the same model."""
        try:
            digest = digest_elsewhere(trial, pass_class(), chosen)
        except WorkerFailed as error:
            pytest.fail(f"in another process: {error.reason}\n{error.details}", pytrace=False)
        assert digest == result.model.digest, "another process made another model: it depends on something global"


def _drift(trial: Trial, result: PassResult) -> Drift:
    try:
        return trial.drift(result)
    except OptimError as error:
        pytest.fail(f"{error.what}: {error.cause}", pytrace=False)


def _require_opset(before: Model, after: Model, *, may_rise: bool) -> None:
    for domain, version in before.opset.items():
        now = after.opset.get(domain, version)
        name = domain or "ai.onnx"
        assert now >= version, f"opset of {name} fell from {version} to {now}"
        assert now == version or may_rise, f"opset of {name} rose from {version} to {now}: say opset_may_rise = True"
