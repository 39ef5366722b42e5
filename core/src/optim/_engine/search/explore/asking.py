"""What the passes offer for a model, asked once for each; one subprocess for all of them, a new one after a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optim._engine.graphs.node_lookup import no_such_node
from optim._engine.jobs import offer
from optim._engine.jobs.job import STARTING_S
from optim._engine.jobs.runner import Event
from optim._engine.plugins.offers import OfferedPass
from optim._engine.search.deadline import LATER, Deadline
from optim._engine.search.plan import Planned
from optim._engine.search.state import Candidate, StepStatus
from optim._engine.search.taste import DEAR, FEW
from optim._engine.search.workbench import Workbench
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import from_wire

_TOO_LATE = "search time ran out before all passes proposed candidates"

_MORE = "give more with --search-seconds"

_TOOK_ALL = f"{{who}} proposed no candidate within {{seconds:.3g}} s; {_MORE}"


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

    def ask_side_by_side(self, candidates: Sequence[Candidate], passes: Sequence[OfferedPass]) -> None:
        """Ask about several models at the same time; :meth:`ask` then knows the answers."""
        self._bench.runner.side_by_side(lambda candidate: self.ask(candidate, passes), candidates)

    def ask(self, candidate: Candidate, passes: Sequence[OfferedPass]) -> dict[str, Proposals]:
        """What each pass offers for a model, by the pass's name."""
        found: dict[str, Proposals] = {}
        left = []
        keys = self._keys(candidate, passes)
        for offered in passes:
            key = keys[offered.name]
            if key in self._asked_before:
                found[offered.name] = self._asked_before[key]
                continue
            known = self._bench.runner.known(key, offer.PassOffer)
            if known is None:
                left.append(offered)
            else:
                found[offered.name] = _asked(known)
        while left:
            late = {offered.name: reason for offered in left if (reason := self._too_late(offered))}
            found |= {name: Proposals((), reason, ran_out=True) for name, reason in late.items()}
            left = [offered for offered in left if offered.name not in late]
            if not left:
                break
            answers, broken = self._ask_once(candidate, left)
            for answer in answers:
                offered = next(p for p in left if p.name == answer.name)
                self._bench.runner.keep(keys[offered.name], answer)
                found[answer.name] = self._asked_before[keys[offered.name]] = _asked(answer)
                self._bench.runner.count += 1
            if broken is not None:
                self._bench.restore(candidate)
                name, found[name] = broken[0], broken[1]
                if broken[1].failure is not None and broken[1].failure.kind == "timeout":  # it would hang again
                    self._asked_before[keys[name]] = broken[1]
                if broken[1].ran_out:
                    self._too_slow[next(one.plugin.name for one in left if one.name == name)] = name, broken[1].reason
            left = [offered for offered in left if offered.name not in found]
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
            asked = [self.ask(candidate, [planned.offered])[planned.name] for candidate in candidates]
            unknown = [answer.unknown for answer in asked if answer.proposals]
            for name in unknown[0] if unknown else ():
                if all(name in others for others in unknown):
                    near = list(dict.fromkeys(word for others in unknown for word in others[name]))[:FEW]
                    raise no_such_node(name, near, planned.name, "the model and in what this run made of it")

    def _ask_once(
        self, candidate: Candidate, passes: Sequence[OfferedPass]
    ) -> tuple[list[offer.PassOffer], tuple[str, Proposals] | None]:
        """The offers, and the pass that broke the subprocess or took all the time, with what is said of it."""
        bench = self._bench
        asked = [
            offer.PassQuestion(offered.name, offered.plugin.name, self._options(offered), self._is_forced(offered))
            for offered in passes
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
        current = passes[0].name
        seconds = self._seconds(named=any(map(self._is_forced, passes)))

        def hear(event: Event) -> None:
            nonlocal current
            if event["event"] == "asking":
                current = event["name"]
            elif event["event"] == "offer":
                answers.append(from_wire(offer.PassOffer, event["offer"]))

        try:
            bench.runner.follow(offer.JOB, request, hear, silence_s=seconds)
        except WorkerFailed as failed:
            if failed.kind == "timeout" and seconds < self._seconds(named=True):
                release = next(one.plugin.release for one in passes if one.name == current)
                reason = _TOOK_ALL.format(who=f"pass {current} ({release})", seconds=seconds)
                return answers, (current, Proposals((), reason, ran_out=True))
            return answers, (current, Proposals((), failed.reason, failed))
        return answers, None

    def _seconds(self, *, named: bool) -> float:
        """Seconds in which a pass must say what it offers."""
        most = min(self._time.for_candidate(named=True), _ASKING_S)
        own = max(STARTING_S, DEAR * self._time.search_s)
        return most if named else min(most, own, max(0.0, self._time.before(LATER)) + self._time.grace_s)

    def _too_late(self, offered: OfferedPass) -> str:
        """Why a pass is not asked: its plugin took its time, or none is left to try it; empty if it is asked.

        The first that are asked are asked whatever the time; settings are raced as long as the search goes on.
        """
        if self._is_forced(offered) or not (self._has_asked or self._too_slow):
            return ""
        if (known := self._too_slow.get(offered.plugin.name)) is not None:
            slow, reason = known
            used = f"{offered.plugin.release} used up its time to propose candidates, for {slow}: {_MORE}"
            return reason if slow == offered.name else used
        left = self._time.to_explore if offered.over_models.session_only else self._time.before(LATER)
        culprit = next((f": {reason}" for _, reason in self._too_slow.values()), f"; {_MORE}")
        return f"{_TOO_LATE}{culprit}" if left <= 0 else ""

    def _keys(self, candidate: Candidate, passes: Sequence[OfferedPass]) -> dict[str, str]:
        """What answers are kept under, by the pass's name; plugins are as they are before they are asked."""
        asked = [(offered, self._options(offered), self._is_forced(offered)) for offered in passes]
        return self._bench.keys.offers(candidate, asked)

    def _options(self, offered: OfferedPass) -> dict[str, Any] | None:
        """What the user gave; None where the pass is to propose."""
        named = self._bench.settings.named_options(offered.name)
        return dict(named.options) if named and named.options is not None else None

    def _is_forced(self, offered: OfferedPass) -> bool:
        named = self._bench.settings.named_options(offered.name) is not None
        return named or offered.name in self._bench.target.requires


def _asked(answer: offer.PassOffer) -> Proposals:
    return Proposals(answer.proposals, answer.reason, unknown=answer.unknown, not_here=answer.not_here)
