"""What every backend must hold, as tests: subclass, say which backend and which target, and run pytest.

What it computes is held against onnx's own reference evaluator; what it says, against its model and its target.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from optim.arrays import Feeds, Outputs
from optim.backend import Backend, BackendLimits, Session
from optim.drift import compare_outputs, objection
from optim.engine.testing import (
    HeldBackend,
    PluginInfo,
    class_defect,
    clock_doubt,
    compare_sample,
    elements,
    executed_defect,
    outputs_defect,
    outputs_with_padding,
    ran_elsewhere,
    target_defect,
    times_defect,
    variations_of,
    worst_drift,
)
from optim.errors import OptimError
from optim.jobs import WorkerFailed, from_wire
from optim.model import Model
from optim.onnx import describe_model
from optim.target import Target
from optim_testing import models
from optim_testing.imports import imports_of
from optim_testing.kit import Kit
from optim_testing.kits import backend_elsewhere

_TIMEOUT_S = 120.0

_STANDARD = {
    "dynamic": models.mlp,
    "fixed sizes": models.fixed_mlp,
    "two outputs": models.two_outputs,
    "a long run": models.long_run,
}
"""Models of plain operators that devices commonly have; one that a backend refuses with a reason is skipped."""

_OPENINGS = 6
"""Models that are opened and closed: a backend that keeps something of each has so many more of it afterwards."""

_WIDTH, _PIECE_BYTES = 1 << 16, 5 << 20
"""Of the hidden layer of what is opened: its weights are 11 MB. Half of it left of each is too much."""

_WIDTHS = 64, 96
"""Of the hidden layers of two models that have the same inputs and outputs."""

_TURNS, _TIMED = 3, 5
"""Turns in which samples are run in another order, and runs that are timed together."""


class BackendConformance(Kit):
    """Subclass as ``TestMyBackend``, with the two fixtures that raise here.

    Attributes:
        max_drift: largest drift from onnx's reference evaluator; no default, so that somebody thought of it.
        plugin: the plugin that brings it, for the rules of names.
    """

    max_drift: ClassVar[float]
    plugin: ClassVar[str] = ""

    # What the author says.

    @pytest.fixture
    def backend_class(self) -> type[Backend]:
        """The backend."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture backend_class that returns the backend")

    @pytest.fixture
    def target(self) -> Target:
        """A target that it runs models for, which can be used here."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture target that returns a Target of the backend")

    # What it may say otherwise.

    @pytest.fixture
    def model_path(self, tmp_path: Path) -> Path | str:
        """An ``.onnx`` file that it runs."""
        return models.mlp(tmp_path)

    @pytest.fixture
    def refused(self, tmp_path: Path) -> Path | str:
        """An ``.onnx`` file that it cannot run: by default one with an operator of nobody."""
        return models.foreign(tmp_path)

    @pytest.fixture
    def feeds(self, model: Model) -> list[Feeds]:
        """Samples of several sizes, synthesized from the model's inputs."""
        return [_sample(model, batch) for batch in (1, 3)]

    # What follows from it.

    @pytest.fixture
    def model(self, model_path: Path | str) -> Model:
        """The model."""
        return describe_model(Path(model_path))

    @pytest.fixture
    def session(self, backend_class: type[Backend], model: Model, target: Target) -> Iterator[Session]:
        """The model, opened."""
        session = backend_class().open(model, target)
        assert isinstance(session, Session), f"open() returned {type(session).__name__}, not an optim.Session"
        yield session
        session.close()

    # The promises.

    def test_its_names_fit(self, backend_class: type[Backend], target: Target) -> None:
        """What the registry checks when a plugin offers backend and target."""
        info = PluginInfo(self.plugin or target.name, "", "", "")
        defect = class_defect("backend", backend_class, info) or target_defect(target, info)
        assert not defect, defect
        assert target.backend == backend_class.name, f"the target runs on '{target.backend}', not on this backend"

    def test_its_limits_are_limits(self, backend_class: type[Backend], model: Model) -> None:
        """It says what it accepts, and the model is within."""
        found = backend_class().limits()
        assert isinstance(found, BackendLimits), f"limits() returned {type(found).__name__}, not BackendLimits"
        assert "" in found.opset, "limits() needs the newest version of the standard operators, under the name ''"
        beyond = {domain: version for domain, version in model.opset.items() if version > found.opset.get(domain, 0)}
        assert not beyond, f"it says that it does not accept the model that it should run: {beyond}"

    def test_its_outputs_are_the_models(self, session: Session, model: Model, feeds: list[Feeds]) -> None:
        """Names, dtypes and sizes are those that the model declares."""
        for sample in feeds:
            defect = outputs_defect(session.run(sample), model.outputs)
            assert not defect, defect

    def test_it_computes_what_onnx_says(self, session: Session, model: Model, feeds: list[Feeds]) -> None:
        """Every output on every sample is within max_drift of onnx's reference evaluator."""
        self._require_right(model, [(sample, session.run(sample)) for sample in feeds])

    def test_it_is_honest_about_where_nodes_ran(self, session: Session, target: Target, feeds: list[Feeds]) -> None:
        """Shares sum to 1, and are of the target's provider or runtime."""
        session.run(feeds[0])
        shares = session.executed_on
        defect = executed_defect(shares) or ran_elsewhere(shares, target)
        assert not defect, defect

    def test_it_refuses_what_it_cannot_run_with_a_reason(
        self, backend_class: type[Backend], refused: Path | str, target: Target
    ) -> None:
        """Opening raises an OptimError that says what cannot be done."""
        try:
            session = backend_class().open(describe_model(Path(refused)), target)
        except OptimError as error:
            assert error.cause.strip(), "say in cause what it cannot run, with the operator or the node"
            assert error.fix.strip(), "say in fix what a user can do"
            return
        except Exception as error:
            pytest.fail(f"it raised {type(error).__name__}: raise optim.OptimError with cause and fix", pytrace=False)
        session.close()
        pytest.fail("it opened a model with an operator that nobody has", pytrace=False)

    def test_runs_leave_feeds_and_earlier_outputs_alone(self, session: Session, feeds: list[Feeds]) -> None:
        """A run changes neither what it is fed nor what an earlier run returned."""
        sample = feeds[0]
        before = {name: array.copy() for name, array in sample.items()}
        first = dict(session.run(sample))
        kept = {name: np.array(array) for name, array in first.items()}
        assert all(np.array_equal(sample[name], before[name]) for name in sample), "a run wrote into its inputs"
        session.run({name: _other(array) for name, array in before.items()})
        assert all(np.array_equal(first[name], kept[name], equal_nan=_is_float(kept[name])) for name in kept), (
            "the next run changed the arrays that the last one returned: give each run arrays of its own"
        )

    def test_it_leaves_out_what_the_model_does_not_take(self, session: Session, feeds: list[Feeds]) -> None:
        """Feeds that the graph does not have do no harm: a pass may have removed an input."""
        session.run({**feeds[0], "an_input_of_nobody": np.zeros(1, np.float32)})

    def test_a_run_lacks_what_it_is_not_fed(self, session: Session, feeds: list[Feeds]) -> None:
        """A run without an input raises, and does not take what the run before was fed."""
        session.run(feeds[0])
        less = dict(list(feeds[0].items())[1:])
        with pytest.raises(Exception):  # noqa: B017 - whatever it raises, it must not compute with other numbers
            session.run(less)

    def test_it_can_be_closed_and_opened_again(
        self, backend_class: type[Backend], model: Model, target: Target, feeds: list[Feeds]
    ) -> None:
        """Closing twice is fine, a run after it raises, a new session computes the same; the file stays."""
        before = model.path.read_bytes()
        first = backend_class().open(model, target)
        expected = {name: np.array(array) for name, array in first.run(feeds[0]).items()}
        first.close()
        first.close()
        with pytest.raises(Exception):  # noqa: B017 - whatever it raises, it must not run
            first.run(feeds[0])
        with backend_class().open(model, target) as second:
            found = second.run(feeds[0])
            assert not objection(compare_outputs([(expected, found)]))
        assert model.path.read_bytes() == before, "it wrote into the model's file, which is the user's, or the cache's"

    def test_two_models_are_open_at_once_or_it_is_exclusive(
        self, backend_class: type[Backend], model: Model, target: Target, feeds: list[Feeds], tmp_path: Path
    ) -> None:
        """Lanes of a race are open together, unless the backend says that its device takes one session.

        The models have the same inputs and outputs, as candidates have: each gets the answers of its own weights.
        """
        pair = [describe_model(models.mlp(_new(tmp_path / f"width-{width}"), width)) for width in _WIDTHS]
        if not all(_takes(backend_class, one, target) for one in pair):
            pair = [model, model]
        samples = [_sample(pair[0], 2)] if pair[0] is not model else feeds[:1]
        if backend_class.exclusive:
            for one in pair:
                with backend_class().open(one, target) as session:
                    self._require_right(one, [(sample, session.run(sample)) for sample in samples])
            return
        try:
            with backend_class().open(pair[0], target) as first, backend_class().open(pair[1], target) as second:
                answers = [[(sample, session.run(sample)) for sample in samples] for session in (first, second)]
        except Exception as error:
            pytest.fail(f"with two models open: {error}\nsay exclusive = True on the backend", pytrace=False)
        for one, found in zip(pair, answers, strict=True):
            self._require_right(one, found)

    @pytest.mark.parametrize("kind", _STANDARD)
    def test_it_runs_standard_models(
        self, backend_class: type[Backend], target: Target, tmp_path: Path, kind: str
    ) -> None:
        """Each computes what onnx says, output by output, or is refused with a reason."""
        model = describe_model(_STANDARD[kind](tmp_path))
        feeds = [_sample(model, batch) for batch in (1, 3)]
        with _opened_or_skipped(backend_class, model, target) as session:
            self._require_right(model, [(sample, session.run(sample)) for sample in feeds])

    def test_it_computes_the_same_after_several_runs(self, session: Session, model: Model, feeds: list[Feeds]) -> None:
        """What was run or timed before changes no answer: nothing of a run stays for the next."""
        other = [{name: _other(array) for name, array in sample.items()} for sample in feeds]
        samples = [one for pair in zip(feeds, other, strict=True) for one in pair]
        answers = []
        for turn in range(_TURNS):
            for place in range(len(samples)):
                chosen = samples[(place * (turn + 1) + turn) % len(samples)]
                answers.append((chosen, session.run(chosen)))
            session.time_runs(samples[turn % len(samples)], 2)
        self._require_right(model, answers)

    def _require_right(self, model: Model, answers: Sequence[tuple[Feeds, Outputs]]) -> None:
        """Require answers within max_drift of those of onnx's reference evaluator."""
        limit = getattr(self, "max_drift", None)
        assert isinstance(limit, float) and 0 < limit < 1, "say max_drift = 1e-5, or what is right for your device"
        run = _reference(model)
        samples = [(elements(run(sample)), sample) for sample, _ in answers]
        padded = outputs_with_padding(run, model, [sample for sample, _ in answers])
        variations = variations_of(samples, model, padded)
        for (expected, sample), (_, found) in zip(samples, answers, strict=True):
            compared = compare_sample(expected, elements(found), sample, model, variations)
            problems = [one.problem for one in compared if one.problem]
            assert not problems, "; ".join(problems)
            drift = worst_drift(compared).relative_error
            assert drift <= limit, f"drift {drift:.3g} from the reference evaluator, max_drift {limit:.3g}"

    def test_its_clock_is_that_of_the_wall(
        self, backend_class: type[Backend], model: Model, target: Target, feeds: list[Feeds], tmp_path: Path
    ) -> None:
        """Runs take no longer than the time that passed, and a long one takes half of what one run more takes."""
        long = describe_model(models.long_run(tmp_path))
        for one, sample in ((model, feeds[0]), (long, _sample(long, 1))):
            with _opened_or_skipped(backend_class, one, target) as session:
                session.run(sample)
                started = time.perf_counter()
                said_s = sum(session.time_runs(sample, _TIMED))
                passed_s = time.perf_counter() - started
                doubt = clock_doubt(session, sample) if one is long else None
            assert said_s <= passed_s, f"{_TIMED} runs took {said_s:.3g} s of {passed_s:.3g} s that passed"
            assert doubt is None, (
                f"time_runs says {doubt[0]:.3g} s of a run, and one more run takes {doubt[1]:.3g} s: "
                "it gives seconds from the inputs to the outputs"
            )

    def test_closing_leaves_nothing(
        self, backend_class: type[Backend], target: Target, model: Model, tmp_path: Path
    ) -> None:
        """Threads, processes, files and memory of a model go when it is closed: a run opens hundreds."""
        large = describe_model(models.mlp(tmp_path, width=_WIDTH))
        if not _takes(backend_class, large, target):
            large = model
        sample = _sample(large, 1)

        def open_and_close(count: int) -> None:
            for _ in range(count):
                with backend_class().open(large, target) as session:
                    session.run(sample)

        open_and_close(2)  # what is made once may stay
        more: dict[str, int] = {}
        for turn in range(2):  # what an allocator keeps for the next model does not grow once more
            before = _held()
            open_and_close(_OPENINGS)
            grown = {name: count - before[name] for name, count in _held().items()}
            more = {
                name: count for name, count in grown.items() if count >= _OPENINGS - 1 and (not turn or name in more)
            }
            if not more:
                break
        assert not more, f"after {_OPENINGS} models were opened and closed it holds more: " + ", ".join(
            f"{count} {name}" for name, count in more.items()
        )

    def test_its_times_are_times(self, session: Session, feeds: list[Feeds]) -> None:
        """Seconds of each run, as many as asked for."""
        session.run(feeds[0])
        defect = times_defect(session.time_runs(feeds[0], 3), 3)
        assert not defect, defect

    def test_importing_it_loads_nothing_heavy(self, backend_class: type[Backend]) -> None:
        """Every command of optim imports the backend, and starts as late as its imports are slow."""
        heavy = imports_of(backend_class.__module__)
        assert not heavy, f"importing {backend_class.__module__} loads {', '.join(heavy)}: import them inside functions"

    def test_it_works_in_a_process_of_its_own(
        self, backend_class: type[Backend], model: Model, target: Target, feeds: list[Feeds], tmp_path: Path
    ) -> None:
        """A process that knows only its import path computes the same."""
        path = f"{backend_class.__module__}:{backend_class.__qualname__}"
        np.savez(tmp_path / "feeds.npz", allow_pickle=False, **dict[str, Any](feeds[0]))
        request = backend_elsewhere.Request(path, model, target.plain, tmp_path / "feeds.npz", tmp_path / "outputs.npz")
        try:
            with backend_elsewhere.JOB.start(request) as worker:
                from_wire(backend_elsewhere.Answer, worker.result(_TIMEOUT_S))
        except WorkerFailed as error:
            pytest.fail(f"in another process: {error.reason}\n{error.details}", pytrace=False)
        with HeldBackend(backend_class, "").open(model, target) as session, np.load(tmp_path / "outputs.npz") as found:
            defect = objection(compare_outputs([(session.run(feeds[0]), dict(found))]))
            assert not defect, f"it computes something else there: {defect}"


@contextmanager
def _opened_or_skipped(backend_class: type[Backend], model: Model, target: Target) -> Iterator[Session]:
    """A standard model, opened; the test is skipped where the backend says why it does not take it."""
    try:
        session = backend_class().open(model, target)
    except OptimError as error:
        assert error.cause.strip(), "say in cause what it cannot run, with the operator or the node"
        pytest.skip(f"it refuses {model.path.stem}: {error.cause}")
    with session:
        yield session


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _takes(backend_class: type[Backend], model: Model, target: Target) -> bool:
    try:
        backend_class().open(model, target).close()
    except OptimError:
        return False
    return True


def _held() -> dict[str, int]:
    """What this process holds, in pieces and in blocks of memory."""
    import psutil

    gc.collect()
    with suppress(OSError, AttributeError, TypeError):  # glibc: what earlier tests freed would hide what is kept now
        ctypes.CDLL(None).malloc_trim(0)
    process = psutil.Process()
    return {
        "threads": process.num_threads(),
        "processes": len(process.children(recursive=True)),
        "open files": process.num_fds() if hasattr(process, "num_fds") else process.num_handles(),
        "times 5 MB of memory": process.memory_info().rss // _PIECE_BYTES,
    }


def _sample(model: Model, batch: int) -> Feeds:
    """Made up: numbers for floats, small ones for integers; every dimension with a name has the batch's size."""
    rng = np.random.default_rng([7, batch])
    feeds = {}
    for info in model.inputs:
        shape = [size if isinstance(size, int) else batch for size in info.shape or ()]
        made = rng.standard_normal(shape) if info.dtype.startswith("float") else rng.integers(0, 2, shape)
        feeds[info.name] = np.asarray(made).astype(info.dtype)
    return feeds


def _reference(model: Model) -> Callable[[Feeds], Outputs]:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(model.path))
    names = [info.name for info in model.outputs]

    def run(feeds: Feeds) -> Outputs:
        outputs: Any = evaluator.run(None, dict(feeds))
        return dict(zip(names, outputs, strict=True))

    return run


def _other(array: np.ndarray) -> np.ndarray:
    return np.asarray(array * 2 + 1 if array.dtype.kind == "f" else 1 - array)


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind in "fc"
