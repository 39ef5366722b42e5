"""An original that is computed otherwise than it says, unless it is opened with other settings."""

from __future__ import annotations

import json

import pytest
from installed_plugin import installed
from timed_models import write_network

from optim._engine.cli.main import main
from optim.errors import ExitStatus

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.fixture
def model(tmp_path):
    with installed(tmp_path, "saturating_plugin"):
        yield write_network(tmp_path / "model.onnx", useful=1)


def run(model, out, *words):
    status = main(["run", str(model), "-o", str(out), "--target", "cutting", "--search-seconds", "60", *words])
    return status, json.loads((out / "report.json").read_text()), json.loads((out / "session.json").read_text())


@pytest.mark.slow
def test_such_an_original_is_held_against_exact_sums_and_delivered_with_the_setting(model, tmp_path):
    status, report, session = run(model, tmp_path / "out", "--stage", "fuse")  # a tuner may win back what it costs
    assert status == ExitStatus.DELIVERED
    assert session["session_config"] == {"session.x64quantprecision": "1"}
    assert report["status"] in ("prepared", "improved")
    assert report["result"]["drift"]["relative_error"] == 0
    note = next(note for note in report["notes"] if "wrong values on this processor" in note)
    assert "sums are cut" in note
    assert "saturating.whole" in note
    step = next(step for step in report["steps"] if step["pass"] == "saturating.whole")
    assert step["status"] == "kept"
    assert step["ratio_to_original"] is not None, "what the setting costs"


@pytest.mark.slow
def test_whoever_excludes_the_pass_accepts_outputs_as_they_are(model, tmp_path):
    words = ("--without", "saturating.whole", "--stage", "fuse")  # a tuner may find other settings faster by chance
    status, report, session = run(model, tmp_path / "out", *words)
    assert status == ExitStatus.DELIVERED
    assert session["session_config"] == {}
    assert not any("wrong values on this processor" in note for note in report["notes"])


def test_verify_holds_against_exact_sums_too(model, capsys):
    words = ["verify", str(model), str(model), "--target", "cutting", "--json"]
    assert main(words) == ExitStatus.NOT_HELD
    found = json.loads(capsys.readouterr().out)
    assert found["drift"]["relative_error"] > 0.05
    assert "sums are cut" in found["notes"][0]


def test_an_original_that_is_right_as_it_stands_needs_no_setting(model, capsys, monkeypatch):
    monkeypatch.setenv("TEST_CUT_AT", "1e9")
    assert main(["verify", str(model), str(model), "--target", "cutting", "--json"]) == ExitStatus.DELIVERED
    found = json.loads(capsys.readouterr().out)
    assert found["drift"]["relative_error"] == 0
    assert found["notes"] == []


def test_inspect_shows_what_a_plugin_assumes_of_the_processor(model, capsys):
    assert main(["inspect", "--machine", "--json"]) == ExitStatus.DELIVERED
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["cores"] >= 1
    rows = next(one for one in found["assumptions"] if one["target"] == "cutting")
    assert rows["found"] == [
        {"subject": "sums are exact", "value": False, "source": "measured", "evidence": "one sum", "processors": "all"}
    ]
    assert main(["inspect", "--machine"]) == ExitStatus.DELIVERED
    assert "sums are exact\tno\tmeasured" in capsys.readouterr().out
    assert main(["inspect"]) == ExitStatus.USAGE
    assert main(["inspect", str(model), "--machine"]) == ExitStatus.USAGE


@pytest.mark.slow
def test_an_original_that_is_wrong_is_made_right_without_time_to_time_it(model, tmp_path, monkeypatch):
    monkeypatch.setattr("optim._engine.search.select.selection.Selection.decide", lambda self, ranking: None)
    status, report, session = run(model, tmp_path / "out", "--stage", "fuse")
    assert status == ExitStatus.DELIVERED
    assert report["status"] == "prepared"
    assert "no time to time it" in report["reason"]
    assert session["session_config"] == {"session.x64quantprecision": "1"}


@pytest.mark.slow
def test_an_original_is_made_right_where_a_stage_leaves_nothing(model, tmp_path, monkeypatch):
    monkeypatch.setattr("optim._engine.search.explore.beam.Beam._stage", lambda self, stage, passes, beam: [])
    status, report, session = run(model, tmp_path / "out", "--stage", "fuse")
    assert (status, report["status"]) == (ExitStatus.DELIVERED, "prepared")
    assert session["session_config"] == {"session.x64quantprecision": "1"}
