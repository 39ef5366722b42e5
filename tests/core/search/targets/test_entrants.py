"""What is said where no target runs the original, and of targets that took no part."""

from __future__ import annotations

from optim import OptimError, Target
from optim._engine.plugins.chosen_targets import ChosenTargets
from optim._engine.search.targets.entrants import TargetStatus, none_runs, with_absent
from optim.errors import ExitStatus

NEAR, FAR = (Target(name, name, runtime=name) for name in ("near", "far"))
CHOSEN = ChosenTargets(NEAR, (NEAR, FAR))
AWAY = ChosenTargets(NEAR, (NEAR, FAR), {"away": "no such device"})


def failing(reference: str, package: str = "acme 1.0") -> OptimError:
    return OptimError(reference, "it does not run", "an operator is missing", "", package)


def test_what_all_have_in_common_is_said_as_it_is() -> None:
    first = failing("session-failed")
    assert none_runs({"near": first, "far": failing("session-failed")}, CHOSEN) is first


def test_different_reasons_stand_beside_each_other() -> None:
    error = none_runs({"near": failing("session-failed"), "far": failing("ran-elsewhere", "far 2.0")}, CHOSEN)
    assert (error.reference, error.status) == ("no-target-runs", ExitStatus.TARGET_UNAVAILABLE)
    why = "it does not run: an operator is missing"
    assert error.cause == f"near: {why}; far: {why}"
    assert (error.fix, error.package) == ("--target near alone shows why", "")


def test_who_is_not_here_is_among_the_reasons() -> None:
    error = none_runs({"near": failing("session-failed")}, AWAY)
    assert error.cause.endswith("; away: no such device")
    assert error.package == "acme 1.0"


def test_what_took_no_part_has_a_row_unless_all_were_asked_for() -> None:
    failed = {"far": failing("session-failed")}
    rows = with_absent([], AWAY, failed)
    assert [(row.name, row.status) for row in rows] == [("far", TargetStatus.FAILED), ("away", TargetStatus.ABSENT)]
    assert rows[0].target == FAR.plain
    named_by_nobody = ChosenTargets(NEAR, (NEAR, FAR), AWAY.absent, auto=True)
    assert [row.name for row in with_absent([], named_by_nobody, failed)] == ["far"]
