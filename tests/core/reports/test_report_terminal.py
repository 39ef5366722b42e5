from __future__ import annotations

import io
from dataclasses import replace

import pytest
import sample_outcome as sample
from rich.console import Console

from optim._engine.reports.build import build_report
from optim._engine.reports.terminal import print_report
from optim._engine.reports.words import NOTHING, latency_text, options_text, size_text


def printed(outcome, **changed) -> str:
    stream = io.StringIO()
    report = build_report(outcome).model_copy(update=changed)
    print_report(report, Console(file=stream, width=160))
    return stream.getvalue()


def test_the_verdict_comes_first_and_the_steps_say_why():
    lines = printed(sample.improved()).splitlines()
    assert lines[0].startswith("improved: 2.3 times faster")
    text = "\n".join(lines)
    assert "11 ms  ->  4.73 ms" in text
    kept = next(line for line in lines if "ort.tune-session (level=basic)" in line)
    for word in ("kept", "0.43", "0.15", "from 0.45 without it"):
        assert word in kept


def test_words_of_a_plugin_are_printed_as_they_are():
    assert "<b>IndexError</b>: list index" in printed(sample.improved())
    attempt = replace(sample.attempts()[0], reason="[red]not markup[/red]")
    assert "[red]not markup[/red]" in printed(sample.improved(attempts=[attempt]))


def test_many_attempts_at_a_pass_are_one_row_with_the_best():
    attempts = [replace(sample.attempts()[1], ratio=ratio, reason=f"ratio {ratio}") for ratio in (0.9, 0.7, 0.8)]
    text = printed(sample.improved(attempts=attempts))
    assert "ort.fuse-transformer (best of 3)" in text
    assert "ratio 0.7" in text
    assert "ratio 0.9" not in text


def test_a_run_that_delivers_nothing_prints_no_figures_of_a_result():
    text = printed(sample.budget_missed())
    assert text.startswith("budget-missed: ort.quantize-dynamic was asked for")
    assert "->" not in text
    assert "infinite" in text


def test_a_run_from_the_cache_says_so():
    assert "served from the cache: the same run was done before, in 72 s" in printed(
        sample.improved(), cached=True, first_seconds=71.5
    )
    assert "served from the cache" not in printed(sample.improved())


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (90_400_000, "90.4 MB"), (3.2e9, "3.20 GB"), (None, NOTHING)]
)
def test_sizes_are_read_by_people(size, text):
    assert size_text(size) == text


def test_latencies_and_options_are_short():
    assert (latency_text(4.714), latency_text(2345.0)) == ("4.71 ms", "2.35 s")
    assert options_text({"level": "basic", "per_channel": True, "x": None, "y": False, "keep": ["a", "b"]}) == (
        "level=basic, per_channel, keep=a + b"
    )
    assert options_text({"keep": list("abcdef")}) == "keep: 6"
