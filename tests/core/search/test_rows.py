"""What the report says of a step that was kept or dropped, from figures that are given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from all_goals import GOALS
from boards import board_of, timed_at

from optim._engine.gate.budget import Objection
from optim._engine.search.rows import failing_of, failures, missing_rows
from optim._engine.search.state import Candidate, Step, StepStatus
from optim.goal import Ratio
from optim.model import Model
from optim.passes import PassResult, Role, Stage


def model(name):
    return Model(Path(f"{name}.onnx"), f"digest of {name}", (), (), {"": 17}, 9)


ORIGINAL = Candidate(model("original"), 100)


def step(name, role=Role.IMPROVE):
    return Step(Stage.FUSE, name, "ours", {}, role, lossy=False)


def after(candidate, *steps):
    for one in steps:
        candidate = candidate.after(one, PassResult(model(one.pass_name), True), 100)
    return candidate


def concluded(ratio, without, *, kept=True):
    """A row of a step with these figures; its chain, one step longer, wins or does not."""
    journal, first = board_of(), step("first")
    row = journal.open(first, ORIGINAL)
    candidate = after(ORIGINAL, first)
    journal.timed(timed_at(candidate, ratio), without)
    last = step("last")
    journal.open(last, candidate)
    winner = after(candidate, last) if kept else ORIGINAL
    journal.conclude(winner, timed_at(winner, 0.5, 0.4, 0.6))
    return row


@pytest.mark.parametrize(
    ("ratio", "kept", "timed", "reason"),
    [
        (0.8, True, 0.8, "latency ratio 0.80, 1.00 without it"),
        # its chain has disproved these
        (1.0, True, None, "part of the winner; in a first timing latency ratio 1.00, 1.00 without it"),
        (1.11, True, None, "part of the winner; in a first timing latency ratio 1.11, 1.00 without it"),
        (1.02, False, 1.02, "no faster: latency ratio 1.02, 1.00 without it"),
        (0.8, False, 0.8, "latency ratio 0.80 when explored; the original won with 0.50 in the final timing"),
    ],
)
def test_a_step_says_its_figure_and_that_without_it_or_what_won(ratio, kept, timed, reason):
    row = concluded(ratio, 1.0, kept=kept)
    assert (row.status, row.ratio) == (StepStatus.KEPT if kept else StepStatus.DROPPED, timed)
    assert row.reason == reason


def test_a_quick_look_never_replaces_the_figure_of_a_proof():
    journal, first = board_of(), step("first")
    row = journal.open(first, ORIGINAL)
    candidate = after(ORIGINAL, first)
    row.note(timed_at(candidate, 3.73, 3.5, 3.9), proven=True)
    journal.timed(timed_at(candidate, 0.45), 1.0)
    assert row.ratio == 3.73


def test_a_dropped_step_that_is_kept_behind_others_says_so():
    journal, first, last = board_of(), step("first"), step("last")
    row = journal.open(last, after(ORIGINAL, first))
    journal.timed(timed_at(after(ORIGINAL, first, last), 0.45), 1.0)
    winner = after(ORIGINAL, last)
    journal.conclude(winner, timed_at(winner, 0.5, 0.4, 0.6))
    assert row.status is StepStatus.DROPPED
    assert row.reason == "latency ratio 0.45 when explored; last won with 0.50 in the final timing"
    (kept,) = [one for one in journal.attempts if one.status is StepStatus.KEPT]
    assert (kept.step.key, kept.on) == (last.key, ())


def test_what_won_is_named_with_its_options_where_it_is_the_same_pass():
    journal, first = board_of(), step("first")
    better = replace(first, options={"engine": "ours", "leave_out": []})
    row = journal.open(first, ORIGINAL)
    journal.timed(timed_at(after(ORIGINAL, first), 0.6), 1.0)
    winner = after(ORIGINAL, better, step("last"))
    journal.conclude(winner, timed_at(winner, 0.5, 0.4, 0.6))
    assert (
        row.reason == "latency ratio 0.60 when explored; first (engine=ours) + last won with 0.50 in the final timing"
    )


def test_a_row_has_the_best_time_that_was_seen_with_its_interval():
    journal, first = board_of(), step("first")
    row = journal.open(first, ORIGINAL)
    for ratio in (0.9, 0.8, 0.85):
        journal.timed(timed_at(after(ORIGINAL, first), ratio, ratio - 0.01, ratio + 0.01), None)
    assert (row.timing.value, row.timing.low, row.timing.high) == (0.8, 0.79, 0.81)
    assert row.parent_ratio is None


def test_what_is_settled_again_for_another_reason_is_no_longer_beyond_the_budget():
    row = board_of().open(step("first"), ORIGINAL)
    row.drop(Objection("drift 0.06 is beyond the budget (0.05)", beyond_budget=True), "on all samples: ")
    assert (row.objection.beyond_budget, row.reason) == (True, "on all samples: drift 0.06 is beyond the budget (0.05)")
    row.settle(StepStatus.DROPPED, "beyond the budget is what it says, and slower is what it was")
    assert not row.objection


@pytest.mark.parametrize(
    ("goal", "reason"),
    [
        ("size", "60 MB; the delivered model has 40 MB"),
        ("memory", "peak memory 90 MB; the delivered model takes 70 MB"),
    ],
)
def test_the_reason_of_a_dropped_step_speaks_of_the_goal(goal, reason):
    journal = board_of(goal=GOALS[goal])
    rival, best = (replace(after(ORIGINAL, step(name)), size_bytes=size) for name, size in (("a", 60e6), ("b", 40e6)))
    rows = [journal.open(one.steps[-1], ORIGINAL) for one in (rival, best)]
    for row, one, peak in zip(rows, (rival, best), (90_000_000, 70_000_000), strict=True):
        row.size_bytes = int(one.size_bytes)
        journal.timed(timed_at(one, 1.2, peak=peak), 1.0)
    journal.conclude(best, timed_at(best, 1.2, 1.1, 1.3, peak=70_000_000))
    assert [row.reason for row in rows] == [
        reason,
        {"size": "40 MB with it", "memory": "peak memory 70 MB with it"}[goal],
    ]


@pytest.mark.parametrize("peak", [0, 90_000_000])
def test_where_memory_is_the_goal_nothing_is_dropped_as_no_faster(peak):
    journal, first = board_of(goal=GOALS["memory"]), step("first")
    row = journal.open(first, ORIGINAL)
    journal.timed(timed_at(after(ORIGINAL, first), 1.2, peak=peak), 1.0)
    journal.conclude(ORIGINAL)
    assert "memory" in row.reason
    assert "faster" not in row.reason


def test_a_row_belongs_to_its_own_chain_and_not_to_one_of_the_same_names():
    """The same pass with other options before it: a chain that is picked has no row of the other one."""
    first, other, last = step("first"), replace(step("first"), options={"level": 2}), step("last")
    journal = board_of()
    for start in (first, other):
        journal.open(last, after(ORIGINAL, start))
    picked = after(ORIGINAL, other, last)
    mine = [row.chain == picked.chain[: len(row.chain)] for row in journal.attempts]
    assert mine == [False, True]
    assert [row.step.options for row in missing_rows(journal.attempts, picked)] == [{"level": 2}]


def test_a_pass_that_did_not_hold_says_why_its_fastest_did_not():
    rows = untimed, slow, fast, other = [board_of().open(step(name), ORIGINAL) for name in ("a", "a", "a", "b")]
    for attempt, ratio, reason in ((slow, 1.6, "slow"), (fast, 1.2, "not clearly faster"), (other, 0.5, "another")):
        attempt.timing = Ratio(ratio, ratio, ratio, 9)
        attempt.settle(StepStatus.DROPPED, reason)
    untimed.settle(StepStatus.DROPPED, "it holds, and was not timed by itself")
    assert failures(rows, "a") == "not clearly faster"
    assert failures([untimed], "a") == "it holds, and was not timed by itself"
    assert failures(rows, "c") == "none of its candidates was left at the end"


def test_a_pass_that_found_nothing_is_blamed_and_not_the_one_before_it_that_held():
    journal, held, idle, later = board_of(), step("held"), step("idle"), step("later")
    journal.open(held, ORIGINAL)
    journal.open(idle, after(ORIGINAL, held)).settle(StepStatus.NOT_APPLICABLE, "there is nothing to fuse")
    forced = [
        SimpleNamespace(name=one.pass_name, ordered=SimpleNamespace(name=one.pass_name)) for one in (held, idle, later)
    ]
    assert failing_of(forced, journal.attempts).name == "idle"
    assert failures(journal.attempts, "idle") == "there is nothing to fuse"
