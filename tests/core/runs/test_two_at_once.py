"""Two processes on one cache: what one of them uses, the other leaves alone."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest
from installed_plugin import workers_import
from timed_models import write_network

from optim._engine.jobs.runner import thread_executor
from optim._engine.plugins.registry import load_registry
from optim._engine.search.settings import RunSettings
from optim._engine.search.workbench import Workbench
from optim._engine.store import Store

VERBS = {
    "run": ["run", "model.onnx", "--search-seconds", "1", "--stage", "fuse"],
    "fresh run": ["run", "model.onnx", "--search-seconds", "1", "--stage", "fuse", "--no-cache"],
    "verify": ["verify", "model.onnx", "model.onnx"],
    "bench": ["bench", "model.onnx", "--seconds", "0.2"],
    "sensitivity": ["sensitivity", "model.onnx", "--as", "int8", "--seconds", "0.2"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    workers_import(monkeypatch)
    write_network(tmp_path / "model.onnx", {"a": 1})
    return tmp_path


def start(verb, output):
    arguments = [*VERBS[verb], *(["-o", output] if verb.endswith("run") else [])]
    return subprocess.Popen(
        [sys.executable, "-m", "quick_optim", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def workbench(folder, executor, **changes):
    settings = RunSettings(folder / "model.onnx", **changes)
    bench = Workbench(settings, load_registry(only=["ort"]), Store(), executor, lambda text: None)
    bench.ingest()
    bench.prepare()
    return bench


def references(folder):
    return [path.parent for path in (folder / "cache" / "references").rglob("feeds")]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["verify", "bench", "fresh run"])
def test_the_reference_that_a_run_compares_with_outlives_what_others_do_meanwhile(folder, verb):
    with Store().in_use(), thread_executor() as executor:
        bench = workbench(folder, executor)
        with start(verb, "out") as other:
            said = other.communicate()[0]
        assert other.returncode == 0, said
        assert len(references(folder)) == 2  # so it did make its own
        assert bench.reference.feeds.is_dir()
        assert bench.reference.expected(0)


def test_a_reference_that_nobody_uses_any_more_is_not_kept(folder):
    with thread_executor() as executor:
        for _ in range(3):
            with Store().in_use():
                last = workbench(folder, executor, fresh=True)
    assert references(folder) == [last.reference.feeds.parent]


def test_a_reference_is_found_again(folder):
    with Store().in_use(), thread_executor() as executor:
        first, second = workbench(folder, executor), workbench(folder, executor)
    assert first.reference.feeds == second.reference.feeds
    assert second.runner.from_cache == 1
    np.testing.assert_equal(first.reference.expected(0), second.reference.expected(0))


@pytest.mark.slow
@pytest.mark.parametrize(
    "verbs",
    [
        pytest.param(("fresh run", "fresh run", "sensitivity"), id="writers"),
        pytest.param((*VERBS, *VERBS), id="every two verbs, and each beside itself", marks=pytest.mark.wide),
    ],
)
def test_whatever_is_done_to_the_same_model_at_once_ends_well(folder, verbs):
    with ExitStack() as stack:
        started = [stack.enter_context(start(verb, f"out-{place}")) for place, verb in enumerate(verbs)]
        said = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(verbs), "\n".join(said)
