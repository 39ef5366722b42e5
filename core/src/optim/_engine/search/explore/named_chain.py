"""The passes that were named, as a chain: what every model that is delivered has, and others are looked at on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optim._engine.search.deadline import Deadline
from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.repairs import Near
from optim._engine.search.journal import Journal, step_of
from optim._engine.search.plan import Plan, Planned
from optim._engine.search.state import Candidate, StepStatus, Trial
from optim._engine.search.workbench import Workbench


@dataclass(frozen=True, slots=True)
class MadeChain:
    """The chain after each pass that was named, the original first.

    Attributes:
        parts: the place in the plan from which on passes are tried on a chain, and that chain.
        places: of all passes in the plan, by name.
    """

    parts: tuple[tuple[int, Candidate], ...]
    places: dict[str, int]

    @property
    def whole(self) -> Candidate:
        """The chain with all that was named; the original where nothing was."""
        return self.parts[-1][1]

    def before(self, planned: Planned) -> Candidate:
        """The chain with what was named and comes before a pass."""
        place = self.places[planned.ordered.name]
        return next(chain for begin, chain in reversed(self.parts) if begin <= place)


class NamedChain:
    """Makes the chain of the passes that a plan names, each with its first guess.

    Args:
        bench: of the run.
        expander: tries passes.
        journal: has a row for each.
        time: of the search.
        plan: the passes.
        named: those of them that the chain is made of.
    """

    def __init__(
        self,
        bench: Workbench,
        expander: Expander,
        journal: Journal,
        time: Deadline,
        plan: Plan,
        named: Sequence[Planned],
    ) -> None:
        self._bench = bench
        self._expander = expander
        self._journal = journal
        self._time = time
        self._order = [planned for those in plan.stages.values() for planned in those]
        self._named = named

    @property
    def is_one(self) -> bool:
        """Whether passes were named that others can be looked at on: one that changes what goes in is not."""
        return bool(self._named) and not any(planned.pass_class.recasts for planned in self._named)

    def make(self) -> MadeChain | None:
        """The chain; the original alone where nothing was named, None where a pass does not hold as it is guessed."""
        parts = [(0, self._bench.original)]
        for place, planned in enumerate(self._order):
            if planned in self._named:
                longer = self._after(parts[-1][1], planned)
                if longer is None:
                    return None
                parts.append((place + 1, longer))
        return MadeChain(tuple(parts), {planned.ordered.name: place for place, planned in enumerate(self._order)})

    def _after(self, parent: Candidate, planned: Planned) -> Candidate | None:
        """A chain with the first guess of one more pass, repaired if need be."""
        answer = self._expander.asker.ask(parent, [planned.offered])[planned.ordered.name]
        proposals = [one for one in answer.proposals if one.changes]
        if not proposals:
            declines = answer.status is StepStatus.NOT_APPLICABLE and not answer.proposals
            return parent if declines and not planned.is_named else None
        attempt = self._journal.open(step_of(planned.offered, proposals[0].options), parent)
        tried = self._bench.try_one(
            Trial(parent, planned.offered, attempt.step.options), self._time.for_candidate(named=True)
        )
        made = self._expander.judge(parent, attempt, tried)
        if self._expander.needs_nothing(planned, attempt):
            return parent
        if made is None and self._expander.repairs.is_near(attempt, tried):
            made = self._expander.repairs.repair(Near(planned, parent, attempt, tried))
        return made
