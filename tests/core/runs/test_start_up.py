"""What a model's first runs cost, and the warm-up that takes it from its callers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_load import write_model

import optim
from optim._engine.jobs.start_up import Zeros, warm_up_of
from optim._engine.runs.folder import RunFolder
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim._engine.runs.session_trust import read_session_file
from optim.backend import Session
from optim.errors import OptimError
from optim.model import SessionConfig
from optim.onnx.sessions import PLAIN_CPU
from optim.target import Target

SMALL = {"x": np.ones((1, 4), np.float32)}
LARGE = {"x": np.ones((8, 4), np.float32)}


class Counting(Session):
    """Notes the shapes it is run on; refuses zeros where it is told to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self._refuses = refuses

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        self.shapes.append(feeds["x"].shape)
        if self._refuses:
            raise IndexError("no zeros")
        return {}

    @property
    def executed_on(self) -> dict[str, float]:
        return {}


def test_a_dear_first_call_pays_for_a_warm_up_of_the_largest_sample() -> None:
    session = Counting()
    assert warm_up_of(session, [SMALL, LARGE], (0.3, 0.1), (0.01, 0.02)) == {"x": Zeros("float32", (8, 4))}
    assert session.shapes == [(8, 4)]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ((0.05, 0.02), (0.01, 0.015)),  # 45 ms: nobody notices
        ((2.5, 3.0), (2.0, 2.4)),  # 1.1 s more, and a run of the largest takes 2.4
    ],
)
def test_where_it_does_not_pay_there_is_none(first: tuple[float, float], later: tuple[float, float]) -> None:
    session = Counting()
    assert warm_up_of(session, [SMALL, LARGE], first, later) == {}
    assert not session.shapes


def test_a_model_that_refuses_zeros_has_no_warm_up() -> None:
    assert warm_up_of(Counting(refuses=True), [SMALL], (1.0,), (0.01,)) == {}
    texts = {"x": np.array(["a text"])}
    assert warm_up_of(Counting(), [texts], (1.0,), (0.01,)) == {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def fill(path: Path) -> None:
        write_model(path)
        write_session_files(path, SessionFile.of(SessionConfig(), PLAIN_CPU, warm_up={"x": Zeros("float32", (8, 4))}))

    RunFolder.claim(tmp_path / "run", "key").publish(fill)
    return tmp_path / "run"


def test_what_is_delivered_runs_once_when_it_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    ran: list[tuple[int, ...]] = []
    run = onnxruntime.InferenceSession.run

    def noted(session: Any, names: Any, feeds: Any) -> Any:
        ran.append(feeds["x"].shape)
        return run(session, names, feeds)

    monkeypatch.setattr(onnxruntime.InferenceSession, "run", noted)
    script: dict[str, Any] = {"__file__": str(folder / "load.py"), "__name__": "loading"}
    exec((folder / "load.py").read_text(), script)
    script["load"](warm_up=False)
    assert ran == []
    for opened in (script["load"], lambda: optim.load(folder)):
        opened()
        assert ran.pop() == (8, 4) and not ran


def test_a_recorded_graph_is_not_warmed_up(tmp_path: Path) -> None:
    settings = SessionConfig(provider_options={"CUDAExecutionProvider": {"enable_cuda_graph": "1"}})
    cuda = Target("cuda", "cuda", "CUDAExecutionProvider")
    write_session_files(tmp_path, SessionFile.of(settings, cuda, warm_up={"x": Zeros("float32", (8, 4))}))
    assert not read_session_file(tmp_path).warm_up


@pytest.mark.parametrize("wrong", [{"shape": [1 << 20, 1 << 20]}, {"shape": [-1]}, {"dtype": "object"}])
def test_a_stranger_cannot_ask_for_any_warm_up(folder: Path, wrong: dict[str, Any]) -> None:
    path = folder / "session.json"
    saved = json.loads(path.read_text())
    saved["warm_up"]["x"].update(wrong)
    path.write_text(json.dumps(saved))
    with pytest.raises(OptimError, match="untrusted-setting"):
        optim.load(folder)
