"""A metric that is a function of the calling program, asked by another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from multiprocessing.connection import Client
from pathlib import Path

import numpy as np
import pytest

from optim import CannotJudge, Metric
from optim._engine.api.given import named_metric
from optim._engine.compare.metric_spec import MetricSpec, require_known
from optim._engine.compare.metrics import find_metric, metric_digest
from optim._engine.plugins.registry import load_registry
from optim._engine.search.settings import RunSettings
from optim.errors import OptimError
from optim.jobs.wire import from_wire, to_wire

OUTPUTS = {"y": np.array([0.0, 2.0, 1.0], np.float32)}


def test_another_process_asks_it_and_it_may_use_what_the_program_holds():
    held = {"wanted": 1}

    def right(outputs, labels):
        return float(outputs["y"].argmax() == labels["label"]) * held["wanted"]

    script = (
        "import json, sys; import numpy as np\n"
        "from optim._engine.compare.metrics import find_metric\n"
        "from optim._engine.compare.metric_spec import MetricSpec\n"
        "from optim.jobs.wire import from_wire\n"
        "metric = find_metric(from_wire(MetricSpec, json.loads(sys.argv[1])))\n"
        "print(metric.call({'y': np.array([0., 2., 1.])}, {}, {'label': np.array(1)}))"
    )
    with named_metric(right) as spec:
        asked = subprocess.run(
            [sys.executable, "-c", script, json.dumps(to_wire(spec))], capture_output=True, text=True, check=True
        )
    assert asked.stdout == "1.0\n"
    assert spec.text == "right (in Python)"


def asked(metric, outputs=OUTPUTS, feeds=None, labels=None):
    with named_metric(metric) as spec:
        return find_metric(spec).call(outputs, feeds or {}, labels or {})


def test_its_direction_and_its_counts_go_with_it():
    def error(outputs):
        return 3.0

    error.higher_is_better = False
    with named_metric(error) as spec:
        assert not find_metric(spec).higher_is_better
    counting = Metric("share", True, lambda o, f, t: np.array([1.0, 4.0]), finish=lambda s: s[0] / s[1])
    with named_metric(counting) as spec:
        found = find_metric(spec)
        assert found.finish(np.array([3.0, 4.0])) == 0.75
        assert list(found.call(OUTPUTS, {}, {})) == [1.0, 4.0]


def test_text_is_text():
    assert asked(lambda outputs: float(outputs["t"][0] == "ab"), {"t": np.array(["ab"], dtype=object)}) == 1.0


def test_what_is_no_number_is_handed_on_in_words():
    assert asked(lambda outputs: None) == "None"


def test_a_function_that_raises_and_one_that_cannot_judge():
    def raising(outputs):
        raise ZeroDivisionError("by zero")

    def unsure(outputs):
        raise CannotJudge("no text")

    with pytest.raises(OptimError) as caught:
        asked(raising)
    assert (caught.value.reference, caught.value.cause) == ("metric-failed", "ZeroDivisionError: by zero")
    with pytest.raises(CannotJudge, match="no text"):
        asked(unsure)


def test_nobody_without_the_key_is_answered():
    with named_metric(lambda outputs: 1.0) as spec:
        wire = to_wire(spec)
        wire["program"]["key"] = "00" * 16
        with pytest.raises(Exception, match="digest"):
            find_metric(from_wire(MetricSpec, wire)).call(OUTPUTS, {}, {})
        assert find_metric(spec).call(OUTPUTS, {}, {}) == 1.0  # and others still are


def test_a_caller_that_breaks_off_stops_nothing_and_nobody_listens_in_the_end():
    with named_metric(lambda outputs: 1.0) as spec:
        assert "optim-metric" in [one.name for one in threading.enumerate()]
        for _ in range(3):
            Client(spec.program.address).close()
        assert find_metric(spec).call(OUTPUTS, {}, {}) == 1.0
        folder = Path(spec.program.address).parent
    assert "optim-metric" not in [one.name for one in threading.enumerate()]
    assert os.name == "nt" or not folder.exists()


@pytest.mark.skipif(os.name == "nt", reason="a pipe there has no folder")
def test_the_folder_of_temporary_files_may_be_deep(tmp_path, monkeypatch):
    deep = tmp_path / ("deep" * 40)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert asked(lambda outputs: 1.0) == 1.0


def test_a_program_that_has_ended_is_named():
    with named_metric(lambda outputs: 1.0) as spec:
        pass
    with pytest.raises(OptimError, match="cannot be reached"):
        find_metric(spec).call(OUTPUTS, {}, {})


def test_a_lock_says_that_it_must_be_handed_over_again():
    spec = MetricSpec("right (in Python)")
    with pytest.raises(OptimError) as caught:
        require_known(spec, load_registry())
    assert caught.value.reference == "unknown-metric"
    assert "metric=function" in caught.value.fix
    assert metric_digest(spec) == ""
    assert not spec.names_code


def test_machines_of_a_cluster_cannot_call_it():
    with named_metric(lambda outputs: 0.0) as spec:
        RunSettings(Path("m.onnx"), metric=spec, cluster="local:2").require_sound()
        with pytest.raises(OptimError, match="other machines cannot call metric"):
            RunSettings(Path("m.onnx"), metric=spec, cluster="tls://board:8786").require_sound()
