"""Asking passes what they offer is bounded by the time of the run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from deadlines import search_of

from optim._engine.jobs.offer import PassOffer, Proposal
from optim._engine.search.explore.asking import Asker
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import to_wire


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


def _plugin(name):
    return SimpleNamespace(name=name, release=f"{name} 1.0")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def asked(clock):
    """What comes of asking passes that take so many seconds each, and the questions that were begun."""

    def ask(takes, *, time, named=(), after=(), settings=False, plugins=None):
        begun = []

        def follow(job, request, on_event, *, silence_s):
            for asked in request.passes:
                on_event({"event": "asking", "name": asked.name})
                begun.append(asked.name)
                clock.seconds += min(takes[asked.name], silence_s)
                if takes[asked.name] > silence_s:
                    raise WorkerFailed("did not finish", "timeout")
                on_event({"event": "offer", "offer": to_wire(PassOffer(asked.name, True, "", (Proposal({}),)))})

        runner = SimpleNamespace(
            follow=follow, known=lambda key, kind: None, keep=lambda key, answer: None, count=0, from_cache=0
        )
        bench = SimpleNamespace(
            runner=runner,
            restore=lambda candidate: False,
            aim="latency",
            target=None,
            store=SimpleNamespace(models=None),
            reference=SimpleNamespace(feeds=None),
            keys=SimpleNamespace(offers=lambda candidate, asked: {one.name: one.name for one, _, _ in asked}),
            settings=SimpleNamespace(
                seed=0,
                goal="latency",
                named_options=lambda name: SimpleNamespace(options=None) if name in named else None,
            ),
        )
        passes = [
            SimpleNamespace(
                name=name,
                offered=SimpleNamespace(name=name, plugin=_plugin((plugins or {}).get(name, "plugin"))),
                pass_class=SimpleNamespace(session_only=settings),
                forced=name in named,
            )
            for name in takes
        ]
        asker = Asker(bench, time)
        for before in after:
            asker.ask(SimpleNamespace(model=None), [one for one in passes if one.name == before])
        return asker.ask(SimpleNamespace(model=None), passes), begun

    return ask


def test_a_pass_has_what_is_left_of_the_search_and_the_others_are_asked_then(asked, clock):
    time = search_of(20.0, 300.0, races=False, now=clock)
    found, begun = asked({"quick": 1.0, "hangs": 1e9}, time=time)
    assert found["quick"].proposals
    assert (found["hangs"].ran_out, found["hangs"].failure) == (True, None)
    assert "proposed no candidate within 5 s" in found["hangs"].reason
    assert begun == ["quick", "hangs"]
    assert clock.seconds <= 20.0 + time.grace_s + 1.0


def test_once_the_search_is_over_no_other_pass_is_begun_behind_one_that_took_too_long(asked, clock):
    time = search_of(20.0, 300.0, races=False, now=clock)
    found, begun = asked({"hangs": 1e9, "other": 1.0, "third": 1.0}, time=time)
    assert begun == ["hangs"]
    assert "plugin 1.0 used up its time to propose candidates, for hangs" in found["other"].reason
    assert found["third"].ran_out


def test_a_pass_that_is_not_asked_any_more_says_which_one_took_the_time(asked, clock):
    time = search_of(4.5, 300.0, races=False, now=clock)
    found, _ = asked({"hangs": 1e9, "other": 1.0}, time=time, plugins={"hangs": "slow"})
    told = "before all passes proposed candidates: pass hangs (slow 1.0) proposed no candidate within 5 s"
    assert told in found["other"].reason


def test_a_pass_that_sleeps_costs_its_own_plugin_alone_and_is_named(asked, clock):
    time = search_of(60.0, 300.0, races=False, now=clock)
    plugins = {"hangs": "slow", "another": "slow"}
    found, begun = asked({"hangs": 1e9, "another": 1.0, "other": 1.0}, time=time, plugins=plugins)
    assert begun == ["hangs", "other"]
    assert found["other"].proposals
    assert "pass hangs (slow 1.0) proposed no candidate within 6 s" in found["hangs"].reason
    assert "slow 1.0 used up its time" in found["another"].reason
    assert clock.seconds == 7.0


def test_what_the_user_named_has_its_own_time(asked, clock):
    time = search_of(20.0, 300.0, races=False, now=clock)
    found, begun = asked({"named": 1e9, "other": 1.0}, time=time, named=("named",))
    assert clock.seconds >= 120.0
    assert found["named"].failure is not None
    assert found["other"].ran_out is False
    assert begun == ["named", "other"]


def test_when_the_time_for_candidates_is_over_only_what_nobody_needs_asking_for_is_known(asked, clock):
    time = search_of(4.5, 300.0, now=clock)
    found, begun = asked({"quick": 4.0, "other": 1.0}, time=time, after=("quick",))
    assert begun == ["quick"]
    assert (bool(found["quick"].proposals), found["other"].ran_out) == (True, True)


def test_settings_are_asked_for_as_long_as_there_is_time_to_race_them(asked, clock):
    time = search_of(4.5, 300.0, now=clock)
    found, begun = asked({"quick": 4.0, "other": 1.0}, time=time, after=("quick",), settings=True)
    assert begun == ["quick", "other"]
    assert found["other"].ran_out is False
