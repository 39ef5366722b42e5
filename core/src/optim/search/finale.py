"""The end of a search: the best chains on fresh rounds and all samples, and what nothing needs taken out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from optim.gate.budget import Budget
from optim.gate.drift import worst_drift
from optim.passes import Role
from optim.search.clock import Clock
from optim.search.journal import Journal
from optim.search.nodes import Measured, Node, Step, StepStatus
from optim.search.workbench import Workbench
from optim.timing.race import Effort

_FINALISTS = 3
_FINAL_S = 12.0
_SAME = 1.01
"""Within one per cent the shorter chain is taken."""

_NEEDED = 1.05
"""What only makes way must show more: the same graph differs by some per cent from process to process."""

_FASTER = 0.995
"""The upper end of the interval must lie below this for a result to be called faster."""


class Finale:
    """Decides which chain is delivered."""

    def __init__(self, bench: Workbench, budget: Budget, journal: Journal) -> None:
        self._bench = bench
        self._budget = budget
        self._journal = journal
        self.clock = Clock(bench, budget, time.monotonic())

    def decide(self, ranking: Sequence[Measured]) -> Measured | None:
        """The chain to deliver, measured anew; None where nothing is better than the original."""
        finalists = [item.node for item in ranking if not self._only_makes_way(item.node.steps)][:_FINALISTS]
        if not finalists:
            return None
        known = {node.model.digest for node in finalists}
        shorter = [*self._only_what_was_asked_for(finalists[0]), *self._shorter(finalists[0])]
        finalists += list({n.model.digest: n for n in shorter if n.model.digest not in known}.values())
        measured = self.measure(finalists) if self._bench.target.timed else self._first_right(finalists)
        for node in finalists:
            if objection := self.clock.objections.get(node.model.digest):
                attempt = self._journal.find(node)
                if attempt is not None:
                    attempt.settle(StepStatus.DROPPED, f"on all samples: {objection}")
        better = [item for item in measured if self.is_better(item)]
        if not better:
            return None
        best = min(better, key=self._rank)
        return min((item for item in better if self._as_good(item, best)), key=lambda item: len(item.node.steps))

    def measure(self, nodes: Sequence[Node]) -> list[Measured]:
        """Fresh rounds against the original, outputs compared on every sample the gate uses."""
        effort = Effort(
            seconds=_FINAL_S, least_rounds=12, most_rounds=40, width=0.015, drop=len(nodes) > 1,
            open_timeout_s=self._bench.settings.timeout_s,
            patience_s=_FINAL_S,
        )  # fmt: skip
        return self.clock.measure(nodes, effort, "final", self._bench.prepared.compared)

    def _first_right(self, nodes: Sequence[Node]) -> list[Measured]:
        """The best of the chains that is right, on a target that cannot be timed: the others need no look."""
        for node in nodes:
            found = self.clock.check(node)
            if found is not None and self.is_better(found):
                return [found]
        return []

    def is_better(self, item: Measured) -> bool:
        """Whether it reaches the goal: faster beyond the noise, or smaller.

        Where the target needs passes and cannot be timed, the original is no alternative: what runs is better.
        """
        if not self._bench.target.timed and self._bench.target.requires:
            return bool(item.node.steps)
        if all(step.role is not Role.IMPROVE and self._was_asked_for(step) for step in item.node.steps):
            return True
        if self._bench.settings.goal == "size" or not self._bench.target.timed:
            recast = item.node.recast is not None
            before = self._bench.comparable_original(item.node) if recast else self._bench.original
            return item.node.size_bytes < before.size_bytes
        return item.high is not None and item.high < _FASTER

    def _was_asked_for(self, step: Step) -> bool:
        asked = self._bench.settings.named_options(step.pass_name) is not None
        return asked or step.pass_name in self._bench.target.requires

    def _rank(self, item: Measured) -> float:
        if self._bench.settings.goal == "size" or not self._bench.target.timed:
            return float(item.node.size_bytes)
        assert item.ratio is not None
        return item.ratio

    def _as_good(self, item: Measured, best: Measured) -> bool:
        if item is best:
            return True
        if self._bench.settings.goal != "latency":
            return False
        if self._rank(item) <= self._rank(best) * _SAME:
            return True
        more = [step for step in best.node.steps if step not in item.node.steps]
        fits = all(step in best.node.steps for step in item.node.steps)
        return fits and self._only_makes_way(more) and self._rank(item) <= self._rank(best) * _NEEDED

    def _only_what_was_asked_for(self, node: Node) -> list[Node]:
        """The chain that is delivered where nothing else helps: what the user asked for, and no more."""
        asked = [step for step in node.steps if step.role is not Role.IMPROVE and self._was_asked_for(step)]
        found = self._rebuild(asked) if asked and len(asked) < len(node.steps) else None
        return [found] if found is not None else []

    def _only_makes_way(self, steps: Sequence[Step]) -> bool:
        """Whether nothing of this is more than making way for something that is not there; True for no step at all."""
        return all(step.role is Role.ENABLE and not self._was_asked_for(step) for step in steps)

    def _shorter(self, node: Node) -> list[Node]:
        """The chain without each step that has not shown its worth, as far as the steps after it still apply.

        What makes way and can go stays out of the shorter chains that follow: nothing needs it.
        """
        found, steps = [], list(node.steps)
        for place, step in reversed(list(enumerate(node.steps))):
            if len(steps) > 1 and self._is_doubtful(node.steps[: place + 1]) and not self._was_asked_for(step):
                shorter = self._rebuild([other for other in steps if other is not step])
                if shorter is not None:
                    found.append(shorter)
                    steps = list(shorter.steps) if step.role is Role.ENABLE else steps
        return found

    def _is_doubtful(self, steps: tuple[Step, ...]) -> bool:
        """Whether the last of these steps only makes way, or was no faster than the chain without it."""
        if steps[-1].role is Role.ENABLE:
            return True
        attempt = self._journal.find_chain(steps)
        if attempt is None or attempt.ratio is None or attempt.parent_ratio is None:
            return False
        return attempt.ratio >= attempt.parent_ratio * _FASTER

    def _rebuild(self, steps: Sequence[Step]) -> Node | None:
        node: Node | None = self._bench.original
        for step in steps:
            assert node is not None
            node = self._again(node, step)
            if node is None:
                return None
        return node

    def _again(self, node: Node, step: Step) -> Node | None:
        """Apply one known step to another chain; None where it changes nothing or fails there."""
        offered = self._bench.registry.find_pass(step.pass_name, self._bench.target)
        attempt = self._journal.open(step, node)
        tried = self._bench.try_one(node, offered, step.options, self._bench.settings.timeout_s)
        if tried.answer is None:
            attempt.settle(StepStatus.FAILED, tried.failure)
            return None
        result = tried.answer.result
        if not result.changed:
            attempt.settle(StepStatus.NOT_APPLICABLE, "; ".join(result.notes))
            return None
        attempt.drift = worst_drift(tried.answer.comparisons)
        attempt.counts, attempt.notes, attempt.seconds = dict(result.counts), result.notes, tried.seconds
        return replace(node.after(step, result.model, tried.answer.size_bytes, result.interface), drift=attempt.drift)
