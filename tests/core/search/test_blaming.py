"""Which dropped steps are looked into after a search, in which order, and what is said where there is no time."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import sample_outcome as sample

from optim._engine.gate.budget import Budget, Objection
from optim._engine.gate.drift import Drift
from optim._engine.search.blaming import blame_dropped
from optim._engine.search.journal import Journal
from optim._engine.search.state import Attempt, Candidate, Step
from optim.jobs.process import WorkerFailed
from optim.passes import Interface, Role, Stage

BUDGET = Budget(0.05, 1e-4)


def dropped(journal: Journal, name: str, drift: float, *, lossy: bool = False, beyond: bool = False) -> Attempt:
    """A row whose step made a model that the gate objected to."""
    step = Step(Stage.FUSE, name, "acme", {"drift": str(drift)}, Role.IMPROVE, lossy)
    original = Candidate(sample.model(), 1)
    attempt = journal.open(step, original)
    journal.note_models(original, original.after(step, sample.model(name[0] * 64), 1, None))
    attempt.drift = Drift(drift, drift, 0.0)
    attempt.drop(Objection("too far" if beyond else "not what it was", beyond))
    return attempt


def bench(left: float, blame=None) -> SimpleNamespace:
    """A run whose end has so many seconds left; ``blame`` answers for the job."""

    def call(job, request, *, timeout_s, key):
        return blame(request)

    return SimpleNamespace(
        deadline=SimpleNamespace(now=lambda: 0.0, spare_s=left),
        say=lambda text: None,
        runner=SimpleNamespace(call=call),
        keys=SimpleNamespace(blame=lambda *depends_on: "key"),
        reference=SimpleNamespace(feeds=None),
        prepared=SimpleNamespace(compared=(0,)),
        place=None,
        store=SimpleNamespace(models=None),
    )


def test_what_claims_to_be_exact_comes_first_each_pass_once_and_honest_rounding_never():
    journal = Journal()
    honest = dropped(journal, "int8", 0.2, lossy=True, beyond=True)
    hopeless = dropped(journal, "garbage", 3.0, lossy=True, beyond=True)
    lost = dropped(journal, "half", math.inf, lossy=True)
    small, large = dropped(journal, "fuse", 0.01), dropped(journal, "fuse", 0.5)
    slow = journal.open(Step(Stage.FUSE, "slow", "acme", {}, Role.IMPROVE, lossy=False), Candidate(sample.model(), 1))
    asked = []

    def answer(request):
        asked.append(request.other.digest[0])
        assert request.tolerance == 0
        return sample.blamed()

    blame_dropped(BUDGET, [(bench(60, answer), journal)])
    assert asked == ["f", "h", "g"]
    assert [one.blame is not None for one in (large, lost, hopeless, small, honest, slow)] == [True] * 3 + [False] * 3
    assert large.why == "not what it was; blamed: node down_node (MatMul)"


def test_where_no_time_is_left_or_nothing_comes_back_a_note_says_so():
    journal = Journal()
    wrong = dropped(journal, "fuse", 0.5)
    blame_dropped(BUDGET, [(bench(1.0), journal)])
    assert wrong.blame is None
    assert wrong.notes == ("no time left to find the nodes to blame; run optim blame",)

    def end(request):
        raise WorkerFailed("did not finish within 24 s", "timeout")

    blame_dropped(BUDGET, [(bench(60, end), journal)])
    assert wrong.blame is None
    assert wrong.notes[-1] == "no node to blame was found: did not finish within 24 s"


@pytest.mark.parametrize("interfaces", [(), (Interface(feeds="acme:renamed"),)])
def test_a_step_that_is_fed_in_another_way_is_not_looked_into(interfaces):
    journal, original = Journal(), Candidate(sample.model(), 1)
    step = Step(Stage.FUSE, "fuse", "acme", {}, Role.IMPROVE, lossy=False)
    attempt = journal.open(step, original)
    journal.note_models(original, Candidate(sample.model("b" * 64), 1, (step,), interfaces))
    assert (journal.pair(attempt) is None) is bool(interfaces)
