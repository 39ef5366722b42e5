"""Asking passes what they offer is bounded by the time of the run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from optim._engine.jobs.offer import PassOffer, Proposal
from optim._engine.search.explore.asking import Asker
from optim._engine.search.run_time import ASKING_S
from optim._engine.search.time_budget import TimeBudget
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import to_wire


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def asked(clock):
    """What comes of asking passes that take so many seconds each, and the questions that were begun."""

    def ask(takes, *, time, named=()):
        begun = []

        def events(job, request, *, silence_s):
            for asked in request.passes:
                yield {"event": "asking", "name": asked.name}
                begun.append(asked.name)
                clock.seconds += min(takes[asked.name], silence_s)
                if takes[asked.name] > silence_s:
                    raise WorkerFailed("did not finish", "timeout")
                yield {"event": "offer", "offer": to_wire(PassOffer(asked.name, True, "", (Proposal({}),)))}

        runner = SimpleNamespace(
            events=events, known=lambda key, kind: None, keep=lambda key, answer: None, count=0, from_cache=0
        )
        bench = SimpleNamespace(
            runner=runner,
            restore=lambda candidate: False,
            target=SimpleNamespace(requires=()),
            store=SimpleNamespace(models=None),
            reference=SimpleNamespace(feeds=None),
            keys=SimpleNamespace(offer=lambda candidate, offered, options, forced: offered.name),
            settings=SimpleNamespace(
                seed=0,
                goal="latency",
                named_options=lambda name: SimpleNamespace(options=None) if name in named else None,
            ),
        )
        passes = [SimpleNamespace(name=name, plugin=SimpleNamespace(name="plugin")) for name in takes]
        return Asker(bench, time).ask(SimpleNamespace(model=None), passes), begun

    return ask


def test_a_pass_has_what_is_left_of_the_search_and_the_others_are_asked_then(asked, clock):
    time = TimeBudget(20.0, 300.0, races=False, now=clock)
    found, begun = asked({"quick": 1.0, "hangs": 1e9}, time=time)
    assert found["quick"].proposals
    assert (found["hangs"].ran_out, found["hangs"].failure) == (True, None)
    assert "search time ran out" in found["hangs"].reason
    assert begun == ["quick", "hangs"]
    assert clock.seconds <= 20.0 + time.grace_s + 1.0


def test_once_the_search_is_over_no_other_pass_is_begun_behind_one_that_took_too_long(asked, clock):
    time = TimeBudget(20.0, 300.0, races=False, now=clock)
    found, begun = asked({"hangs": 1e9, "other": 1.0, "third": 1.0}, time=time)
    assert begun == ["hangs"]
    assert found["other"].ran_out
    assert found["third"].ran_out


def test_what_the_user_named_has_its_own_time(asked, clock):
    time = TimeBudget(20.0, 300.0, races=False, now=clock)
    found, begun = asked({"named": 1e9, "other": 1.0}, time=time, named=("named",))
    assert clock.seconds >= ASKING_S
    assert found["named"].failure is not None
    assert found["other"].ran_out is False
    assert begun == ["named", "other"]
