"""What work in a process of its own prints, raises and leaves behind is kept, ended and named."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import psutil
import pytest
from installed_plugin import workers_import

from optim.jobs.leftovers import MARK_VARIABLE, end_marked
from optim.jobs.process import WorkerFailed, WorkerProcess
from optim.jobs.worker import foreign_first


@pytest.fixture(autouse=True)
def _jobs_importable(monkeypatch):
    workers_import(monkeypatch)


PATIENCE_S = 200.0
"""Only a hang takes it."""

LEFT = [f"{number}{os.getpid()}" for number in (731, 732)]
"""Seconds that two processes sleep: no other test of this machine leaves such ones."""


def done(action, hangs=False, **arguments):
    with WorkerProcess("unruly_job", {"action": action, "arguments": arguments}) as worker:
        if hangs:
            worker.receive(PATIENCE_S)
        return worker.result(0.5 if hangs else PATIENCE_S)


def running(*command):
    return [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == list(command)]


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come to the worker on Linux alone")
def test_a_pass_is_recorded_and_what_it_leaves_running_is_ended_and_named():
    said = json.loads(done("talk", changed=1, leaves=" ".join(LEFT))["said"])
    left = [f"left a process running, which was ended: sleep {seconds}" for seconds in LEFT]
    assert said["notes"][:2] == ["it did something", "info: by its log"]
    assert sorted(said["notes"][2:]) == left
    assert said["printed"] == ["by print", "by a library", "by a child"]
    assert not any(running("sleep", seconds) for seconds in LEFT)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come to the worker on Linux alone")
def test_what_a_pass_logged_that_changed_nothing_is_no_reason_but_kept():
    said = json.loads(done("talk", changed=0, leaves=" ".join(LEFT))["said"])
    assert said["notes"][0] == "it did something"
    assert "info: by its log" not in said["notes"]
    assert "info: by its log" in said["printed"]


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of others is read on Linux for sure")
@pytest.mark.parametrize(("how", "words"), [("die", "exit status 1"), ("hang", "did not finish within 0.5 s")])
def test_what_a_worker_leaves_that_dies_or_hangs_is_ended_and_named(how, words):
    with pytest.raises(WorkerFailed) as caught:
        done("talk_and_end", hangs=how == "hang", how=how, leaves=LEFT[0])
    assert words in caught.value.reason
    assert f"with what it had left running: sleep {LEFT[0]}" in caught.value.reason
    assert "the last word" in caught.value.printed
    assert not running("sleep", LEFT[0])


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of others is read on Linux for sure")
def test_what_is_left_is_ended_also_where_an_earlier_process_had_its_number():
    mark = f"left-by-{os.getpid()}"
    with subprocess.Popen(["sleep", LEFT[1]], env={**os.environ, MARK_VARIABLE: mark}) as child:
        list(psutil.process_iter())
        cached = psutil._pmap[child.pid]
        cached._ident = (child.pid, 1.0)  # as if it had begun long ago
        try:
            assert end_marked(mark) == [f"sleep {LEFT[1]}"]
        finally:
            child.kill()


def test_a_diagnosis_of_a_worker_has_its_trace_with_the_lines_of_others_first():
    with pytest.raises(WorkerFailed) as caught:
        done("talk_and_end", how="raise", leaves=LEFT[0])
    for one in running("sleep", LEFT[0]):
        one.kill()
    assert caught.value.error.reference == "sample-error"
    first, _, whole = caught.value.details.partition("Traceback (most recent call last)")
    assert first.startswith("In the plugin")
    assert "unruly_job.py" in first
    assert "worker.py" not in first
    assert "worker.py" in whole


def test_a_trace_without_lines_of_others_is_as_it_is():
    try:
        json.loads("{")
    except ValueError as error:
        found = foreign_first(error.with_traceback(error.__traceback__.tb_next))
    assert found.startswith("Traceback")
