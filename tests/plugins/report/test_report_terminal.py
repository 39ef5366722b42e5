from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import click
import pytest
import sample_outcome as sample
from rich.console import Console

from optim._engine.cli.main import optim
from optim._engine.cli.verbs.run import _print, _status
from optim._engine.reports.build import build_report
from optim._engine.reports.renderer import print_report
from optim.cli_kit.output import NOTHING, options_text, print_rich, size_text
from optim.errors import ExitStatus
from optim.goal import Ratio
from optim_plugins.report.words import latency_text


def printed(outcome, *, width=160, verbose=False, debug=False, **changed) -> str:
    stream = io.StringIO()
    report = build_report(outcome).model_copy(update=changed)
    console = Console(file=stream, width=width, force_terminal=True, color_system=None)
    print_report(report, console, page="out/report.html", verbose=verbose, debug=debug)
    return stream.getvalue()


def test_the_verdict_comes_first_and_the_steps_say_why():
    lines = printed(sample.improved()).splitlines()
    assert lines[0].startswith("improved: 2.3 times faster")
    text = "\n".join(lines)
    assert "11 ms  ->  4.73 ms" in text
    kept = next(line for line in lines if "ort.tune-session (level=basic)" in line)
    for word in ("kept", "0.43", "0.15", "from 0.45 without it"):
        assert word in kept


BROKE = (
    "error[pass-broke]: acme.fuse-all broke 2 times: what it would have gained is not known",
    "  cause: KeyError: 'scale' (at fuse_all.py:12)",
    "  fix:   report it to the authors of acme-passes, with the traceback of that step in report.html; "
    "--without acme.fuse-all runs without the pass",
    "  from:  acme-passes 1.2",
)


@pytest.mark.parametrize("make", [sample.improved, sample.unchanged, sample.budget_missed])
def test_a_pass_that_broke_is_said_before_the_verdict(make):
    lines = printed(sample.with_broken_pass(make()), width=400).splitlines()
    assert tuple(lines[:4]) == BROKE
    assert lines[4].startswith(f"{make().status.value}: ")


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (sample.improved, ExitStatus.DELIVERED),
        (sample.unchanged, ExitStatus.INTERNAL),
        (sample.budget_missed, ExitStatus.NOT_HELD),
    ],
)
def test_a_run_in_which_a_pass_broke_is_no_success_unless_another_made_it_better(make, status, capsys):
    report = build_report(sample.with_broken_pass(make()))
    assert _status(report, Path("out")) is status
    error = capsys.readouterr().err
    assert error.splitlines()[:4] == list(BROKE) if status is ExitStatus.INTERNAL else "pass-broke" not in error
    whole = build_report(make())
    assert whole.broken == ()
    assert _status(whole, Path("out")) is not ExitStatus.INTERNAL


def test_words_of_a_plugin_are_printed_as_they_are():
    assert "<b>IndexError</b>: list index" in printed(sample.improved())
    attempt = replace(sample.attempts()[0], reason="[red]not markup[/red]")
    assert "[red]not markup[/red]" in printed(sample.improved(attempts=[attempt]))


def test_many_attempts_at_a_pass_are_one_row_with_the_best():
    attempts = [
        replace(sample.attempts()[1], timing=Ratio(ratio, ratio, ratio, 6), reason=f"ratio {ratio}")
        for ratio in (0.9, 0.7, 0.8)
    ]
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
    assert "read from the cache: the same run was made before, in 72 s" in printed(
        sample.improved(), cached=True, first_seconds=71.5
    )
    assert "read from the cache" not in printed(sample.improved())


def test_the_command_that_shows_the_page_of_a_target_is_named_with_the_folder(capsys):
    web = replace(sample.CPU, name="web", viewer="optim web serve DIR")
    with click.Context(optim):
        _print(build_report(sample.improved(target=web)), Path("my out"), "", verbose=False)
        _print(build_report(sample.improved()), Path("out"), "", verbose=False)
    assert re.findall(r"^look .*$", capsys.readouterr().out, re.MULTILINE) == ["look    optim web serve 'my out'"]


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
    assert options_text({"files": "54e1045f" * 8}) == "files=54e1045f..."
    assert options_text({"threads": None, "pinning": False}) == "pinning=False"
    assert options_text({"threads": None, "group_size": 0}) == "group_size=0"
    assert options_text({"fold_transposes": False}) == ""


def test_what_was_not_kept_has_five_rows_and_the_rest_is_on_the_page():
    slow, skipped = sample.attempts()[1], sample.attempts()[-1]

    def row(number, of, **changes):
        return replace(of, step=replace(of.step, pass_name=f"acme.pass-{number}"), **changes)

    attempts = [row(number, slow, timing=Ratio(1 + number / 10, 1, 2, 6)) for number in range(8)]
    attempts += [row(number, skipped) for number in range(8, 12)]
    text = printed(sample.improved(attempts=attempts, points=[]))
    assert re.findall(r"acme.pass-\d+", text) == [f"acme.pass-{number}" for number in range(5)]
    assert "  7 others: out/report.html, or --verbose" in text
    whole = printed(sample.improved(attempts=attempts, points=[]), verbose=True)
    assert len(set(re.findall(r"acme.pass-\d+", whole))) == 12
    assert "others:" not in whole


def test_at_80_columns_no_name_of_a_pass_is_broken():
    text = printed(sample.improved(), width=80, verbose=True)
    assert all(step.pass_name in text for step in build_report(sample.improved()).steps)


def test_at_40_columns_no_figure_is_broken():
    assert "  latency: 11 ms -> 4.73 ms\n" in printed(sample.improved(), width=40)


def test_at_80_columns_no_word_is_broken_however_long_a_value_is():
    step = replace(sample.TUNE, options={"disabled_optimizers": ["SkipLayerNormFusionOfTheWholeGraph"]})
    tuned = next(one for one in sample.attempts() if one.step == sample.TUNE)
    outcome = sample.improved(attempts=[replace(tuned, step=step)])
    text = printed(outcome, width=80)
    lines = [line.rstrip() for line in text.splitlines()]
    assert "           disabled_optimizers=SkipLayerNormFusionOfTheWholeGraph" in lines
    assert max(map(len, lines)) <= 80
    words = {word.strip("(),") for word in printed(outcome, width=400).split()}
    assert {word.strip("(),") for word in text.split()} <= words | {"ratio", "drift"}


def test_what_could_not_run_here_is_no_row_and_counts_for_none():
    nowhere = replace(sample.attempts()[-1], reason="it only runs if --with names it", not_here=True)
    outcome = sample.improved(attempts=[*sample.attempts()[:-1], nowhere])
    assert "named" not in printed(outcome)
    assert "others" not in printed(outcome)
    assert "not tried here: ort.tune-session: it only runs if --with names it" in printed(outcome, verbose=True)


def test_what_is_piped_is_neither_wrapped_nor_padded(capsys):
    report = build_report(sample.improved())
    print_rich(lambda console: print_report(report, console, verbose=True))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"improved: {report.reason}"
    assert all(line == line.rstrip() for line in lines)
    assert "  kept\tort.tune-session (level=basic)\t0.43\t0.15\tlatency ratio 0.43, from 0.45 without it" in lines
    assert "  latency: 11 ms -> 4.73 ms" in lines
    assert not any("  " in line.lstrip() for line in lines)


def test_what_passes_printed_and_their_traces_are_shown_to_who_asks():
    talked = replace(sample.attempts()[1], notes=("a note",), printed=("by print", "[red]by a child"), trace="Trace")
    outcome = sample.improved(attempts=[talked])
    text = printed(outcome, verbose=True)
    assert re.search(
        r"^  ort.fuse-transformer.* said:\n    a note\n    by print\n    \[red\]by a child$", text, re.MULTILINE
    )
    assert "Trace" not in text
    assert "ort.fuse-transformer:\nTrace\n" in printed(outcome, debug=True)
    assert "by print" not in printed(outcome)
