"""The seconds of a search, told by a clock that stands still until it is set."""

from __future__ import annotations

import math

import pytest
from boards import board_of
from deadlines import original, run_of, search_of

from optim._engine.search.deadline import GRACE_S, LATER, OTHERS, PROOF, WRITING, Deadline, Start
from optim._engine.search.explore.first_looks import FirstLooks
from optim._engine.search.lane_costs import LEAST_ROUNDS, RACE_S, LaneCosts
from optim._engine.search.measure import clock as races
from optim._engine.search.measure.clock import LEAST_LANES, LOOK_S, Clock


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
    """A search of 100 seconds, with 300 for one candidate, in a run with 1000 more for its end."""
    return search_of(100.0, 300.0, now=clock)


def test_what_is_reserved_is_not_there_for_what_comes_before_it(clock):
    run = run_of(60.0, clock)
    run.reserve(WRITING, 2.0)
    run.reserve(PROOF, 20.0)
    assert (run.left, run.before(WRITING), run.before(PROOF), run.before(OTHERS)) == (60.0, 58.0, 38.0, 38.0)
    run.reserve(PROOF, 0.0)
    assert run.before(PROOF) == run.spare_s == 58.0


@pytest.mark.parametrize(
    ("spent", "to_explore", "candidates", "one"),
    [(0, 100.0, 80.0, 90.0), (78, 22.0, 2.0, 12.0), (85, 15.0, -5.0, 5.0), (170, 0.0, -90.0, -80.0)],
)
def test_candidates_begin_in_the_first_four_fifths_and_races_go_on(time, clock, spent, to_explore, candidates, one):
    clock.seconds += spent
    assert (time.to_explore, time.before(LATER), time.for_candidate()) == (to_explore, candidates, one)


def test_without_races_all_the_time_is_for_candidates_and_none_has_more_than_the_timeout(clock):
    assert search_of(30.0, 300.0, races=False, now=clock).before(LATER) == 30.0
    assert search_of(100.0, 7.0, now=clock).for_candidate() == 7.0


def test_what_was_named_has_the_rest_of_the_run_and_its_full_time_if_the_user_gave_no_seconds(time, clock):
    unbounded = [Deadline(asked, clock, Start()).of_search(original(), 300.0) for asked in (0, "auto")]
    assert time.for_candidate(named=True) == min(300.0, time.spare_s)
    clock.seconds += time.spare_s
    assert time.for_candidate(named=True) == GRACE_S
    assert [one.for_candidate(named=True) for one in unbounded] == [300.0, 300.0]


def test_a_stage_leaves_later_ones_their_time(time, clock):
    with time.leaving(0.75):
        assert time.before(LATER) == pytest.approx(20.0)
        clock.seconds += 21
        assert time.before(LATER) < 0
    assert time.before(LATER) == pytest.approx(59.0)


def lanes(time, share, least):
    return Clock(None, board_of(), time)._lanes(share, least)


@pytest.mark.parametrize(
    ("spent", "share", "least", "count"), [(0, 0.4, LEAST_LANES, 10), (0, 0.1, 8, 8), (72, 0.1, 8, 5), (144, 1.0, 8, 5)]
)
def test_as_many_lanes_as_there_is_time_for_and_a_few_whatever_the_time(time, clock, spent, share, least, count):
    time.lanes = LaneCosts(16 / 3, 0.05)  # 3.4 seconds to open, and 0.6 to run
    clock.seconds += spent
    assert lanes(time, share, least) == count


def test_lanes_that_open_slowly_make_it_fewer_and_slow_models_have_two_where_little_time_is_left(time, clock):
    time.lanes = LaneCosts(16 / 3, 0.05)
    time.lanes.note_lanes(open_s=11.4)  # the mean of 3.4 and 11.4 seconds
    assert lanes(time, 0.8, least=LEAST_LANES) == 10
    time.lanes = LaneCosts(16 / 3, 0.2)
    clock.seconds += 80
    assert lanes(time, 0.1, least=8) == 2


@pytest.mark.parametrize(
    ("run_s", "seconds", "samples", "rounds", "racing_s"),
    [(0.05, 20.0, None, 5, 12.0), (0.05, 2.0, None, 5, LOOK_S), (0.5, 40.0, 1, 3, 25.2), (2.0, 40.0, 1, 3, 17.2)],
)
def test_a_look_lasts_as_long_as_opening_leaves_and_slow_models_have_three_rounds_on_one_sample(
    time, monkeypatch, run_s, seconds, samples, rounds, racing_s
):
    time.lanes = LaneCosts(16 / 3, run_s)
    found = races.look(time, seconds, lanes=5)
    assert (found.most_samples, found.least_rounds, found.seconds) == (samples, rounds, pytest.approx(racing_s))
    assert not races.look(time, seconds, lanes=5, memory_only=True).drop
    monkeypatch.setattr(LaneCosts, "pace", 0.1)  # which scales races, and nothing else
    assert races.look(time, seconds, lanes=5).seconds == pytest.approx(racing_s / 10)
    assert races.final(time, 3).seconds == pytest.approx(RACE_S / 10)
    assert (time.to_explore, time.before(LATER)) == (100.0, 80.0)


def test_first_looks_have_a_third_of_the_search_and_most_of_it_is_for_trying(time, clock):
    looks = object.__new__(FirstLooks)
    looks._time = time
    assert looks._for_looks == pytest.approx(100 / 3 * 0.7 + GRACE_S)
    clock.seconds += 24
    assert looks._for_looks == 0.0
    assert looks._left(1.0) == pytest.approx(100 / 3 - 24)
    look = races.first_look(time, 60.0)
    assert (look.least_rounds, look.most_samples, look.seconds) == (LEAST_ROUNDS, 1, 2 * LOOK_S)


def test_the_last_race_waits_half_as_long_again_for_quiet_rounds(time):
    final, again = races.final(time, 3), races.again(time, 1)
    assert (final.seconds, final.patience_s, final.open_timeout_s) == (RACE_S, RACE_S / 2, 300.0)
    assert (again.seconds, again.drop) == (RACE_S, False)


@pytest.mark.parametrize(
    ("run_s", "samples", "models", "rounds"),
    [(0.01, 1, 6, 10), (0.2, 1, 4, 3), (0.1, 1, 6, 4), (2.0, 1, 2, 3), (0.1, 3, 2, 3)],
)
def test_the_last_race_of_a_slow_model_has_few_models_and_few_rounds(time, run_s, samples, models, rounds):
    """Two seconds a run, three models with the original: 36 seconds in place of 280."""
    time.lanes = LaneCosts(1.0, run_s, samples)
    assert time.lanes_at_the_end(6) == models
    assert races.final(time, models).least_rounds == rounds


def test_one_of_several_targets_has_its_share_and_the_time_of_the_end_where_nothing_is_there(clock):
    search = run_of(60.0, clock).of_search(original(0.2, 0.02), 300.0)
    whole_s = search.to_explore
    search.explore(whole_s / 4)
    assert search.to_explore == pytest.approx(whole_s / 4)
    with search.lending():
        assert search.to_explore == pytest.approx(search.most_for_repair(0.0))
        assert search.before(LATER) == search.to_explore > whole_s
    assert search.to_explore == pytest.approx(whole_s / 4)


@pytest.mark.parametrize("seconds", [20.0, 40.0, 300.0])
def test_the_end_of_a_run_has_half_of_it_at_most(clock, seconds):
    run = run_of(seconds, clock)
    assert seconds / 20 < run.left - run.of_search(original(0.2, 0.02), 300.0).search_s <= seconds / 2


def test_a_repair_leaves_the_time_to_make_and_prove_what_it_finds_and_that_is_tried_after_the_search(clock):
    run = run_of(60.0, clock)
    time = run.of_search(original(0.1, 0.01), 300.0)
    assert time.most_for_repair(2.0) == pytest.approx(run.spare_s - time.lanes.least_proof_s - 2.0)
    clock.seconds += time.search_s + 3
    assert time.for_candidate() < 6.0 <= time.for_reapplying < run.left
    clock.seconds += 55
    assert time.most_for_repair(2.0) == 0.0
    assert run.of_search(original(0.1, 0.01), 300.0, must=True).most_for_repair(2.0) == math.inf


@pytest.mark.parametrize(("given", "more"), [(0.0, 60), (30.0, 60), (40.0, 120)])
def test_a_verdict_that_noise_left_open_asks_for_twice_the_seconds_in_whole_minutes(given, more):
    assert Deadline(given).more_s == more
