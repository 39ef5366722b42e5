"""Files of a run folder for people, with the plugin ``report`` and without it."""

from __future__ import annotations

import json

import sample_outcome as sample

from optim._engine.plugins.discovery import new_manager
from optim._engine.plugins.registry import Registry, load_registry
from optim._engine.runs.folder import report_page
from optim._engine.runs.publish import write_run


def test_a_run_without_the_plugin_has_its_report_and_says_what_to_install(tmp_path):
    report = write_run(sample.budget_missed(), Registry(new_manager(), []), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"] and report_page(tmp_path).name == "report.json"
    note = "report.html is not written: plugin report is not installed; in a clone of optim: pip install ./plugins"
    assert note in report.notes and note in json.loads((tmp_path / "report.json").read_text())["notes"]


def test_a_run_that_delivers_nothing_has_a_page_and_no_card(tmp_path):
    report = write_run(sample.budget_missed(), load_registry(only=["report"]), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.html", "report.json"]
    assert report_page(tmp_path).name == "report.html"
    assert not any("report.html" in note for note in report.notes)
