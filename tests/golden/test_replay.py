"""The search of today on committed traces: without a clock and without a model it decides as the run did."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from installed_plugin import installed
from trace_file import Trace, read_trace

from golden.commands import PLUGINS, TRACED
from golden.fixed import two_processors
from optim import OptimError
from optim._engine.plugins.discovery import installed_names
from optim._engine.plugins.registry import load_registry
from optim._engine.search.board import Applied
from optim._engine.search.state import Application, LaneResult
from optim._engine.search.workbench import Workbench
from optim._engine.store import Store
from optim.jobs.wire import to_wire
from optim.workplace import Work
from optim_testing import models

TRACES = Path(__file__).with_name("traces")
STALE = "if the search asks for something else now: pytest tests/golden --write-golden"


@pytest.fixture(scope="module")
def regret(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The script of benchmarks, where the plugins of the traces are installed."""
    with (
        installed(tmp_path_factory.mktemp("replay"), "timed_plugin", "lossy_plugin"),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("OPTIM_DISABLE_PLUGINS", ",".join(sorted(set(installed_names()) - {*PLUGINS})))
        two_processors(patch)
        yield importlib.import_module("regret")


def replayed(regret: ModuleType, trace: Trace, seed: int | None = None):
    return regret.replay(trace, load_registry(), seed)


@pytest.mark.parametrize("name", TRACED)
def test_as_recorded_the_verdict_is_that_of_the_run(name: str, regret: ModuleType) -> None:
    trace = read_trace(TRACES / f"{name}.trace")
    found = replayed(regret, trace)
    assert found.lacks == () and found.unknown == 0, STALE
    outcome, end = found.outcome, trace.end
    assert (outcome.status, outcome.reason, outcome.result.candidate.digest) == (
        end["status"],
        end["reason"],
        end["delivered"],
    )
    kept = [(row["timing"] and row["timing"]["value"], row) for row in end["rows"]]
    rows = [(row["step"]["pass_name"], row["status"], row["reason"], ratio) for ratio, row in kept]
    assert [(row.step.pass_name, row.status, row.reason, row.ratio) for row in outcome.attempts] == rows


def test_two_replays_with_one_seed_are_equal_to_the_byte(regret: ModuleType) -> None:
    trace = read_trace(TRACES / "mlp.trace")
    first, second = (replayed(regret, trace, 3) for _ in range(2))
    assert first.seconds == second.seconds and first.lacks == second.lacks
    texts = [json.dumps(to_wire((one.outcome.attempts, one.outcome.points))) for one in (first, second)]
    folders = [text.count("/models/") for text in texts]
    assert folders[0] == folders[1]
    names = [one.outcome.source.model.path.parent for one in (first, second)]
    assert texts[0].replace(str(names[0]), "") == texts[1].replace(str(names[1]), "")


def test_what_a_trace_lacks_counts_as_unknown_seconds(regret: ModuleType) -> None:
    trace = read_trace(TRACES / "wasteful.trace")
    kept = [one for one in trace.actions if not one["name"].endswith(("candidate", "race_job"))]
    found = replayed(regret, Trace(trace.header, kept, trace.end))
    assert found.unknown > 0.1 and not found.counts
    assert found.outcome.result.candidate.is_original


def test_a_trace_whose_answers_are_of_another_revision_is_refused(regret: ModuleType) -> None:
    trace = read_trace(TRACES / "mlp.trace")
    old = [{**one, "answer": {}} if one["name"].endswith("prepare") else one for one in trace.actions]
    with pytest.raises(OptimError, match=r"trace-version.*mlp\.onnx cannot be replayed"):
        replayed(regret, Trace(trace.header, old, trace.end))


def test_a_race_with_more_time_is_put_together_from_recorded_rounds(regret: ModuleType) -> None:
    trace = read_trace(TRACES / "wasteful.trace")
    asked = {**trace.header["asked"], "search_seconds": 2 * trace.end["announced_s"]}
    found = replayed(regret, Trace({**trace.header, "asked": asked}, trace.actions, trace.end))
    assert found.outcome.status == trace.end["status"] and "candidate" not in found.lacks


def test_rounds_drawn_anew_come_to_the_verdict_of_the_run(regret: ModuleType) -> None:
    trace = read_trace(TRACES / "mlp.trace")
    assert {str(replayed(regret, trace, seed).outcome.status) for seed in range(2)} == {trace.end["status"]}


def test_the_regret_is_that_to_the_best_proven_chain_of_all_traces(regret: ModuleType) -> None:
    path = TRACES / "wasteful.trace"
    trace = read_trace(path)
    known = regret.proven([trace])
    best = min(known, key=lambda digest: known[digest].ratio)
    verdicts = [
        regret.Verdict("improved", best, 0.1, 9.0, 0.0),
        regret.Verdict("unchanged", trace.end["model"], 1.0, 9.0, 0.0),
    ]
    row = regret.row_of(path, known, verdicts)
    assert row.regret == 0 and row.same and row.counts
    assert row.mean_regret == pytest.approx(-regret.math.log(known[best].ratio))
    assert row.changes == 0 and row.others == 1
    unknown = regret.row_of(path, known, [regret.Verdict("unchanged", "", 1.0, 9.0, 0.2)])
    text = regret.text_of([row, unknown])
    assert "does not count" in text and "of 1 traces that count, 1 do not" in text
    assert regret.beside([row], [row]).startswith("of 1 rows that count in both: mean regret 0.000")


def test_a_bad_trace_is_one_error_with_a_status(
    regret: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = TRACES / "mlp.trace"
    (tmp_path / "half.trace").write_bytes(whole.read_bytes()[:2000])
    other = models.convnet(tmp_path)
    for words, reference in (
        ([str(tmp_path / "half.trace")], "damaged-trace"),
        ([str(tmp_path / "none.trace")], "damaged-trace"),
        (["--model", str(other), str(whole)], "trace-of-other-model"),
    ):
        monkeypatch.setattr("sys.argv", ["regret.py", *words, "--seeds", "0"])
        assert regret.main() == 3
        said = capsys.readouterr()
        assert said.err.startswith(f"error[{reference}]") and not said.out


def test_items_side_by_side_begin_when_they_began(regret: ModuleType) -> None:
    replay = importlib.import_module("replay")
    clock, begins, seen = replay.Clock(), [1000.0, 1000.5, 1002.5], []

    def next_begin() -> float:
        return min((one for one in begins if one >= clock.seconds), default=clock.seconds)

    def work(seconds: float) -> None:
        seen.append(clock.seconds)
        begins.remove(clock.seconds)
        side_by_side.wait_until(clock.seconds + seconds)

    side_by_side = replay.InTurn(clock, next_begin)
    list(side_by_side.map(work, [2.0, 4.0, 1.0]))
    assert seen == [1000.0, 1000.5, 1002.5] and clock.seconds == 1004.5


def test_another_trace_answers_only_what_its_own_does_not(regret: ModuleType) -> None:
    trace = read_trace(TRACES / "wasteful.trace")
    slow = Trace(trace.header, [{**one, "seconds": 50 * one["seconds"]} for one in trace.actions], trace.end)
    alone, beside = (regret.replay(trace, load_registry(), 1, others) for others in ((), (slow,)))
    assert alone.seconds == beside.seconds


def test_a_lane_that_had_no_figure_in_time_has_none_with_other_rounds(regret: ModuleType, tmp_path: Path) -> None:
    replay = importlib.import_module("replay")
    trace = read_trace(TRACES / "wasteful.trace")
    race = next(one for one in trace.actions if one["name"] == "race_job" and one["request"]["effort"])
    late = [to_wire(LaneResult(out_of_time=True)) for _ in race["answer"]["lanes"]]
    known = {**race, "answer": {**race["answer"], "lanes": late}}
    place = replay.FromTrace(Trace(trace.header, [known], trace.end), Store(tmp_path / "store"), seed=1)
    began = place.now()
    done = place.do(Work("race_job", race["request"], 0.0))
    assert all(lane["out_of_time"] for lane in done.answer["lanes"])
    assert place.unknown_s == 0 and place.now() - began >= race["seconds"]


def test_records_that_lie_have_a_fifth_of_the_run_and_change_no_result(
    regret: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = TRACES / "wasteful.trace"
    trace = read_trace(path)
    slow = Trace(trace.header, [{**one, "seconds": 10 * one["seconds"]} for one in trace.actions], trace.end)
    alone = regret.replay(slow, load_registry(), records=[])
    ends, try_one = [], Workbench.try_one

    def noted(bench: Workbench, trial: Application, timeout_s: float, *, anew: bool = False) -> Applied:
        ends.append((bench.deadline.now(), timeout_s))
        return try_one(bench, trial, timeout_s, anew=anew)

    monkeypatch.setattr(Workbench, "try_one", noted)
    lied = regret.replay(slow, load_registry(), records=regret.lies_of(path))
    tried = [row for row in lied.outcome.attempts if any("tried first" in note for note in row.notes)]
    assert (
        tried and max(at + most_s for at, most_s in ends[: len(tried)]) <= ends[0][0] + 0.2 * trace.end["announced_s"]
    )
    assert lied.seconds <= 1.2 * alone.seconds
    assert lied.outcome.result.candidate.digest == alone.outcome.result.candidate.digest


def test_a_record_of_a_busy_machine_has_its_chain_tried_and_ends_no_search(regret: ModuleType) -> None:
    path = TRACES / "wasteful.trace"
    record = regret.record_of(path)
    found = regret.replay(read_trace(path), load_registry(), records=[replace(record, is_quiet=False)])
    assert not any("ended early" in note for note in found.outcome.notes)
    notes = [note for row in found.outcome.attempts for note in row.notes]
    assert any(note.startswith("tried first, because it won on ") for note in notes)


def test_what_no_trace_has_is_estimated_from_the_nearest_chain(regret: ModuleType) -> None:
    trace = read_trace(TRACES / "wasteful.trace")
    on_longest = max(len(one["request"]["model"]["provenance"]) for one in trace.actions if one["name"] == "candidate")
    tries = [one for one in trace.actions if one["name"] == "candidate"]
    left_out = next(one for one in tries if len(one["request"]["model"]["provenance"]) == on_longest)
    kept = [one for one in trace.actions if one is not left_out]
    whole, less = (
        regret.replay(Trace(trace.header, some, trace.end), load_registry(), of_place=regret.Completed)
        for some in (trace.actions, kept)
    )
    assert whole.estimated == 0 and whole.likely is not None
    assert less.unknown == 0 and less.estimated > 0


def test_the_agenda_finds_what_the_recorded_run_found(regret: ModuleType) -> None:
    trace = read_trace(TRACES / "wasteful.trace")
    agenda = importlib.import_module("agenda").AgendaBeam
    found = regret.replay(trace, load_registry(), of_place=regret.Completed, policy=agenda)
    assert (found.outcome.status, found.outcome.result.candidate.digest) == ("improved", trace.end["delivered"])
