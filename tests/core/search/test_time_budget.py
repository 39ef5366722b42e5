"""The seconds of a search, told by a clock that stands still until it is set."""

from __future__ import annotations

import math

import pytest

from optim._engine.search.lane_seconds import AGAIN_S, FINAL_S, LEAST_LANES, LOOK_S
from optim._engine.search.run_time import RunTime
from optim._engine.search.time_budget import FINAL_REPAIRS_S, GRACE_S, TimeBudget


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(TimeBudget, "pace", 1.0)
    return Clock()


@pytest.fixture
def time(clock):
    """A search of 100 seconds, with 300 for one candidate."""
    return TimeBudget(100.0, 300.0, now=clock)


def test_candidates_begin_in_the_first_four_fifths_and_races_go_on(time, clock):
    assert (time.left, time.left_for_candidates) == (100.0, 80.0)
    clock.seconds += 85
    assert (time.left, time.left_for_candidates) == (15.0, -5.0)
    assert not time.may_begin(0.0)
    clock.seconds += 85
    assert time.left == 0.0


def test_a_candidate_that_begins_late_has_some_grace_and_what_was_named_its_full_time(time, clock):
    clock.seconds += 78
    assert time.for_candidate() == 2.0 + GRACE_S
    assert time.for_candidate(named=True) == 300.0
    assert time.may_begin(2.0 + GRACE_S)
    assert not time.may_begin(2.1 + GRACE_S)


def test_no_candidate_has_more_than_the_timeout(clock):
    assert TimeBudget(100.0, 7.0, now=clock).for_candidate() == 7.0


def test_repairs_have_a_part_of_the_time_for_candidates_and_spend_only_that(time, clock):
    assert time.left_for_repairs == pytest.approx(32.0)
    clock.seconds += 10
    assert time.left_for_repairs == pytest.approx(32.0)
    with time.repairs.spending():
        clock.seconds += 20
        assert time.left_for_repairs == pytest.approx(12.0)
    clock.seconds += 40
    assert time.repairs.left == pytest.approx(12.0)
    assert time.left_for_repairs == pytest.approx(10.0)


def test_what_is_spent_is_spent_also_where_the_work_fails(time, clock):
    def fail():
        with time.final_repairs.spending():
            clock.seconds += 5
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert time.final_repairs.left == FINAL_REPAIRS_S - 5


def test_a_stage_leaves_time_for_those_after_it(time):
    assert time.share(1) == pytest.approx(0.85)
    assert time.share(5) == pytest.approx(0.17)


def test_as_many_lanes_as_there_is_time_for_and_a_few_whatever_the_time(time, clock):
    time.expect_lanes(open_s=16 / 3, run_s=0.05)  # 0.2 + 3.2 + 0.6 seconds a lane
    assert time.lanes(0.4, least=LEAST_LANES) == 10
    assert time.lanes(0.1, least=8) == 8
    clock.seconds += 72
    assert time.lanes(0.1, least=8) == LEAST_LANES
    clock.seconds += 72
    assert time.lanes(1.0, least=8) == LEAST_LANES


def test_lanes_that_open_slowly_make_it_fewer(time):
    time.expect_lanes(open_s=16 / 3, run_s=0.05)
    time.note_lanes(open_s=11.4)  # half of 4 and half of 12 seconds
    assert time.lanes(0.8, least=LEAST_LANES) == 10


def test_a_look_is_as_long_as_is_left_after_opening_and_a_second_at_least(time):
    time.expect_lanes(open_s=16 / 3, run_s=0.05)
    assert time.look(20.0, lanes=5).seconds == pytest.approx(12.0)
    assert time.look(2.0, lanes=5).seconds == LOOK_S
    assert not time.look(20.0, lanes=5, memory_only=True).drop


def test_of_a_slow_model_few_lanes_open_where_little_time_is_left(time, clock):
    time.expect_lanes(open_s=16 / 3, run_s=0.2)  # 0.2 + 3.2 + 1.6 seconds a lane
    assert time.lanes(0.1, least=8) == 8
    clock.seconds += 80
    assert time.lanes(0.1, least=8) == 2


def test_the_last_race_waits_half_as_long_again_for_quiet_rounds(time):
    final, again = time.final(3, drop=True), time.again(2, drop=False)
    assert (final.seconds, final.patience_s, final.open_timeout_s) == (FINAL_S, FINAL_S / 2, 300.0)
    assert (again.seconds, again.drop) == (AGAIN_S, False)


def test_the_pace_scales_races_and_nothing_else(time, monkeypatch):
    monkeypatch.setattr(TimeBudget, "pace", 0.1)
    time.expect_lanes(open_s=16 / 3, run_s=0.05)
    assert time.look(20.0, lanes=5).seconds == pytest.approx(1.2)
    assert time.final(3, drop=True).seconds == pytest.approx(FINAL_S / 10)
    assert (time.left, time.left_for_candidates, time.final_repairs.left) == (100.0, 80.0, FINAL_REPAIRS_S)


def test_a_search_without_races_has_all_its_time_for_candidates(clock):
    assert TimeBudget(30.0, 300.0, races=False, now=clock).left_for_candidates == 30.0


def test_a_stage_leaves_later_ones_their_time(time, clock):
    with time.leaving(0.75):
        assert time.left_for_candidates == pytest.approx(20.0)
        clock.seconds += 21
        assert not time.may_begin(0.0)
    assert time.left_for_candidates == pytest.approx(59.0)
    assert time.may_begin(0.0)


def test_a_model_that_is_slow_is_looked_at_in_three_rounds_on_one_sample(time):
    time.expect_lanes(open_s=1.0, run_s=0.01)
    fast = time.look(20.0, lanes=5)
    time.expect_lanes(open_s=1.0, run_s=2.0)  # 0.2 + 0.6 + 4 runs of 2 s a lane
    slow = time.look(60.0, lanes=3)
    assert (fast.least_rounds, fast.most_samples) == (5, None)
    assert (slow.least_rounds, slow.most_samples) == (3, 1)
    assert slow.seconds == pytest.approx(60 - 0.4 * 8.8 * 3)


def test_first_looks_have_a_third_of_the_search_and_most_of_it_is_for_trying(time, clock):
    assert time.for_first_looks == pytest.approx(100 / 3 * 0.7 + GRACE_S)
    clock.seconds += 24
    assert time.for_first_looks == 0.0
    assert time.left_for_first_race == pytest.approx(100 / 3 - 24)
    clock.seconds += 30
    assert time.left_for_first_race == LOOK_S
    look = time.first_look(60.0)
    assert (look.least_rounds, look.most_samples, look.seconds) == (3, 1, 2 * LOOK_S)


@pytest.mark.parametrize(("run_s", "models", "rounds"), [(0.01, 6, 10), (0.2, 5, 3), (0.1, 6, 5), (2.0, 2, 3)])
def test_the_last_race_of_a_slow_model_has_few_models_and_few_rounds(time, run_s, models, rounds):
    """Two seconds a run, three models with the original: 36 seconds in place of 280."""
    time.expect_lanes(open_s=1.0, run_s=run_s)
    assert time.lanes_at_the_end(6) == models
    assert time.final(models, drop=True).least_rounds == rounds


def test_each_shape_that_is_timed_makes_a_round_longer(time):
    time.expect_lanes(open_s=1.0, run_s=0.1, samples=3)
    assert time.lanes_at_the_end(6) == 3


def test_the_end_of_a_short_run_keeps_time_for_two_models_and_not_for_five(clock):
    def kept_s(seconds):
        run = RunTime(seconds, clock)
        run.announce(seconds + run.spent)
        run.expect(open_s=0.2, run_s=0.02, size_bytes=10)
        return run.left - TimeBudget.of_run(run, 300.0).search_s

    assert kept_s(40.0) == pytest.approx(40.0 / 3, rel=0.1)
    assert kept_s(300.0) < 100.0


def test_what_hardly_holds_is_compared_in_the_time_of_the_proof_but_for_the_least(clock):
    run = RunTime(60.0, clock)
    run.announce(60.0 + run.spent)
    run.expect(open_s=0.4, run_s=0.04, size_bytes=10)
    run.compares(8)
    time = TimeBudget.of_run(run, 300.0)
    assert time.most_for_comparing(doubtful=False) > 0
    clock.seconds += time.search_s + 8.0
    assert time.most_for_comparing(doubtful=False) == 0.0
    assert 0 < time.most_for_comparing(doubtful=True) == pytest.approx(run.spare_s - time.least_proof_s)
    clock.seconds += run.spare_s - time.least_proof_s - 1.0
    assert time.most_for_comparing(doubtful=True) == 0.0


def test_what_a_repair_found_is_tried_though_the_search_is_over(clock):
    run = RunTime(60.0, clock)
    run.announce(60.0 + run.spent)
    run.expect(open_s=0.1, run_s=0.01, size_bytes=10)
    time = TimeBudget.of_run(run, 300.0)
    clock.seconds += time.search_s + 5
    assert time.for_candidate() < 6.0 <= time.for_repaired(2.0)
    assert time.for_repaired(100.0) < run.left


def test_a_repair_leaves_the_time_to_make_and_prove_what_it_finds(clock):
    run = RunTime(60.0, clock)
    run.announce(60.0 + run.spent)
    run.expect(open_s=0.1, run_s=0.01, size_bytes=1)
    time = TimeBudget.of_run(run, 300.0)
    rest = run.left - run.closing_s - time.least_proof_s
    assert time.most_before_proof == pytest.approx(rest)
    assert time.most_for_repair(2.0) == pytest.approx(rest - 2.0)
    clock.seconds += 58
    assert time.most_for_repair(2.0) == 0.0
    assert TimeBudget.of_run(run, 300.0, must=True).most_for_repair(2.0) == math.inf
