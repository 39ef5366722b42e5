"""What is done with an original whose run takes long: it runs once, and a run that has no time for that says so."""

from __future__ import annotations

import math
import time
from types import MappingProxyType, SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from timed_models import write_network

from optim._engine.backends.held import HeldBackend
from optim._engine.compare.place import Place
from optim._engine.feeds.feedset import FeedSet
from optim._engine.jobs import prepare
from optim._engine.jobs.job import Job
from optim._engine.plugins.registry import load_registry
from optim._engine.reports.outcome import RunStatus
from optim._engine.runs.execute import execute
from optim._engine.search.deadline import Deadline
from optim._engine.search.settings import RunSettings
from optim._engine.store import Store
from optim.backend import Backend, BackendLimits, Session
from optim.errors import OptimError
from optim.jobs.process import WorkerFailed
from optim.model import TensorInfo
from optim.onnx.files import describe_model
from optim.passes import Stage
from optim.target import Target

LONG_S = 5.0


class SlowSession(Session):
    """Doubles its input; a run takes five seconds of a clock that only it moves."""

    executed_on = MappingProxyType({"CPUExecutionProvider": 1.0})

    def __init__(self, clock):
        self._clock = clock

    def run(self, feeds):
        self._clock.runs.append(feeds["x"])
        self._clock.seconds += self._clock.run_s
        return {"y": feeds["x"] * 2}

    def time_runs(self, feeds, count):
        raise NotImplementedError

    def close(self):
        pass


@pytest.fixture
def slow(monkeypatch, tmp_path):
    """A clock, the runs made of a model, and the job's request for it within a number of seconds."""
    clock = SimpleNamespace(seconds=100.0, runs=[], run_s=LONG_S)

    class SlowBackend(Backend):
        name = "slow"

        def open(self, model, target):
            return SlowSession(clock)

        def limits(self):
            return BackendLimits(8, {"": 17})

        def versions(self):
            return {"slow": "1"}

        def equivalent_settings(self, target):
            return ()

    for name in ("perf_counter", "monotonic"):
        monkeypatch.setattr(time, name, lambda: clock.seconds)
    monkeypatch.setattr(Place, "backend", lambda place: HeldBackend(SlowBackend, "slow 1"))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    model = describe_model(tmp_path / "m.onnx")

    def request(within_s, data=None):
        target = Target(name="slow", backend="slow", provider="CPUExecutionProvider")
        folders = {"feeds": tmp_path / "feeds", "outputs": tmp_path / "outputs"}
        inputs = (TensorInfo("x", "float32", (1, 4)),)
        place = Place(target, "slow")
        return prepare.Request(model, inputs, place, data, **folders, seed=0, most_samples=8, within_s=within_s)

    clock.request = request
    return clock


def prepared(request):
    return prepare.run(request, SimpleNamespace(event=lambda *words, **values: None, doing=lambda what: None))


def test_an_original_that_takes_all_of_the_time_runs_once_and_that_run_is_the_reference(slow, tmp_path):
    answer = prepared(slow.request(within_s=4.0))
    assert len(slow.runs) == 1
    assert answer.compared == (0,)
    assert answer.run_s == LONG_S
    assert answer.cut_short
    np.testing.assert_array_equal(FeedSet.open(tmp_path / "outputs").sample(0)["y"], slow.runs[0] * 2)


def test_where_there_is_time_it_is_run_again_to_tell_what_rounding_does(slow):
    answer = prepared(slow.request(within_s=30.0))
    first = slow.runs[0]
    assert sum(np.array_equal(first, other) for other in slow.runs) == 2
    assert answer.run_s == LONG_S


def test_outputs_are_made_for_no_more_samples_than_there_will_be_time_to_compare(slow, tmp_path):
    (tmp_path / "data").mkdir()
    for number in range(8):
        np.savez(tmp_path / "data" / f"{number}.npz", x=np.full((1, 4), number, np.float32))
    slow.run_s = 1.0
    answer = prepared(slow.request(12.0, str(tmp_path / "data")))
    assert len(answer.compared) == 3


def test_a_quick_model_runs_on_every_sample(slow):
    slow.run_s = 0.001
    answer = prepared(slow.request(within_s=12.0))
    assert len(answer.compared) == 8
    assert not answer.cut_short


def test_notes_say_which_inputs_are_guessed_and_which_outputs_are_not_judged(slow, monkeypatch):
    slow.run_s = 0.001
    monkeypatch.setattr(FeedSet, "notes", ("'x' is random zeros and ones",))
    monkeypatch.setattr(SlowSession, "run", lambda session, feeds: {"y": feeds["x"] * 0})
    notes = prepared(slow.request(within_s=12.0)).notes
    assert "'x' is random zeros and ones" in notes
    assert "output 'y' is not judged: it is zero on all samples; give --data on which this output differs" in notes


@pytest.mark.parametrize(("given", "most_s"), [(60.0, 60.0), ("auto", 250.0), (1.0, 5.0)])
def test_the_original_is_stopped_when_the_time_of_the_whole_run_is_over(given, most_s):
    run = Deadline(given, lambda: 100.0)
    assert most_s - 6.0 < run.most_for_original() <= most_s
    if given == "auto":
        assert math.isinf(run.most_for_original(named=True))
    else:
        assert run.most_for_original(named=True) == max(10.0, run.most_for_original())


def test_a_run_that_has_no_time_to_run_its_model_once_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))  # another may have prepared the same model
    asked = []

    class Hangs:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def result(self, timeout_s, on_event=None, *, of_silence=False):
            asked.append(timeout_s)
            raise WorkerFailed(f"did not finish within {timeout_s:.0f} s and was stopped", "timeout")

    start = Job.start
    monkeypatch.setattr(
        Job, "start", lambda job, *words, **more: Hangs() if job is prepare.JOB else start(job, *words, **more)
    )
    model = write_network(tmp_path / "model.onnx")
    with pytest.raises(OptimError) as caught:
        execute(RunSettings(source=model, search_seconds=20.0), load_registry(), Store(), print)
    assert caught.value.reference == "original-too-slow"
    assert "--search-seconds" in caught.value.fix
    assert 10.0 < asked[0] <= 20.0


@pytest.mark.usefixtures("jobs_here")
def test_an_original_that_there_is_no_time_to_time_is_delivered_with_a_note(tmp_path):
    model = write_network(tmp_path / "model.onnx")
    asked = RunSettings(source=model, search_seconds=0.0, stages=(Stage.POST_PROCESS,))
    outcome = execute(asked, load_registry(), Store(tmp_path / "cache"), print)
    assert outcome.status is RunStatus.UNCHANGED
    assert outcome.result.lane.latency is None
    assert "there was no time to time the original; give more with --search-seconds" in outcome.notes
