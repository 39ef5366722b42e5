"""What the passes offer for a model, asked once for each; one subprocess for all of them, a new one after a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optim._engine.graphs.node_lookup import no_such_node
from optim._engine.jobs import offer
from optim._engine.jobs.job import STARTING_S
from optim._engine.jobs.runner import Event
from optim._engine.search.deadline import LATER, Deadline
from optim._engine.search.plan import Planned
from optim._engine.search.state import Candidate, StepStatus
from optim._engine.search.taste import DEAR, FEW
from optim._engine.search.workbench import Workbench
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import from_wire

_TOO_LATE = "search time ran out before all passes proposed candidates"

_MORE = "give more with --search-seconds"


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a pass offers for a model: proposals, or the reason there are none.

    Attributes:
        proposals: what it offers.
        reason: why there are none.
        failure: where it broke down.
        unknown: names in the user's ``keep`` that no node of the model has, each with what comes near.
        not_here: whether it applies, and is known not to help on this machine.
        ran_out: whether it was not asked to the end because the time of the run was over.
    """

    proposals: tuple[offer.Proposal, ...]
    reason: str = ""
    failure: WorkerFailed | None = None
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_here: bool = False
    ran_out: bool = False

    @property
    def changing(self) -> tuple[offer.Proposal, ...]:
        """The proposals that may change the model."""
        return tuple(one for one in self.proposals if one.changes)

    @property
    def status(self) -> StepStatus:
        """What became of a pass that proposes nothing."""
        if self.ran_out:
            return StepStatus.SKIPPED
        return StepStatus.FAILED if self.failure else StepStatus.NOT_APPLICABLE


_ASKING_S = 120.0
"""For one pass that was named to say what it offers."""


class Asker:
    """Asks passes for one search, in the time that it has; what the user named has its own."""

    def __init__(self, bench: Workbench, time: Deadline) -> None:
        self._bench = bench
        self._time = time
        self._asked_before: dict[str, Proposals] = {}
        self._too_slow: dict[str, tuple[str, str]] = {}
        self._has_asked = False

    def ask_side_by_side(self, candidates: Sequence[Candidate], passes: Sequence[Planned]) -> None:
        """Ask about several models at the same time; :meth:`ask` then knows the answers."""
        self._bench.runner.side_by_side(lambda candidate: self.ask(candidate, passes), candidates)

    def ask(self, candidate: Candidate, passes: Sequence[Planned]) -> dict[str, Proposals]:
        """What each pass offers for a model, by the pass's name."""
        runner, found = self._bench.runner, dict[str, Proposals]()
        asked = [(one.offered, self._options(one), one.forced) for one in passes]
        keys = self._bench.keys.offers(candidate, asked)  # plugins are as they are before they are asked
        for name, key in keys.items():
            if key in self._asked_before:
                found[name] = self._asked_before[key]
            elif (known := runner.known(key, offer.PassOffer)) is not None:
                found[name] = _asked(known)
        while left := [one for one in passes if one.name not in found]:
            late = {one.name: reason for one in left if (reason := self._too_late(one))}
            found |= {name: Proposals((), reason, ran_out=True) for name, reason in late.items()}
            left = [one for one in left if one.name not in late]
            if not left:
                break
            answers, broken = self._ask_once(candidate, left)
            for answer in answers:
                runner.keep(keys[answer.name], answer)
                runner.count += 1
                found[answer.name] = self._asked_before[keys[answer.name]] = _asked(answer)
            if broken is not None:
                self._bench.restore(candidate)
                culprit, said = broken
                found[culprit.name] = said
                if said.failure is not None and said.failure.kind == "timeout":  # it would hang again
                    self._asked_before[keys[culprit.name]] = said
                if said.ran_out:
                    self._too_slow[culprit.offered.plugin.name] = culprit.name, said.reason
        self._has_asked = True
        return found

    def require_kept_nodes(self, candidates: Sequence[Candidate], passes: Sequence[Planned]) -> None:
        """Refuse names in the user's ``keep`` that no node has, in the model or in what the stages before made of it.

        A recipe may be for several models, and options are those of every component of a source: what fits only one of
        them is a note there.

        Raises:
            OptimError[unknown-node]: names the near ones.
        """
        settings = self._bench.settings
        for planned in passes:
            named = settings.named_options(planned.name)
            if named is None or not (named.options or {}).get("keep") or named.carried or settings.component:
                continue
            asked = [self.ask(candidate, [planned])[planned.name] for candidate in candidates]
            unknown = [answer.unknown for answer in asked if answer.proposals]
            for name in unknown[0] if unknown else ():
                if all(name in others for others in unknown):
                    near = list(dict.fromkeys(word for others in unknown for word in others[name]))[:FEW]
                    raise no_such_node(name, near, planned.name, "the model and in what this run made of it")

    def _ask_once(
        self, candidate: Candidate, passes: Sequence[Planned]
    ) -> tuple[list[offer.PassOffer], tuple[Planned, Proposals] | None]:
        """The offers, and the pass that broke the subprocess or took all the time, with what is said of it."""
        bench = self._bench
        asked = [
            offer.PassQuestion(one.name, one.offered.plugin.name, self._options(one), one.forced) for one in passes
        ]
        request = offer.Request(
            model=candidate.model,
            target=bench.target,
            passes=tuple(asked),
            store=bench.store.models,
            feeds=bench.reference.feeds,
            seed=bench.settings.seed,
            goal=bench.aim,
        )
        answers: list[offer.PassOffer] = []
        current = passes[0]
        seconds = self._seconds(named=any(one.forced for one in passes))

        def hear(event: Event) -> None:
            nonlocal current
            if event["event"] == "asking":
                current = next(one for one in passes if one.name == event["name"])
            elif event["event"] == "offer":
                answers.append(from_wire(offer.PassOffer, event["offer"]))

        try:
            bench.runner.follow(offer.JOB, request, hear, silence_s=seconds)
        except WorkerFailed as failed:
            if failed.kind == "timeout" and seconds < self._seconds(named=True):
                who = f"pass {current.name} ({current.offered.plugin.release})"
                reason = f"{who} proposed no candidate within {seconds:.3g} s; {_MORE}"
                return answers, (current, Proposals((), reason, ran_out=True))
            return answers, (current, Proposals((), failed.reason, failed))
        return answers, None

    def _seconds(self, *, named: bool) -> float:
        """Seconds in which a pass must say what it offers."""
        most = min(self._time.for_candidate(named=True), _ASKING_S)
        own = max(STARTING_S, DEAR * self._time.search_s)
        return most if named else min(most, own, max(0.0, self._time.before(LATER)) + self._time.grace_s)

    def _too_late(self, planned: Planned) -> str:
        """Why a pass is not asked: its plugin took its time, or none is left to try it; empty if it is asked.

        The first that are asked are asked whatever the time; settings are raced as long as the search goes on.
        """
        if planned.forced or not (self._has_asked or self._too_slow):
            return ""
        plugin = planned.offered.plugin
        if (known := self._too_slow.get(plugin.name)) is not None:
            slow, reason = known
            used = f"{plugin.release} used up its time to propose candidates, for {slow}: {_MORE}"
            return reason if slow == planned.name else used
        left = self._time.to_explore if planned.pass_class.session_only else self._time.before(LATER)
        culprit = next((f": {reason}" for _, reason in self._too_slow.values()), f"; {_MORE}")
        return f"{_TOO_LATE}{culprit}" if left <= 0 else ""

    def _options(self, planned: Planned) -> dict[str, Any] | None:
        """What the user gave; None where the pass is to propose."""
        named = self._bench.settings.named_options(planned.name)
        return dict(named.options) if named and named.options is not None else None


def _asked(answer: offer.PassOffer) -> Proposals:
    return Proposals(answer.proposals, answer.reason, unknown=answer.unknown, not_here=answer.not_here)
