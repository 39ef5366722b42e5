"""What earlier runs found on near models: tried first, and believed only as far as the race and the gate say the same."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

import pytest
from installed_plugin import installed
from jobs_here import done_here
from timed_models import write_network

from optim._engine.plugins.registry import load_registry
from optim._engine.runs.execute import execute
from optim._engine.search import experience
from optim._engine.search.experience import Architecture, Experience, WonStep
from optim._engine.search.explore.recall import Recall
from optim._engine.search.settings import RunSettings
from optim._engine.store import Store
from optim.jobs.wire import from_wire, to_wire

pytestmark = pytest.mark.slow

WASTE = {"a": 6, "b": 6, "c": 6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recall")
    with installed(folder, "timed_plugin"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recall, "is_on", True)
        write_network(folder / "first.onnx", WASTE)
        write_network(folder / "tuned.onnx", WASTE, seed=1)
        yield folder


@pytest.fixture(scope="module")
def run(folder, counted_clock):
    registry = load_registry()
    names = {offered.name for offered in registry.offers(registry.target("cpu"))}
    ours = tuple(sorted(name for name in names if not name.startswith("timed.")))

    def make(model, **changes):
        settings = RunSettings(folder / model, without=ours, search_seconds=80.0, most_samples=4)
        with done_here():
            return execute(replace(settings, **changes), registry, Store(), lambda text: None)

    return make


@pytest.fixture(scope="module")
def first(run):
    return run("first.onnx")


@pytest.fixture
def known(first):
    """The one record that a test begins with."""
    store = Store()
    store.clear(experience.SHELF)
    assert experience.keep(store, first_record) == ""
    return store


def test_x(run):
    one = run("first.onnx")
    print([ (s.pass_name, s.options) for s in one.result.candidate.steps], one.result.ratio, one.computed, one.seconds)
    print(one.notes)
    for p in (Store().root / "experience").iterdir():
        print(p.read_text())
    two = run("tuned.onnx")
    print([ (s.pass_name, s.options) for s in two.result.candidate.steps], two.result.ratio, two.computed, two.seconds)
    print(two.notes)
    for a in two.attempts: print(a.step.pass_name, a.status, a.reason, a.notes, a.ratio)
