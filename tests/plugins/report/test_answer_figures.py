"""How long a decoder takes for an answer, as a report shows it."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from sample_outcome import improved

from optim._engine.reports.build import build_report, generation_report
from optim.goal import GenerationTimes
from optim_plugins.drawing import NARROW
from optim_plugins.report.page import render_html
from optim_plugins.report.plots import tokens_plot
from optim_plugins.report.words import generation_figures


def test_tokens_per_second_are_drawn_by_depth() -> None:
    report = build_report(improved())
    assert tokens_plot(report) == "" and "tokens per second by depth" not in render_html(report)
    times = GenerationTimes(64, 9, 0.5, (64, 68, 72), (0.1, 0.1, 0.2), (640, 680, 720))
    slow, fast = generation_report(times), generation_report(replace(times, token_s=(0.02, 0.05, 0.1)))
    assert report.result is not None
    result = report.result.model_copy(update={"generation": fast})
    told = report.model_copy(
        update={"original": report.original.model_copy(update={"generation": slow}), "result": result}
    )
    drawn = tokens_plot(told)
    ElementTree.fromstring(drawn)
    assert "the result: 50 tokens/s at 64" in drawn and drawn in render_html(told)
    assert tokens_plot(told, NARROW) in render_html(told)
    assert fast is not None and fast.depths[0].past_bytes == 640 and fast.first_ms == 500.0
    assert slow is not None
    titles = [title for title, _, _ in generation_figures(slow, fast)]
    assert titles[0] == "first token" and titles[-1] == "answer of 9"
    assert {"tokens/s at 68", "past at 64", "past at 72"} <= {*titles}
