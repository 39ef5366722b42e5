"""Each pass has its turn early, whichever plugin it is of: one that is slow and useless takes no one's place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dawdling_plugin import SLEEP_S
from installed_plugin import installed
from timed_models import write_network

from optim._engine.gate.budget import Budget
from optim._engine.plugins.registry import load_registry
from optim._engine.runs.execute import execute
from optim._engine.search.explore.beam import Beam
from optim._engine.search.explore.first_looks import FirstLooks, _fair_order
from optim._engine.search.explore.promise import Promises
from optim._engine.search.plan import make_plan
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import StepStatus
from optim._engine.search.time_budget import TimeBudget
from optim._engine.search.workbench import Workbench
from optim._engine.store import Store
from optim.passes import Stage

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("looks")
    with installed(folder, "dawdling_plugin", "timed_plugin", "hinting_plugin"):
        write_network(folder / "model.onnx", {"a": 6, "b": 6, "c": 6})
        yield folder


@pytest.fixture(scope="module")
def settings(folder):
    registry = load_registry()
    chosen = ("dawdling.useless", "dawdling.lossily", "timed.drop-a", "timed.round")
    offers = {offered.name for offered in registry.offers(registry.target("cpu"))}
    return RunSettings(
        folder / "model.onnx",
        without=tuple(sorted(offers - set(chosen))),
        stages=(Stage.FUSE, Stage.QUANTIZE),
        search_seconds=12.0,
        most_samples=2,
    )


def test_plugins_take_turns_and_each_begins_with_what_promises_most(settings):
    registry = load_registry()
    plan = make_plan(settings, registry, registry.target("cpu"))
    order = [planned.ordered.name for planned in _fair_order(plan)]
    assert order == ["dawdling.lossily", "timed.round", "dawdling.useless", "timed.drop-a"]


def test_lossy_settings_cost_next_to_nothing_and_come_first(settings):
    registry = load_registry()
    without = tuple(name for name in settings.without if name != "hinting.coarse")
    plan = make_plan(replace(settings, without=without, stages=()), registry, registry.target("cpu"))
    order = [planned.ordered.name for planned in _fair_order(plan)]
    assert order[:2] == ["hinting.coarse", "dawdling.lossily"]


@pytest.fixture
def told(monkeypatch):
    """What each pass is said to gain: noise of tenths of seconds decides nothing here."""
    note = Promises.note_ratio

    def note_given(self, step, ratio):
        note(self, step, 1.0 if step.plugin == "dawdling" else 0.7)

    monkeypatch.setattr(Promises, "note_ratio", note_given)


def rounds(outcome):
    return [one for one in outcome.attempts if one.step.pass_name == "timed.round"]


@pytest.mark.slow
@pytest.mark.usefixtures("told")
def test_a_plugin_of_slow_and_useless_candidates_makes_no_result_worse(settings, folder):
    """Its twelve candidates would take twice the search; each pass has its first, and the others what they need."""
    outcome = execute(settings, load_registry(), Store(folder / "cache"), lambda text: None)
    assert any(one.ratio is not None for one in rounds(outcome))
    dawdled = [one for one in outcome.attempts if one.step.plugin == "dawdling"]
    assert len([one for one in dawdled if one.seconds >= SLEEP_S]) <= 2
    skipped = {one.reason for one in dawdled if one.status is StepStatus.SKIPPED}
    assert skipped
    assert all("other passes promise more" in reason or "search time ran out" in reason for reason in skipped)


@pytest.mark.slow
@pytest.mark.usefixtures("told")
def test_what_was_right_at_its_first_look_is_raced_though_the_time_is_over(settings, folder, monkeypatch):
    """Asking took the time of the search: what had its first look whatever the time may still win."""
    monkeypatch.setattr(TimeBudget, "left_for_candidates", property(lambda self: -1.0))
    outcome = execute(settings, load_registry(), Store(folder / "another"), lambda text: None)
    first = rounds(outcome)[0]
    assert first.on == ()
    assert first.parent_ratio is not None
    assert first.status is not StepStatus.SKIPPED


@pytest.fixture
def looked(folder, settings):
    """Rows of the first looks of a search that considers these passes alone."""

    def rows_of(*names, **options):
        registry = load_registry()
        offers = {offered.name for offered in registry.offers(registry.target("cpu"))}
        chosen = replace(
            settings, stages=(), search_seconds=80.0, without=tuple(sorted(offers - set(names))), **options
        )
        bench = Workbench(chosen, registry, Store(folder / "direct"), None, lambda text: None)
        bench.prepare(bench.ingest().model)
        plan = make_plan(chosen, registry, bench.target)
        beam = Beam(bench, Budget(0.05, 1e-4), plan)
        looks = FirstLooks(bench, beam._expander, beam.clock, beam.journal, beam.time)
        rows_of.found = [tuple(step.pass_name for step in one.candidate.steps) for one in looks.run(plan, 1.0)]
        rows_of.attempts = beam.journal.attempts
        return [(one.step.pass_name, one.on, one.ratio is not None) for one in beam.journal.attempts]

    return rows_of


def test_lossy_settings_are_compared_and_timed(looked):
    found = looked("timed.drop-a", "hinting.coarse")
    assert ("hinting.coarse", (), True) in found
    (hint,) = (one for one in looked.attempts if one.step.pass_name == "hinting.coarse")
    assert hint.drift is not None and hint.drift.relative_l2 == 0.0


def test_what_makes_way_has_a_first_look_with_what_it_makes_way_for(looked):
    found = looked("timed.drop-a", "timed.make-way", "timed.drop-b")
    assert ("timed.drop-b", ("timed.make-way",), True) in found
    assert ("timed.make-way", (), False) in found


def test_what_makes_way_for_nothing_is_not_looked_at_further(looked):
    found = looked("timed.drop-a", "timed.drop-b", "timed.pointless")
    assert [row for row in found if row[1]] == []
    assert ("timed.pointless", (), False) in found


def test_what_was_named_comes_first_and_the_others_are_looked_at_on_it(looked):
    named = (Named("timed.drop-a"),)
    rows = looked("timed.drop-a", "timed.drop-b", "timed.round", named=named)
    assert ("timed.drop-a", (), False) in rows
    assert {on for name, on, _ in rows if name == "timed.round"} == {("timed.drop-a",)}
    assert looked.found[0] == ("timed.drop-a",)
    assert all(chain[0] == "timed.drop-a" for chain in looked.found)


def test_a_goal_of_its_own_clock_has_first_looks_too(looked):
    looked("timed.drop-a", "timed.drop-b", goal="memory")
    assert looked.found
    assert {chain[0] for chain in looked.found} <= {"timed.drop-a", "timed.drop-b"}


def test_what_promises_most_per_second_comes_first(settings, folder, monkeypatch):
    """A pass that takes ten times as long for half as much again is looked at last."""
    registry = load_registry()
    bench = Workbench(settings, registry, Store(folder / "order"), None, lambda text: None)
    bench.prepare(bench.ingest().model)
    plan = make_plan(settings, registry, bench.target)
    beam = Beam(bench, Budget(0.05, 1e-4), plan)
    tried = []
    monkeypatch.setattr(Workbench, "try_all", lambda _, trials, seconds: tried.extend(trials) or [None] * len(trials))
    monkeypatch.setattr(Promises, "expected_s", lambda _, name: 20.0 if name == "timed.round" else 2.0)
    monkeypatch.setattr(Promises, "gain", lambda _, step: 0.6 if step.pass_name == "timed.round" else 0.4)
    FirstLooks(bench, beam._expander, beam.clock, beam.journal, beam.time).run(plan, 1.0)
    names = [trial.offered.name for trial in tried]
    assert names.index("timed.round") > names.index("timed.drop-a")
