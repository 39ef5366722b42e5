"""Which dropped steps are looked into after a run, in which order, and what is said where there is no time."""

from __future__ import annotations

import math
from types import SimpleNamespace

import sample_outcome as sample

from optim.after_run import DroppedStep, FinishedRun
from optim.jobs import WorkerFailed
from optim_plugins.diagnose.after_run import look


def dropped(
    number: int, name: str, drift: float, blame=None, *, lossy: bool = False, beyond: bool = False
) -> DroppedStep:
    """A step whose model the gate objected to; ``blame`` answers for the job."""

    def call(module, request, answer, *, timeout_s, key):
        return blame(request)

    setup = SimpleNamespace(samples=(0,))
    return DroppedStep(
        number=number,
        pass_name=name,
        on=(),
        lossy=lossy,
        drift=drift,
        beyond_budget=beyond,
        beyond_repair=drift > 1.0,
        before=sample.model(),
        after=sample.model(name[0] * 64),
        lab=SimpleNamespace(setup=setup, say=lambda text: None, call=call),
    )


def finished(left: float, *steps: DroppedStep) -> FinishedRun:
    """A run with so many seconds left, on which nothing was timed."""
    lab = SimpleNamespace(setup=SimpleNamespace(target=SimpleNamespace(timed=False)))
    return FinishedRun(lab=lab, models=(), dropped=steps, left_s=lambda share: left)


def test_what_claims_to_be_exact_comes_first_each_pass_once_and_honest_rounding_never():
    asked = []

    def answer(request):
        asked.append(request.other.digest[0])
        assert request.tolerance == 0
        return sample.blamed()

    found = look(
        finished(
            60.0,
            dropped(0, "int8", 0.2, answer, lossy=True, beyond=True),
            dropped(1, "garbage", 3.0, answer, lossy=True, beyond=True),
            dropped(2, "half", math.inf, answer, lossy=True),
            dropped(3, "fuse", 0.01, answer),
            dropped(4, "fuse", 0.5, answer),
        )
    )
    assert asked == ["f", "h", "g"]
    assert [one.step for one in found.steps] == [4, 2, 1]
    assert found.steps[0].summary == "node down_node (MatMul)"
    assert found.steps[0].section.title == "Nodes to blame in fuse"


def test_where_no_time_is_left_or_nothing_comes_back_a_note_says_so():
    (late,) = look(finished(1.0, dropped(0, "fuse", 0.5))).steps
    assert late.details is None
    assert late.notes == ("no time left to find the nodes to blame; run optim blame",)

    def end(request):
        raise WorkerFailed("did not finish within 24 s", "timeout")

    (lost,) = look(finished(60.0, dropped(0, "fuse", 0.5, end))).steps
    assert lost.details is None
    assert lost.notes[-1] == "no node to blame was found: did not finish within 24 s"
