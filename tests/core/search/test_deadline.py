"""The seconds of a search, told by a clock that stands still until it is set."""

from __future__ import annotations

import math

import pytest
from boards import board_of
from deadlines import original, run_of, search_of

from optim._engine.search.deadline import GRACE_S, LATER, OTHERS, PROOF, WRITING, Deadline, Start
from optim._engine.search.explore.first_looks import FirstLooks
from optim._engine.search.lane_costs import RACE_S, LaneCosts
from optim._engine.search.measure import efforts
from optim._engine.search.measure.clock import LEAST_LANES, Clock
from optim._engine.search.measure.efforts import LOOK_S


class Now:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(LaneCosts, "pace", 1.0)
    return Now()


@pytest.fixture
def time(clock):
    """A search of 100 seconds, with 300 for one candidate."""
    return search_of(100.0, 300.0, now=clock)


def test_candidates_begin_in_the_first_four_fifths_and_races_go_on(time, clock):
    assert (time.to_explore, time.before(LATER)) == (100.0, 80.0)
    clock.seconds += 85
    assert (time.to_explore, time.before(LATER)) == (15.0, -5.0)
    clock.seconds += 85
    assert time.to_explore == 0.0


def test_a_candidate_that_begins_late_has_some_grace_and_what_was_named_the_rest_of_the_run(time, clock):
    clock.seconds += 78
    assert time.for_candidate() == 2.0 + GRACE_S
    assert time.for_candidate(named=True) == min(300.0, time.spare_s)
    clock.seconds += time.spare_s
    assert time.for_candidate(named=True) == GRACE_S


@pytest.mark.parametrize("asked", [0, "auto"])
def test_what_was_named_has_its_full_time_in_a_run_without_seconds_of_the_users(clock, asked):
    time = Deadline(asked, clock, Start()).of_search(original(), 300.0)
    clock.seconds += 290
    assert time.for_candidate(named=True) == 300.0


def test_no_candidate_has_more_than_the_timeout(clock):
    assert search_of(100.0, 7.0, now=clock).for_candidate() == 7.0


def lanes(time, share, least):
    return Clock(None, board_of(), time)._lanes(share, least)


def test_as_many_lanes_as_there_is_time_for_and_a_few_whatever_the_time(time, clock):
    time.lanes = LaneCosts(16 / 3, 0.05)  # 0.2 + 3.2 + 0.6 seconds a lane
    assert lanes(time, 0.4, least=LEAST_LANES) == 10
    assert lanes(time, 0.1, least=8) == 8
    clock.seconds += 72
    assert lanes(time, 0.1, least=8) == LEAST_LANES
    clock.seconds += 72
    assert lanes(time, 1.0, least=8) == LEAST_LANES


def test_lanes_that_open_slowly_make_it_fewer(time):
    time.lanes = LaneCosts(16 / 3, 0.05)
    time.lanes.note_lanes(open_s=11.4)  # half of 4 and half of 12 seconds
    assert lanes(time, 0.8, least=LEAST_LANES) == 10


def test_a_look_is_as_long_as_is_left_after_opening_and_a_second_at_least(time):
    time.lanes = LaneCosts(16 / 3, 0.05)
    assert efforts.look(time, 20.0, lanes=5).seconds == pytest.approx(12.0)
    assert efforts.look(time, 2.0, lanes=5).seconds == LOOK_S
    assert not efforts.look(time, 20.0, lanes=5, memory_only=True).drop


def test_of_a_slow_model_few_lanes_open_where_little_time_is_left(time, clock):
    time.lanes = LaneCosts(16 / 3, 0.2)  # 0.2 + 3.2 + 1.6 seconds a lane
    assert lanes(time, 0.1, least=8) == 8
    clock.seconds += 80
    assert lanes(time, 0.1, least=8) == 2


def test_the_last_race_waits_half_as_long_again_for_quiet_rounds(time):
    final, again = efforts.final(time, 3), efforts.again(time, 1)
    assert (final.seconds, final.patience_s, final.open_timeout_s) == (RACE_S, RACE_S / 2, 300.0)
    assert (again.seconds, again.drop) == (RACE_S, False)


def test_the_pace_scales_races_and_nothing_else(time, monkeypatch):
    monkeypatch.setattr(LaneCosts, "pace", 0.1)
    time.lanes = LaneCosts(16 / 3, 0.05)
    assert efforts.look(time, 20.0, lanes=5).seconds == pytest.approx(1.2)
    assert efforts.final(time, 3).seconds == pytest.approx(RACE_S / 10)
    assert (time.to_explore, time.before(LATER)) == (100.0, 80.0)


def test_a_search_without_races_has_all_its_time_for_candidates(clock):
    assert search_of(30.0, 300.0, races=False, now=clock).before(LATER) == 30.0


def test_a_stage_leaves_later_ones_their_time(time, clock):
    with time.leaving(0.75):
        assert time.before(LATER) == pytest.approx(20.0)
        clock.seconds += 21
        assert time.before(LATER) < 0
    assert time.before(LATER) == pytest.approx(59.0)


def test_a_model_that_is_slow_is_looked_at_in_three_rounds_on_one_sample(time):
    time.lanes = LaneCosts(1.0, 0.01)
    fast = efforts.look(time, 20.0, lanes=5)
    time.lanes = LaneCosts(1.0, 2.0)  # 0.2 + 0.6 + 4 runs of 2 s a lane
    slow = efforts.look(time, 60.0, lanes=3)
    assert (fast.least_rounds, fast.most_samples) == (5, None)
    assert (slow.least_rounds, slow.most_samples) == (3, 1)
    assert slow.seconds == pytest.approx(60 - 0.4 * 8.8 * 3)


def test_first_looks_have_a_third_of_the_search_and_most_of_it_is_for_trying(time, clock):
    looks = object.__new__(FirstLooks)
    looks._time = time
    assert looks._for_looks == pytest.approx(100 / 3 * 0.7 + GRACE_S)
    clock.seconds += 24
    assert looks._for_looks == 0.0
    assert looks._left(1.0) == pytest.approx(100 / 3 - 24)
    look = efforts.first_look(time, 60.0)
    assert (look.least_rounds, look.most_samples, look.seconds) == (3, 1, 2 * LOOK_S)


@pytest.mark.parametrize(("run_s", "models", "rounds"), [(0.01, 6, 10), (0.2, 4, 3), (0.1, 6, 4), (2.0, 2, 3)])
def test_the_last_race_of_a_slow_model_has_few_models_and_few_rounds(time, run_s, models, rounds):
    """Two seconds a run, three models with the original: 36 seconds in place of 280."""
    time.lanes = LaneCosts(1.0, run_s)
    assert time.lanes_at_the_end(6) == models
    assert efforts.final(time, models).least_rounds == rounds


def test_each_shape_that_is_timed_makes_a_round_longer(time):
    time.lanes = LaneCosts(1.0, 0.1, 3)
    assert time.lanes_at_the_end(6) == 2


def test_what_is_reserved_is_not_there_for_what_comes_before_it(clock):
    run = run_of(60.0, clock)
    run.reserve(WRITING, 2.0)
    run.reserve(PROOF, 20.0)
    assert (run.left, run.before(WRITING), run.before(PROOF), run.before(OTHERS)) == (60.0, 58.0, 38.0, 38.0)
    run.release(PROOF)
    assert run.before(PROOF) == run.spare_s == 58.0


def test_one_of_several_targets_has_its_share_and_the_time_of_the_end_where_nothing_is_there(clock):
    search = run_of(60.0, clock).of_search(original(0.2, 0.02), 300.0)
    whole_s = search.to_explore
    search.explore(whole_s / 4)
    assert search.to_explore == pytest.approx(whole_s / 4)
    with search.lending():
        assert search.to_explore == pytest.approx(search.most_for_repair(0.0))
        assert search.to_explore > whole_s
        assert search.before(LATER) == search.to_explore
    assert search.to_explore == pytest.approx(whole_s / 4)


def test_the_end_of_a_short_run_keeps_time_for_two_models_and_not_for_five(clock):
    def kept_s(seconds):
        run = run_of(seconds, clock)
        return run.left - run.of_search(original(0.2, 0.02), 300.0).search_s

    assert kept_s(40.0) == pytest.approx(40.0 / 3, rel=0.1)
    assert kept_s(300.0) < 100.0


def test_what_a_repair_found_is_tried_though_the_search_is_over(clock):
    run = run_of(60.0, clock)
    time = run.of_search(original(0.1, 0.01), 300.0)
    clock.seconds += time.search_s + 5
    assert time.for_candidate() < 6.0 <= time.for_repaired < run.left


def test_a_repair_leaves_the_time_to_make_and_prove_what_it_finds(clock):
    run = run_of(60.0, clock)
    time = run.of_search(original(0.1, 0.01), 300.0)
    rest = run.spare_s - time.lanes.least_proof_s
    assert time.most_for_repair(2.0) == pytest.approx(rest - 2.0)
    clock.seconds += 58
    assert time.most_for_repair(2.0) == 0.0
    assert run.of_search(original(0.1, 0.01), 300.0, must=True).most_for_repair(2.0) == math.inf
