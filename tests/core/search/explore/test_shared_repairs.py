"""What a repair found on one chain is tried on the next before anything is searched for there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from deadlines import search_of

from optim._engine.gate.budget import Budget
from optim._engine.gate.drift import Drift
from optim._engine.goals.known import LATENCY
from optim._engine.search.board import Board
from optim._engine.search.deadline import Deadline
from optim._engine.search.explore.beam import Beam
from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.promise import Promises
from optim._engine.search.explore.repairs import Near, Repairs
from optim._engine.search.rows import chain_key, step_of
from optim._engine.search.select.repair import RepairedOptions, Repairer
from optim._engine.search.state import Candidate, Measured
from optim.model import Model
from optim.passes import Role, Stage

LOSSY = SimpleNamespace(
    name="lossy",
    stage=Stage.QUANTIZE,
    plugin=SimpleNamespace(name="plugin"),
    over_models=SimpleNamespace(role=Role.IMPROVE, lossy=True, session_only=False, kept="in float"),
)
PLANNED = SimpleNamespace(offered=LOSSY, pass_class=LOSSY.over_models, forced=False)


def chain(name, tmp_path):
    return Candidate(Model(tmp_path / name, name, (), (), {"": 17}, 9), 100)


@pytest.fixture
def repaired(monkeypatch, tmp_path):
    """Options that chains end up with, and those on which a set was searched for; ``breaks`` are (chain, kept)."""

    def found(*limits, breaks=(), rough=False):
        searched = []

        def options(_, trial, attempt, outcome, limit):
            searched.append(trial.candidate.digest)
            return RepairedOptions({"keep": [f"of {trial.candidate.digest}"]}, rough)

        def judge(_, parent, attempt, tried):
            return None if (parent.digest, tried) in breaks else chain(tried, tmp_path)

        monkeypatch.setattr(Repairer, "options", options)
        monkeypatch.setattr(Repairer, "aim", lambda _, outcome: next(wanted))
        monkeypatch.setattr(Expander, "judge", judge)
        wanted = iter(limits)
        bench = SimpleNamespace(
            work={}, goal=LATENCY, target=None, budget=None, try_one=lambda trial, seconds: trial.options["keep"][0]
        )
        journal = Board(Budget(0.05, 1e-4))
        expander = Expander(bench, journal, search_of(60.0, 300.0), Promises(60.0))
        kept = []
        for number in range(len(limits)):
            parent = chain(f"chain {number}", tmp_path)
            attempt = journal.open(step_of(LOSSY, {"keep": []}), parent)
            kept.append(expander.repairs.repair(Near(PLANNED, parent, attempt, None)).digest)
        return kept, searched

    return found


def test_the_next_chain_takes_what_was_found(repaired):
    assert repaired(0.05, 0.05) == (["of chain 0", "of chain 0"], ["chain 0"])


def test_where_it_does_not_hold_the_chain_is_searched_for_itself(repaired):
    kept, searched = repaired(0.05, 0.05, breaks=[("chain 1", "of chain 0")])
    assert (kept, searched) == (["of chain 0", "of chain 1"], ["chain 0", "chain 1"])


def test_what_was_found_for_a_larger_drift_is_not_tried(repaired):
    assert repaired(0.05, 0.03)[1] == ["chain 0", "chain 1"]


def test_what_a_repair_found_in_too_little_time_is_not_taken_over(repaired):
    assert repaired(0.05, 0.05, rough=True)[1] == ["chain 0", "chain 1"]


def test_a_rough_repair_is_taken_up_again_and_the_rest_of_its_chain_applied_to_it(monkeypatch, tmp_path):
    searched, applied = [], []
    rough, fine, other = (step_of(LOSSY, {"keep": [name]}) for name in ("much", "little", "other"))
    original, tune = chain("original", tmp_path), step_of(LOSSY, {"threads": 1})

    def after(*steps):
        found = original
        for step in steps:
            found = found.after(step, Model(tmp_path / str(len(found.steps)), repr(step), (), (), {"": 17}, 9), 1, None)
        return found

    repairs = Repairs(
        SimpleNamespace(budget=None), Board(Budget(0.05, 1e-4)), search_of(60.0, 300.0), None, Promises(60.0)
    )
    monkeypatch.setattr(repairs, "repair_again", lambda near: searched.append(near) or after(fine))
    repairs._chains = SimpleNamespace(apply=lambda steps, on: applied.append((steps, on)) or after(*on.steps, *steps))
    repairs.rough[chain_key(after(rough))] = "as it was"
    assert repairs.refine(after(other, tune)) is None
    assert searched == []
    assert repairs.refine(after(rough, tune)).steps == (fine, tune)
    assert (searched, applied) == (["as it was"], [((tune,), after(fine))])
    assert repairs.refine(after(rough, tune)) is None  # once
    near = SimpleNamespace(attempt=SimpleNamespace(unrepaired="no set was found"))
    repairs.rough[chain_key(after(fine))] = near
    assert repairs.refine(after(fine)) is None  # the same again
    assert near.attempt.unrepaired == ""


@pytest.mark.parametrize(("most_s", "begun"), [(2.0, False), (12.0, True)])
def test_what_would_be_stopped_before_its_first_evaluation_is_not_begun(most_s, begun, tmp_path, monkeypatch):
    asked = []
    bench = SimpleNamespace(budget=None, repair=lambda *arguments: asked.append(arguments) or (None, []))
    time = search_of(60.0, 300.0)
    monkeypatch.setattr(Deadline, "most_for_repair", lambda self, took_s: most_s)
    attempt = Board(Budget(0.05, 1e-4)).open(step_of(LOSSY, {"keep": []}), chain("slow", tmp_path))
    attempt.seconds = 19.0
    trial = SimpleNamespace(offered=LOSSY)
    assert Repairer(bench, None, time).options(trial, attempt, None, 0.05) is None
    assert bool(asked) is begun
    assert attempt.unrepaired.startswith("not repaired: no set of nodes" if begun else "not repaired: no search time")


@pytest.mark.parametrize("near", [True, False])
def test_that_it_is_not_repaired_is_said_of_what_could_be_repaired_alone(near):
    attempt = SimpleNamespace(step=step_of(LOSSY, {}), unrepaired="")
    repairs = SimpleNamespace(is_near=lambda attempt, tried: near, closest=lambda tried: None)
    expander = SimpleNamespace(_for_size=False, promises=SimpleNamespace(is_faster=lambda step: False), repairs=repairs)
    assert Expander._repaired(expander, None, {attempt.step.pass_name: None}, [(attempt, None)]) == []
    assert bool(attempt.unrepaired) is near


@pytest.mark.parametrize(
    ("left_s", "holds", "asked"),
    [(30.0, "middle", ["small", "middle"]), (30.0, "far", ["small", "middle", "large", "far"]), (1.0, "middle", [])],
)
def test_what_was_smallest_is_repaired_first_in_the_time_that_is_left_and_what_is_far_last(
    monkeypatch, left_s, holds, asked
):
    time = search_of(60.0, 300.0)
    monkeypatch.setattr(Deadline, "left_for_repairs", left_s)
    repairs = Repairs(SimpleNamespace(budget=None), Board(Budget(0.05, 1e-4)), time, None, Promises(60.0))
    for name, size in (("far", 2), ("large", 30), ("middle", 20), ("small", 10), ("tiny", 1)):
        (repairs.far if name == "far" else repairs.near)[name, ("pass", "")] = SimpleNamespace(
            name=name, tried=SimpleNamespace(answer=SimpleNamespace(size_bytes=size))
        )
    tried = []
    monkeypatch.setattr(
        repairs, "repair_again", lambda one: tried.append(one.name) or (one if one.name == holds else None)
    )
    found = repairs.repair_on(lambda one: one.name != "tiny")
    assert tried == asked
    assert (found is not None) == bool(asked)


@pytest.mark.parametrize(("left_s", "smallest"), [(30.0, 40), (1.0, 90)])
def test_for_size_a_repair_that_was_cut_short_is_taken_up_again_in_the_time_that_is_left(monkeypatch, left_s, smallest):
    monkeypatch.setattr(Deadline, "left_for_repairs", left_s)
    rough, fine = (SimpleNamespace(name=name, size_bytes=size) for name, size in (("rough", 90), ("fine", 40)))
    repairs = SimpleNamespace(refine=lambda one: fine if one is rough else None, repair_on=lambda is_wanted: None)
    beam = SimpleNamespace(
        time=search_of(60.0, 300.0),
        _plan=SimpleNamespace(forced=list),
        _expander=SimpleNamespace(repairs=repairs),
        _rank=SimpleNamespace(of=lambda items: sorted(items, key=lambda item: item.candidate.size_bytes)),
    )
    found = Beam._repaired_on(beam, [Measured(rough, None)])
    assert found[0].candidate.size_bytes == smallest


def test_goal_accuracy_halves_the_drift_while_the_model_fits_and_then_aims_between(monkeypatch, tmp_path):
    aims = []

    def nearer(_, candidate, aim):
        aims.append(aim)
        return replace(chain(f"at {aim}", tmp_path), size_bytes=int(1 / aim), drift=Drift(aim, aim, 1.0))

    monkeypatch.setattr(Repairer, "nearer", nearer)
    bench = SimpleNamespace(work={}, goal=LATENCY, target=None, budget=None)
    repairs = Expander(bench, Board(Budget(0.05, 1e-4)), search_of(60.0, 300.0), Promises(60.0)).repairs
    best = replace(chain("whole", tmp_path), drift=Drift(0.08, 0.08, 1.0))
    found = repairs.nearer(best, lambda candidate: candidate.size_bytes <= 40)
    assert aims[:2] == pytest.approx([0.04, 0.02])
    assert [one.size_bytes for one in found] == sorted(one.size_bytes for one in found)
    assert 35 <= found[-1].size_bytes <= 40
