"""Which of the finalists is delivered, given what the clock said of them: figures are made up here, models are not run.

The clock itself is tested in ``test_race.py``, a search to its end in ``test_search.py``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from all_goals import GOALS
from boards import board_of, timed_at
from deadlines import search_of

from optim._engine.gate.budget import Objection
from optim._engine.gate.drift import NO_DRIFT
from optim._engine.jobs.start_up import Ready
from optim._engine.search.board import Board
from optim._engine.search.deadline import Deadline
from optim._engine.search.measure.clock import Clock
from optim._engine.search.measure.idle_settings import IdleSettings
from optim._engine.search.measure.lane_figures import joined_ratio
from optim._engine.search.measure.racing import Races
from optim._engine.search.select.chains import Chains
from optim._engine.search.select.selection import Selection
from optim._engine.search.state import Candidate, LaneResult, Measured, Step
from optim.goal import Ratio
from optim.model import Model
from optim.passes import Role, Stage


def step(name: str) -> Step:
    role = Role.ENABLE if name.startswith("way") else Role.REQUESTED if name == "wish" else Role.IMPROVE
    lossy = name.startswith("lossy")
    return Step(Stage.FUSE, name, "plugin", {}, role, lossy=lossy, session_only=name.startswith("set"))


def candidate(*names: str, size: int = 100) -> Candidate:
    digest = "-".join(names) or "original"
    return Candidate(
        Model(Path(f"{digest}.onnx"), digest, (), (), {"": 17}, 9), size, tuple(step(name) for name in names)
    )


def second_look(item: Measured, found: tuple[float, float, float] | None) -> Measured:
    """The figures of both looks; those of the first where a second found none."""
    if found is None or item.lane.ratio is None:
        return item
    return replace(item, lane=replace(item.lane, ratio=joined_ratio(item.lane.ratio, Ratio(*found, 9))))


def selection_of(board: Board, time: Deadline) -> Selection:
    """The end of a search for which nothing is run."""
    bench = SimpleNamespace(
        original=board.original,
        entry=None,
        elsewhere=None,
        device_free_bytes=lambda: None,
        prepared=SimpleNamespace(open_s=0.0, run_s=0.0, timed=(0,), compared=(0, 1, 2), explored=(0,), task=None),
        say=lambda text: None,
        teller=None,
    )
    chains = Chains(None, board, time, IdleSettings(None, time))
    source = SimpleNamespace(judge=list, objection=lambda candidate: Objection())
    return Selection(Clock(Races(bench), board, time), chains, source)


@pytest.fixture
def decide(monkeypatch):
    """Steps of the chain that wins, given ratios with their interval's ends by chain; None for the original.

    A chain whose ratios are None breaks the budget on all samples; ``left_s`` of the run are left at the end; ``aside``
    are chains that only the board knows, ``decide.raced`` those that were proven in the end,
    ``same`` those of which the runtime makes what it makes of the original, ``clocks`` what the goal's own clock says.
    Settings leave the runtime's graph as it is, but for ``new_graphs``. ``disturbed`` rounds have others beside them.
    ``drifts`` are those of chains on few samples. ``seconds`` are the figures of chains
    in fresh processes; ``decide.twice`` those that had such a second look.
    """

    def decided(
        ratios,
        *,
        sizes=None,
        rebuilds=(),
        aside=(),
        looked=None,
        journal=None,
        rounds=9,
        clocks=None,
        same=(),
        disturbed=0.0,
        new_graphs=(),
        left_s=10.0,
        drifts=None,
        seconds=None,
        goal="latency",
        required=(),
    ):
        journal = journal or board_of(goal=GOALS[goal], original=candidate(), required=required)
        selection = selection_of(journal, search_of(left_s, 300.0))
        monkeypatch.setattr(Deadline, "more_s", 240)
        if left_s < 0:
            monkeypatch.setattr(Deadline, "left", left_s)
        raced, figures = [], {"rounds": rounds, "disturbed": disturbed}

        def measure(self, candidates):
            raced.extend(candidates)
            wrong = [one.model.digest for one in candidates if ratios[one.model.digest] is None]
            for one in candidates:
                if one.model.digest in wrong:
                    self.clock.board[one].objection = Objection("drift 0.06 is beyond the budget", beyond_budget=True)
            right = [one for one in candidates if one.model.digest not in wrong]
            found = [
                timed_at(one, *ratios[one.digest], goal=(clocks or {}).get(one.digest), **figures) for one in right
            ]
            found = self._timed_again(found)
            for item in found:
                journal.proven(item)
            return found

        def again(self, items):
            decided.twice += [item.digest for item in items]
            return [second_look(item, (seconds or {}).get(item.digest)) for item in items]

        def check(self, candidate):
            if ratios[candidate.model.digest] is None:
                self.clock.board[candidate].objection = Objection("drift 0.06 is beyond the budget", beyond_budget=True)
                return None
            return Measured(candidate)

        def apply(self, steps, on=None):
            if not steps:
                return candidate()
            digest = "-".join(one.pass_name for one in steps)
            return replace(candidate(*digest.split("-")), steps=tuple(steps)) if digest in rebuilds else None

        decided.twice = []
        monkeypatch.setattr(Selection, "measure", measure)
        monkeypatch.setattr(Clock, "again", again)
        monkeypatch.setattr(Selection, "check", check)
        monkeypatch.setattr(Chains, "apply", apply)
        monkeypatch.setattr(
            IdleSettings,
            "reasons",
            lambda _, on, others, **how: dict.fromkeys(same, "no change") if not on.steps else {},
        )
        monkeypatch.setattr(IdleSettings, "same_graph", lambda _, one, other: other.model.digest not in new_graphs)
        chains = [candidate(*key.split("-"), size=(sizes or {}).get(key, 100)) for key in ratios if key not in rebuilds]
        few = {name: replace(NO_DRIFT, relative_error=drift) for name, drift in (drifts or {}).items()}
        chains = [replace(one, drift=few.get(one.model.digest, NO_DRIFT)) for one in chains]
        explored = [timed_at(one, (looked or {}).get(one.model.digest, 0.5)) for one in chains]
        journal.explored(item for item in explored if item.candidate.model.digest in aside)
        winner = selection.decide([item for item in explored if item.candidate.model.digest not in aside])
        assert len({one.model.digest for one in raced}) == len(raced)
        decided.raced = [one.model.digest for one in raced]
        decided.undecided = selection.undecided
        points = journal.points(winner and winner.candidate)
        decided.numbers = {point.digest: point.number for point in points if point.proven}
        return None if winner is None else winner.candidate.model.digest

    return decided


def at(ratio: float, half: float = 0.01) -> tuple[float, float, float]:
    """A ratio with an interval of so much to each side."""
    return ratio, ratio - half, ratio + half


WRONG = dict.fromkeys("abc")
SMALL = {name: 10 + place for place, name in enumerate("abcdefg")}


@pytest.mark.parametrize(
    ("ratios", "options", "delivered"),
    [
        ({}, {}, None),
        ({"a": at(0.8), "b": at(0.6)}, {}, "b"),
        # within one per cent the shorter chain
        ({"a-b": at(0.800), "a": at(0.806)}, {}, "a"),
        ({"a-b": at(0.800), "a": at(0.815)}, {}, "a-b"),
        # fewer than six rounds decide nothing, nor does an interval that reaches the line
        ({"a": at(0.5)}, {"rounds": 5}, None),
        ({"a": at(0.5)}, {"rounds": 6}, "a"),
        ({"a": (0.99, 0.98, 0.994)}, {}, "a"),
        # what the runtime makes the same graph of is no change, unless it was asked for
        ({"a": at(0.8), "b": at(0.9)}, {"same": ("a",)}, "b"),
        ({"a": at(0.8)}, {"same": ("a",)}, None),
        ({"wish": at(0.8)}, {"same": ("wish",), "required": ("wish",)}, "wish"),
        # what was asked for need not be faster
        ({"wish": at(1.02)}, {"required": ("wish",)}, "wish"),
        ({"way": at(1.02)}, {"required": ("way",)}, "way"),
        # what only makes way goes, unless something needs it
        ({"way-a": at(0.8), "a": at(0.8)}, {"rebuilds": ("a",)}, "a"),
        ({"way-a": at(0.8), "a": at(0.9)}, {"rebuilds": ("a",)}, "way-a"),
        ({"way-a": at(0.8)}, {}, "way-a"),
        ({"way1-way2-a": at(0.8), "way1-a": at(0.8), "a": at(0.8)}, {"rebuilds": ("way1-a", "a")}, "a"),
        ({"way1-way2-a": at(0.8), "way2-a": at(0.8)}, {"rebuilds": ("way2-a",)}, "way2-a"),
        ({"way": at(0.9)}, {}, None),
        ({"way1-way2": at(0.9), "a": at(0.95)}, {}, "a"),
        # where the best break the budget on all samples, or are no faster on fresh rounds, the next ones
        ({**WRONG, "d": at(0.6)}, {}, "d"),
        ({**WRONG, "d": at(0.6)}, {"aside": ("d",)}, "d"),
        ({**WRONG, "d": None, "e": None, "f": None, "g": at(0.6)}, {}, "g"),
        (WRONG, {}, None),
        ({"a": None, "b": None, "c": at(0.9), "d": at(0.6)}, {"looked": {"d": 0.6}}, "d"),
        ({"a": None, "b": None, "c": at(0.9), "d": None}, {"looked": {"d": 0.6}}, "c"),
        ({**dict.fromkeys("abc", at(1.0, 0.02)), "d": at(0.6)}, {}, "d"),
        (
            {"lossy1": None, "lossy2": at(0.5)},
            {"aside": ("lossy2",), "drifts": {"lossy1": 0.049, "lossy2": 0.048}},
            "lossy2",
        ),
        # size: the smallest that is right; of as small ones no noise of the clock decides, but a lot does
        ({"a": at(0.5), "b": at(1.5)}, {"sizes": {"a": 90, "b": 40}, "goal": "size"}, "b"),
        ({"a": at(0.5), "b": at(1.5)}, {"sizes": {"a": 100, "b": 120}, "goal": "size"}, None),
        ({"a": at(0.5)}, {"sizes": {"a": 99.8}, "goal": "size"}, None),
        ({**dict.fromkeys("abcdef"), "g": at(1.5)}, {"sizes": SMALL, "goal": "size"}, "g"),
        ({"a": at(1.40), "b-c": at(1.06)}, {"sizes": {"a": 40, "b-c": 40}, "goal": "size"}, "b-c"),
        ({"a": at(1.40), "b-c": at(1.06)}, {"sizes": {"a": 40, "b-c": 60}, "goal": "size"}, "a"),
        ({"a": at(1.0), "b": at(1.1)}, {"sizes": {"a": 40, "b": 40}, "goal": "size"}, "a"),
        ({"b": at(1.0), "a": at(1.1)}, {"sizes": {"a": 40, "b": 40}, "goal": "size"}, "a"),
        ({"c-d": at(1.0), "a": at(1.1)}, {"sizes": {"c-d": 40, "a": 40}, "goal": "size"}, "a"),
    ],
)
def test_what_is_delivered(decide, ratios, options, delivered):
    assert decide(ratios, **options) == delivered


def test_of_as_fast_ones_none_is_delivered_that_another_beats_in_size_and_accuracy(decide):
    ratios = {"lossy": (0.424, 0.42, 0.43), "a-lossy2": (0.421, 0.42, 0.43)}
    drifts = {"lossy": 0.02, "a-lossy2": 0.01}
    assert decide(ratios, drifts=drifts) == "a-lossy2"
    assert decide(ratios, drifts=drifts, sizes={"lossy": 90}) == "lossy"  # smaller, but less accurate
    assert decide.numbers == {"lossy": 2, "a-lossy2": 1}


def test_no_numbered_point_beats_what_is_delivered(decide):
    assert decide({"a": (0.8, 0.79, 0.81), "b": (0.9, 0.89, 0.91)}, same=("a",)) == "b"
    assert decide.numbers == {"b": 1}  # the other is no change at all


def test_what_is_likely_to_hold_is_proven_beside_the_best(decide, monkeypatch):
    monkeypatch.setattr(Deadline, "lanes_at_the_end", lambda *_: 1)
    figures = {"lossy": (0.6, 0.59, 0.61), "sure": (0.8, 0.79, 0.81)}
    near = {"looked": {"lossy": 0.6, "sure": 0.8}, "drifts": {"lossy": 0.049}}
    assert decide(figures, **near) == "lossy"
    assert decide.raced == ["lossy", "sure"]


def test_nothing_is_delivered_whose_interval_reaches_the_line(decide):
    for ratios in [(0.96, 0.88, 1.01), (0.98, 0.97, 1.01), (0.96, 0.80, 1.39), (0.98, 0.66, 1.07), (0.5, 0.4, 0.995)]:
        assert decide({"a": ratios}) is None
        assert decide({"lossy": ratios}) is None
    assert decide({"a": (0.95, 0.90, 1.01), "b": (0.97, 0.96, 0.98)}) == "b"


SURE, LIKELY, NONE = (0.97, 0.96, 0.99), (0.97, 0.96, 1.01), (1.04, 1.02, 1.06)


@pytest.mark.parametrize(
    ("proof", "second", "verdict"),
    [
        (SURE, SURE, "improved"),
        (SURE, None, "improved"),  # there was no time for a second look: a note says so
        (SURE, LIKELY, "undecided"),
        (SURE, (1.0, 0.98, 1.02), "undecided"),
        (SURE, NONE, "unchanged"),
        (LIKELY, SURE, "undecided"),
        (LIKELY, None, "undecided"),
        (LIKELY, NONE, "unchanged"),
        ((0.99, 0.98, 0.995), SURE, "undecided"),
        (NONE, SURE, "unchanged"),
        (NONE, None, "unchanged"),
    ],
)
def test_a_result_is_improved_only_if_the_proof_says_so_and_a_second_look_does_not_contradict_it(
    decide, proof, second, verdict
):
    delivered = decide({"a": proof}, seconds={"a": second})
    assert delivered == ("a" if verdict == "improved" else None)
    assert decide.undecided.startswith("undecided: ") is (verdict == "undecided")
    # other programs change nothing of it but what would decide
    assert decide({"a": proof}, seconds={"a": second}, disturbed=0.98) == delivered
    assert decide.undecided.endswith("; give more seconds: --search-seconds 240") is (verdict == "undecided")
    assert ("on a quiet machine with --no-cache" in decide.undecided) is (verdict == "undecided")


def test_what_leads_after_a_second_look_has_one_too(decide):
    figures = {"a": (0.80, 0.79, 0.81), "b": (0.90, 0.89, 0.91), "c": (0.94, 0.93, 0.95)}
    assert decide(figures, seconds={"a": (1.0, 0.98, 1.02)}) == "b"
    assert decide.twice == ["a", "b"]
    assert decide(figures, seconds={"a": (1.2, 1.18, 1.22), "b": (1.2, 1.18, 1.22)}) == "c"
    assert decide.twice == ["a", "b", "c"]
    assert decide(figures, seconds={"a": (0.84, 0.83, 0.85)}) == "a"
    assert decide.twice == ["a"]


@pytest.mark.parametrize(
    ("ratios", "rounds", "said"),
    [
        ({"a": (0.98, 0.97, 1.01), "b": (0.99, 0.97, 1.01)}, 9, "undecided: 0.98 [0.97, 1.01]"),
        ({"a": (0.5, 0.49, 0.51)}, 3, "undecided: 0.50 in 3 rounds"),
        ({"a": (1.02, 0.97, 1.05)}, 9, ""),
        ({"way": (0.98, 0.97, 1.01)}, 9, ""),
        ({"a": None}, 9, ""),
    ],
)
def test_what_may_be_faster_is_said_with_the_seconds_to_give(decide, ratios, rounds, said):
    assert decide(ratios, rounds=rounds) is None
    assert decide.undecided == (f"{said}; give more seconds: --search-seconds 240" if said else "")


def test_more_seconds_are_not_asked_for_what_is_no_change(decide):
    assert decide({"a": (0.98, 0.97, 1.01), "b": (0.99, 0.97, 1.01)}, same=("a",)) is None
    assert decide.undecided.startswith("undecided: 0.99 ")
    assert decide({"a": (0.98, 0.97, 1.01)}, same=("a",)) is None
    assert decide.undecided == ""


@pytest.mark.parametrize(("goal", "delivered"), [(Ratio(0.9, 0.8, 0.99, 9), "a"), (Ratio(0.9, 0.8, 1.1, 9), None)])
def test_a_goal_with_a_clock_of_its_own_is_held_to_the_interval_of_that_clock(decide, goal, delivered):
    assert decide({"a": (0.5, 0.49, 0.51)}, clocks={"a": goal}, goal="startup") == delivered
    assert decide.undecided.startswith("undecided: 0.90 [0.80, 1.10]") is (delivered is None)
    assert decide({"a": (0.5, 0.49, 0.51)}, clocks={"a": replace(goal, rounds=4)}, goal="startup") is None


def explored(*names, ratio, high, without):
    """A journal with one row: of the last of these steps."""
    journal = board_of()
    attempt = journal.open(step(names[-1]), candidate(*names[:-1]))
    attempt.timing, attempt.parent_ratio = Ratio(ratio, ratio - 0.01, high, 9), without
    return journal


@pytest.mark.parametrize("row", [None, {"ratio": 0.77, "high": 0.81, "without": 0.8}])
def test_settings_that_were_not_faster_beyond_the_noise_are_raced_against_the_chain_without_them(decide, row):
    def journal():
        return explored("a", "set", **row) if row else None

    plain = (0.75, 0.74, 0.76)
    assert decide({"a-set": (0.8, 0.79, 0.81), "a": plain}, rebuilds=("a",), journal=journal()) == "a"
    slow = (0.83, 0.82, 0.84)
    assert decide({"a-set": (0.8, 0.79, 0.81), "a": slow}, rebuilds=("a",), journal=journal()) == "a-set"


def test_settings_that_were_clearly_faster_need_no_race_of_the_chain_without_them(decide):
    journal = explored("a", "set", ratio=0.7, high=0.72, without=0.8)
    assert decide({"a-set": (0.8, 0.79, 0.81), "a": (0.7, 0.69, 0.71)}, rebuilds=("a",), journal=journal) == "a-set"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1.00, 0.99, 1.01), None),  # what a run measured of level='all', the runtime's default
        ((0.98, 0.95, 1.01), None),
        ((0.95, 0.93, 0.97), (1.01, 0.99, 1.03)),  # what once was called improved
    ],
)
def test_a_named_setting_within_the_noise_is_not_called_improved(decide, first, second):
    assert decide({"set": first}, seconds={"set": second}, required=("set",)) is None
    assert decide({"set": (0.80, 0.78, 0.82)}, required=("set",)) == "set"


def test_a_size_needs_no_race_where_there_is_no_time_for_one(decide, monkeypatch):
    monkeypatch.setattr(Deadline, "may_prove", False)
    assert decide({"a": None, "b": "no figure"}, sizes={"a": 30, "b": 40}, goal="size") == "b"
    assert decide({"a": None, "b": "no figure"}, sizes={"a": 30, "b": 40}, goal="size", left_s=-1.0) is None


def test_where_the_time_is_over_what_came_next_is_proven_only_if_there_is_time_for_one_model(decide, monkeypatch):
    monkeypatch.setattr(Deadline, "before_last_race", -1.0)
    wrong, good = {"a": None, "b": None}, (0.6, 0.59, 0.61)
    found = {**wrong, "c": (0.9, 0.89, 0.91), "d": good}
    assert decide({**wrong, "c": None, "d": good}) == "d"
    assert decide(found, looked={"d": 0.6}) == "d"
    monkeypatch.setattr(Deadline, "may_prove_more", False)
    assert decide(found, looked={"d": 0.6}) == "c"


def test_what_is_no_faster_on_fresh_rounds_says_so_with_both_figures(decide):
    journal = board_of()
    attempt = journal.open(step("a"), candidate())
    attempt.timing = Ratio(0.8, 0.8, 0.8, 9)
    assert decide({"a": (0.99, 0.9, 1.04)}, journal=journal) is None
    assert (attempt.ratio, attempt.proven) == (0.99, True)  # what the table shows is what fresh rounds said
    assert attempt.reason == (
        "not clearly faster than the original: latency ratio 0.99 in the final timing (95 % interval 0.90 to 1.04), "
        "0.80 when explored"
    )


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"slow": (1.31, 1.29, 1.33), "fast": (0.64, 0.62, 0.66)}, "fast"),
        ({"slow": (1.31, 1.29, 1.33), "other": (1.0, 0.97, 1.03)}, "slow"),
        ({"slow": None, "fast": (0.64, 0.62, 0.66)}, "fast"),
        ({"slow": None}, None),
        ({"slow": (1.31, 1.29, 1.33), "late": "out of time"}, "late"),
    ],
)
def test_of_what_is_beyond_the_budget_the_nearest_that_would_help_is_kept_aside(monkeypatch, figures, expected):
    """One that is slow and a little nearer says nothing of a larger budget; of what is late its first look stands."""
    ready = Ready((), 0, {}, ())
    results = [
        LaneResult(out_of_time=True)
        if one == "out of time"
        else LaneResult(ready=ready, ratio=Ratio(*one, 9))
        if one
        else LaneResult("crash")
        for one in figures.values()
    ]
    journal = board_of(original=candidate())
    journal.open(step("late"), candidate())
    journal.timed(timed_at(candidate("late"), 0.6, 0.5, 0.7), None)
    selection = selection_of(journal, search_of(10.0, 300.0))
    monkeypatch.setattr(Clock, "beyond", lambda self, candidates: results)
    found = selection.measure_nearest([candidate(name) for name in figures])
    assert (found and found.candidate.model.digest) == expected
    assert [point.candidate.model.digest for point in journal.points()] == ([expected] if expected else [])


def test_what_settings_gain_beside_other_programs_alone_is_no_gain(decide):
    ratios = {"a-set": (0.60, 0.55, 0.65), "a": (0.94, 0.93, 0.95)}
    assert decide(ratios, rebuilds=("a",)) == "a-set"
    assert decide(ratios, rebuilds=("a",), disturbed=0.98) == "a"
    assert decide(ratios, rebuilds=("a",), disturbed=0.98, new_graphs=("a-set",)) == "a-set"
    assert decide({"a-set": (0.60, 0.55, 0.65), "a": None}, rebuilds=("a",), disturbed=0.98) is None


def test_settings_alone_are_no_gain_beside_other_programs_unless_they_were_asked_for(decide):
    journal = board_of()
    ratios = {"set": (0.60, 0.55, 0.65)}
    journal.open(candidate("set").steps[0], candidate())
    assert decide(ratios, disturbed=0.98, journal=journal) is None
    quiet = "other programs used the machine: repeat the run on a quiet machine with --no-cache"
    assert decide.undecided == f"undecided: 0.60 [0.55, 0.65]; {quiet}"
    assert decide(ratios, disturbed=0.98, same=("set",)) is None
    assert decide.undecided == ""
    assert decide(ratios, disturbed=0.98, required=("set",)) == "set"
