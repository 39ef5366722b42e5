"""The ratio to an original that is timed with weights that stay mapped, and to the same with a copy of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from optim._engine.goals.known import LATENCY, SIZE
from optim._engine.search.measure import repacked_original as measured
from optim._engine.search.state import Candidate, Measured, Step
from optim.errors import OptimError
from optim.goal import Ratio
from optim.model import Model
from optim.passes import Role, Stage

_GB = 1_000_000_000
_STEP = Step(Stage.QUANTIZE, "round", "plugin", {}, Role.IMPROVE, lossy=True)


def _model(folder: Path) -> Model:
    path = folder / "model.onnx"
    path.write_bytes(b"")
    return Model(path, "m", (), (), {"": 17}, 9)


@pytest.fixture
def note(tmp_path, monkeypatch):
    """The note where the copy takes 0.6 of the time, and how often it was timed."""

    def found(*, mapped=True, size=2 * _GB, free=8 * _GB, left_s=60.0, goal=LATENCY, steps=(_STEP,), fails=False):
        raced = []

        def race(bench, candidates, effort, wanted):
            raced.append(candidates[0].model.session.session_config)
            if fails:
                raise OptimError("original-failed", "it stopped", "memory", "run it again")
            return None, [SimpleNamespace(ratio=Ratio(0.6, 0.55, 0.65, 5))]

        monkeypatch.setattr(measured, "race_candidates", race)
        monkeypatch.setattr(measured, "mapped_config", lambda *_: {"session.disable_prepacking": "1"} if mapped else {})
        monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=free))
        bench = SimpleNamespace(
            original=Candidate(_model(tmp_path), size),
            goal=goal,
            target=None,
            elsewhere=None,
            deadline=SimpleNamespace(spare_s=left_s),
            prepared=SimpleNamespace(open_s=5.0, run_s=1.0),
            say=lambda text: None,
        )
        said = measured.repacked_original(bench, Measured(Candidate(_model(tmp_path), size // 4, steps), 0.3))
        return said, raced

    return found


def test_both_ratios_are_said_where_a_copy_fits(note):
    said, raced = note()
    assert raced == [{"session.disable_prepacking": "0"}]
    assert "the original takes 0.60 of that time" in said
    assert said.endswith("compared with that time the ratio is 0.50")


@pytest.mark.parametrize(
    "changes",
    [
        {"mapped": False},
        {"free": 3 * _GB},
        {"size": 8 * _GB, "free": 80 * _GB},
        {"left_s": 15.0},
        {"goal": SIZE},
        {"steps": ()},
    ],
)
def test_nothing_is_timed_without_need_memory_or_time(note, changes):
    assert note(**changes) == ("", [])


def test_an_original_that_does_not_open_with_a_copy_fails_no_run(note):
    assert note(fails=True)[0] == ""
