"""Chains made of steps that were tried on others before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optim._engine.gate.drift import worst_drift
from optim._engine.search.journal import Journal
from optim._engine.search.nodes import Node, Step, StepStatus
from optim._engine.search.workbench import Workbench

_LONGEST_S = 48.0


class Rebuilder:
    """Applies known steps to other chains than those that they were found on."""

    def __init__(self, bench: Workbench, journal: Journal) -> None:
        self._bench = bench
        self._journal = journal

    def chain(self, steps: Sequence[Step], on: Node | None = None) -> Node | None:
        """The steps on top of ``on``, or of the original; None where one changes nothing or fails there."""
        node = on or self._bench.original
        for step in steps:
            longer = self._longer(node, step)
            if longer is None:
                return None
            node = longer
        return node

    def _longer(self, node: Node, step: Step) -> Node | None:
        offered = self._bench.registry.find_pass(step.pass_name, self._bench.target)
        attempt = self._journal.open(step, node)
        tried = self._bench.try_one(node, offered, step.options, min(self._bench.settings.timeout_s, _LONGEST_S))
        if tried.answer is None:
            attempt.settle(StepStatus.FAILED, tried.failure)
            return None
        result = tried.answer.result
        if not result.changed:
            attempt.settle(StepStatus.NOT_APPLICABLE, "; ".join(result.notes))
            return None
        attempt.drift, attempt.size_bytes = worst_drift(tried.answer.comparisons), tried.answer.size_bytes
        attempt.counts, attempt.seconds = dict(result.counts), tried.seconds
        attempt.notes = tuple(dict.fromkeys((*attempt.notes, *result.notes)))
        return replace(node.after(step, result.model, tried.answer.size_bytes, result.interface), drift=attempt.drift)
