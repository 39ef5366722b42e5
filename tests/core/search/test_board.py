"""What rows say of a graph that was compared under some settings."""

from __future__ import annotations

from pathlib import Path

from boards import board_of

from optim._engine.gate.budget import Objection
from optim._engine.gate.drift import OutputComparison
from optim._engine.jobs.start_up import Ready
from optim._engine.search.state import Candidate, LaneResult, Step
from optim.model import Model
from optim.passes import Role, Stage

INT8 = Step(Stage.QUANTIZE, "int8", "plugin", {}, Role.IMPROVE, lossy=True)
ROUNDED = Step(Stage.CONVERT_PRECISION, "rounded", "plugin", {}, Role.IMPROVE, lossy=True, session_only=True)
TUNED = Step(Stage.TUNE, "tuned", "plugin", {}, Role.IMPROVE, lossy=False, session_only=True)


def chain(*steps: Step) -> Candidate:
    graph = "-".join(step.pass_name for step in steps if not step.session_only) or "original"
    digest = "-".join(step.pass_name for step in steps)
    return Candidate(Model(Path(graph), digest, (), (), {"": 17}, 9), 100, steps)


def test_a_graph_that_is_wrong_in_other_sizes_is_told_so_without_its_settings_too() -> None:
    board = board_of()
    rows = [board.open(step, chain(*on)) for step, on in ((INT8, ()), (TUNED, (INT8,)), (ROUNDED, (INT8,)))]
    wrong = OutputComparison(
        "y", "float32", (1,), relative_error=1.2, rounding_excess=9.0, sample="in a batch of 2 rows"
    )
    tuned = chain(INT8, TUNED)
    board[tuned].result = LaneResult(ready=Ready((), 0, {}, (), unseen=(wrong,)))
    board[tuned].objection = Objection("drift 1.2 in a batch of 2 rows")
    board.note_objections([tuned])
    assert [row.reason for row in rows[:2]] == ["on all samples: drift 1.2 in a batch of 2 rows"] * 2
    assert rows[2].reason == ""
