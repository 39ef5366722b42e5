"""Where nothing is found that an end could prove, what is near the budget is repaired with the time of the end."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from deadlines import original as known

from optim._engine.goals.own import LATENCY
from optim._engine.search.deadline import Deadline, Start
from optim._engine.search.explore.promise import Promises
from optim._engine.search.explore.ranking import Ranking
from optim._engine.search.explore.repairs import Near
from optim._engine.search.explore.rescue import Rescue, SecondLooks
from optim._engine.search.explore.rest import OUT_OF_TIME, Cut
from optim._engine.search.journal import step_of
from optim._engine.search.objective import Objective
from optim._engine.search.state import Attempt, Candidate, Measured, StepStatus
from optim.model import Model
from optim.passes import Role, Stage


def chain(name, tmp_path):
    return Candidate(Model(tmp_path / name, name, (), (), {"": 17}, 9), 100)


@pytest.fixture
def rescued(tmp_path):
    """What is repaired and what came of it; ``ratios`` are those of looks beyond the budget, ``holds`` their places."""

    def found(ratios, holds=(), held=1.0, high=None, spent_s=30.0, required=(), took_s=(), guessed=None):
        seconds = [0.0]
        run = Deadline(60.0, lambda: seconds[0], Start())
        run.note_size(1)
        time = run.of_search(known(open_s=0.1, run_s=0.01), 300.0)
        seconds[0] += spent_s
        promises, near, asked = Promises(60.0), {}, []
        original = chain("original", tmp_path)
        for place, ratio in enumerate(ratios):
            planned = pass_named(f"pass {place}")
            step = step_of(planned.offered, {"keep": []})
            promises.note_ratio(step, ratio)
            near[place] = Near(
                planned, original, Attempt(step, (), seconds=dict(enumerate(took_s)).get(place, 1.0)), None
            )

        def repair_again(one):
            place = int(one.attempt.step.pass_name[-1])
            asked.append((place, time.left_for_repairs))
            model = chain(f"repaired {place}", tmp_path).model
            return original.after(one.attempt.step, model, 100, None) if place in holds else None

        ranking = Ranking(Objective(LATENCY, timed=True), SimpleNamespace(base=None), original, timed=True)
        repairs = SimpleNamespace(near=near, repair_again=repair_again, aim=lambda tried: 0.05)
        items = [Measured(original, held, high=high)]
        if guessed is not None:
            ranking.hoped["guess"] = 0.9
            ranking.guessed = {"guess"} if guessed else set()
            items.append(Measured(chain("guess", tmp_path), None))
        result = Rescue(repairs, promises, time, ranking, required, None).run(items)
        return [place for place, _ in asked], [(one.digest, ranking.figure(one)) for one in result], asked, time

    return found


def pass_named(name):
    pass_class = SimpleNamespace(role=Role.IMPROVE, lossy=True, session_only=False)
    offered = SimpleNamespace(
        name=name, stage=Stage.QUANTIZE, plugin=SimpleNamespace(name="plugin"), over_models=pass_class
    )
    return SimpleNamespace(ordered=SimpleNamespace(name=name), offered=offered, pass_class=pass_class)


def test_the_fastest_is_repaired_first_until_one_holds(rescued):
    asked, found, _, _ = rescued([0.6, 0.4, 0.5], holds=(2,))
    assert asked == [1, 2]
    assert found == [("repaired 2", pytest.approx(0.5))]


def test_one_that_is_evaluated_in_a_fraction_of_the_time_comes_before_one_that_is_a_little_faster(rescued):
    assert rescued([0.38, 0.4], took_s=(11.7, 2.3))[0] == [1, 0]


def test_it_has_the_time_of_the_end_and_gives_it_back(rescued):
    _, _, ((_, lent_s),), time = rescued([0.4])
    assert time.left_for_repairs < 5 < 10 < lent_s


@pytest.mark.parametrize(("held", "spent_s"), [(0.6, 30.0), (1.0, 57.0)])
def test_there_is_none_where_something_is_faster_or_only_a_proof_fits(rescued, held, spent_s):
    assert rescued([0.4], holds=(0,), held=held, spent_s=spent_s)[:2] == ([], [])


def test_what_may_be_as_slow_as_the_original_is_no_reason_against_a_repair(rescued):
    assert rescued([0.4], holds=(0,), held=0.8, high=1.1)[0] == [0]
    assert rescued([0.4], holds=(0,), held=0.8, high=0.9)[0] == []


@pytest.mark.parametrize("guessed", [True, False])
def test_what_was_never_timed_is_no_reason_against_a_repair(rescued, guessed):
    assert rescued([0.4], holds=(0,), guessed=guessed)[0] == ([0] if guessed else [])


def test_what_is_hardly_faster_or_lacks_what_was_named_is_left(rescued):
    assert rescued([0.97], holds=(0,))[0] == []
    assert rescued([0.5, 0.4], holds=(0, 1), required=("pass 0",))[0] == [0]


@pytest.mark.parametrize(("spent_s", "found"), [(5.0, ["refined", "rough"]), (57.0, ["rough"])])
def test_a_repair_that_was_cut_short_is_taken_up_again_while_there_is_search_time(tmp_path, spent_s, found):
    seconds, asked = [0.0], []
    run = Deadline(60.0, lambda: seconds[0], Start())
    run.note_size(1)
    time = run.of_search(known(open_s=0.1, run_s=0.01), 300.0)
    time.repairs.give(0.0)
    seconds[0] += spent_s

    def refine(candidate):
        asked.append((candidate.digest, time.left_for_repairs))
        return chain("refined", tmp_path)

    ranking = Ranking(Objective(LATENCY, timed=True), SimpleNamespace(base=None), chain("o", tmp_path), timed=True)
    rescue = Rescue(SimpleNamespace(near={}, refine=refine), Promises(60.0), time, ranking, (), None)
    ranked = rescue.refined([Measured(chain("rough", tmp_path), 0.8)])
    assert [one.digest for one in ranked] == found
    assert ranking.figure(ranked[0]) == pytest.approx(0.8)
    assert time.left_for_repairs <= 0
    assert not asked or asked[0][1] > 5


def test_a_guess_comes_before_what_was_timed_only_where_it_promises_a_tenth_more(tmp_path):
    ranking = Ranking(Objective(LATENCY, timed=True), SimpleNamespace(base=None), chain("o", tmp_path), timed=True)
    ranking.hoped, ranking.guessed = {"guess": 0.44, "repaired": 0.45, "better": 0.39}, {"guess", "better"}
    items = [Measured(chain(name, tmp_path), None) for name in ranking.hoped]
    ranked = ranking.of([*items, Measured(chain("timed", tmp_path), 0.442)])
    assert [one.digest for one in ranked] == ["better", "timed", "repaired", "guess"]


@pytest.fixture
def last(tmp_path):
    """What comes last: digests of what is found; the passes that were tried, with the seconds that each had.

    ``cut`` are passes whose first look was cut short, with what each was stopped after; ``holds`` is one of them,
    ``near`` one that is beyond the budget by little.
    """

    def found(cut, *, holds="", near="", held=1.0, spent_s=30.0, required=(), since=()):
        seconds, tried, repaired = [0.0], [], []
        run = Deadline(60.0, lambda: seconds[0], Start())
        run.note_size(1)
        time = run.of_search(known(open_s=0.1, run_s=0.01), 300.0)
        seconds[0] += spent_s
        promises, original = Promises(60.0), chain("original", tmp_path)
        waiting = []
        for place, (name, stopped_s) in enumerate(cut.items()):
            planned = pass_named(name)
            attempt = Attempt(step_of(planned.offered, {"keep": []}), ())
            if name in since:
                attempt.settle(StepStatus.SKIPPED, "another reason")
            else:
                attempt.run_out(OUT_OF_TIME)
            promises.expect(attempt.step, 0.9 - 0.1 * place, measured=False)
            promises.note_stopped(name, stopped_s)
            waiting.append(Cut(planned, original, attempt))

        def judge(parent, attempt, answer):
            return chain("held", tmp_path) if attempt.step.pass_name == holds else None

        def repair(one):
            repaired.append(time.left_for_repairs)
            return chain("repaired", tmp_path)

        def try_one(trial, timeout_s):
            tried.append((trial.offered.name, timeout_s))
            seconds[0] += 2.0

        expander = SimpleNamespace(
            cut=waiting,
            promises=promises,
            judge=judge,
            repairs=SimpleNamespace(is_near=lambda attempt, _: attempt.step.pass_name == near, repair=repair),
        )
        ranking = Ranking(Objective(LATENCY, timed=True), SimpleNamespace(base=None), original, timed=True)
        second = SecondLooks(SimpleNamespace(try_one=try_one), expander, time)
        rescue = Rescue(SimpleNamespace(near={}), promises, time, ranking, required, second)
        result = rescue.last([Measured(original, held)])
        return [one.digest for one in result if one.digest != "original"], tried, repaired

    return found


def test_first_looks_that_were_cut_short_have_the_time_of_the_end_until_one_holds(last):
    found, tried, _ = last({"a": 5.0, "b": 5.0, "c": 5.0}, holds="b")
    assert found == ["held"]
    assert [name for name, _ in tried] == ["a", "b"]
    assert tried[0][1] > 15.0


def test_what_a_second_look_finds_near_the_budget_is_repaired_in_what_is_left(last):
    found, _, (left_s,) = last({"a": 5.0}, near="a")
    assert found == ["repaired"]
    assert left_s > 10.0


@pytest.mark.parametrize(
    "changes",
    [{"held": 0.6}, {"spent_s": 50.0}, {"cut": {"a": 18.0}}, {"since": ("a",)}, {"required": ("named",)}],
    ids=["something is faster", "too late", "stopped after nearly as long", "tried since", "without what was named"],
)
def test_nothing_has_a_second_look_that_is_of_no_use(last, changes):
    assert last(**{"cut": {"a": 5.0}, "holds": "a", **changes})[:2] == ([], [])
