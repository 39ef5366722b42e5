"""``ort.tune-execution``."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import helper
from ort_models import CPU, apply, build, context, export

from optim import Model, OptimError, SessionConfig
from optim_plugins.ort.plugin import OrtBackend
from optim_plugins.ort.tune.tune_execution import TuneExecution
from optim_plugins.ort.tune.tune_session import TuneSession


def _plain(folder: Path) -> Model:
    return build(folder, [helper.make_node("Tanh", ["x"], ["y"])], {}, {"x": [2]}, {"y": [2]})


def test_settings_are_laid_over_those_of_the_pass_before(tmp_path: Path) -> None:
    model = apply(TuneSession, _plain(tmp_path), tmp_path, level="basic").model
    result = apply(TuneExecution, model, tmp_path, arena=False, spinning=False, flush_denormals=True, prepacking=False)
    assert result.model.session == SessionConfig(
        {"graph_optimization_level": "ORT_ENABLE_BASIC", "enable_cpu_mem_arena": False},
        {
            "session.intra_op.allow_spinning": "0",
            "session.set_denormal_as_zero": "1",
            "session.disable_prepacking": "1",
        },
    )
    assert result.counts == {"settings": 4}


def test_settings_that_the_model_has_already_change_nothing_and_it_says_so(tmp_path: Path) -> None:
    once = apply(TuneExecution, _plain(tmp_path), tmp_path, memory_pattern=False)
    twice = apply(TuneExecution, once.model, tmp_path, memory_pattern=False)
    assert not twice.changed
    assert twice.notes == ("the model has these settings already",)


def test_every_candidate_opens_and_no_two_are_alike(tmp_path: Path) -> None:
    model = export("bert.dynamo", tmp_path)
    candidates = list(TuneExecution().candidates(model, CPU, context(tmp_path)))
    tuned = [apply(TuneExecution, model, tmp_path, **one.model_dump(exclude_none=True)).model for one in candidates]
    assert 5 <= len({one.digest for one in tuned}) == len(candidates)
    for one in tuned:
        if "session.set_denormal_as_zero" in one.session.session_config:
            continue  # it would outlive the session
        OrtBackend().open(one, CPU).close()


@pytest.mark.slow
def test_denormals_are_flushed_where_that_is_asked_for(tmp_path: Path) -> None:
    """Each in a process of its own: onnxruntime sets the thread that opens the first session, for good."""
    model = build(tmp_path, [helper.make_node("Mul", ["x", "x"], ["y"])], {}, {"x": [2]}, {"y": [2]})
    code = (
        "import sys, numpy as np\nfrom pathlib import Path\n"
        "from optim.model import SessionConfig\nfrom optim.onnx.sessions import open_session\n"
        "session = open_session(Path(sys.argv[1]), SessionConfig({}, eval(sys.argv[2])))\n"
        "print(session.run(None, {'x': np.array([1e-20, 1], np.float32)})[0][0] > 0)"
    )
    results = {}
    for flushed in (False, True):
        tuned = apply(TuneExecution, model, tmp_path, flush_denormals=flushed).model
        command = [sys.executable, "-c", code, str(tuned.path), repr(dict(tuned.session.session_config))]
        results[flushed] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert results == {False: "True", True: "False"}


def test_operators_run_side_by_side_only_where_there_are_branches(tmp_path: Path) -> None:
    def modes(model: Model) -> set[str | None]:
        return {one.execution_mode for one in TuneExecution().candidates(model, CPU, context(tmp_path))}

    assert modes(_plain(tmp_path)) == {None}


def test_another_provider_has_other_settings(tmp_path: Path) -> None:
    found = TuneExecution().applicable(_plain(tmp_path), replace(CPU, provider="CUDAExecutionProvider"))
    assert not found
    assert "CUDAExecutionProvider" in found.reason


def test_an_execution_mode_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught:
        apply(TuneExecution, _plain(tmp_path), tmp_path, execution_mode="fastest")
    assert caught.value.reference == "bad-option"
