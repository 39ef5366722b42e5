"""The gate towards the source: what is about to be delivered is held against the module that was exported.

Everything else in a search is compared with the exported graph, on the feeds of the run. Here the result itself meets
what the source computed on its trials, in shapes, paddings and lengths of the past that those feeds may not have. The
pipeline that exported the source brings the job that compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optim._engine.compare.comparison import recast_place
from optim._engine.feeds.feedset import SYNTHESIZED
from optim._engine.gate.budget import Budget, Objection
from optim._engine.plugins.versions import source_digest
from optim._engine.search.board import Board
from optim._engine.search.state import Candidate, Measured
from optim._engine.search.workbench import Workbench
from optim._engine.sources.exported import ROUNDING, ExportedGraph, SourceDrift, SourceQuestion, find_pipeline
from optim.jobs.process import WorkerFailed


class SourceGate:
    """Holds results against their source; where the original came as an ONNX model, everything holds."""

    def __init__(self, bench: Workbench, board: Board) -> None:
        self._bench = bench
        self._board = board

    def judge(self, items: Sequence[Measured]) -> list[Measured]:
        """Returns those that hold, with how far they are from the source."""
        candidates = [item.candidate for item in items if not item.candidate.is_original]
        if self._bench.exported is None or not candidates:
            return list(items)
        self._bench.say("running the result on the inputs of its source")
        self._bench.runner.side_by_side(self.objection, candidates)
        held = [item for item in items if not self._board[item.candidate].source_objection]
        return [replace(item, source=self._board[item.candidate].source) for item in held]

    def objection(self, candidate: Candidate) -> Objection:
        """Returns why a chain is not what its source computes; false if it is."""
        if (made := self._bench.exported) is None:
            return Objection()
        score = self._board[candidate]
        try:
            found = self._compared(candidate, made)
        except WorkerFailed as failed:
            score.source_objection = Objection(f"on the inputs of its source: {failed.reason}")
            return score.source_objection
        lossy = candidate.is_lossy or not self._bench.target.exact
        budget = self._board.budget
        own = budget.limit(lossy) if lossy else max(budget.tolerance, ROUNDING)
        found = replace(found, limit=own + made.known.drift)
        far = _too_far(found, budget, lossy=lossy)
        if far and (found.problem or not lossy or self._bench.prepared.origin == SYNTHESIZED):
            score.source_objection = far
        elif far:  # the user's own data says what the budget is for; the values of a trial are made up
            found = replace(found, note=f"{far}; the result meets the budget on your data")
        score.source = found
        return score.source_objection

    def _compared(self, candidate: Candidate, made: ExportedGraph) -> SourceDrift:
        """Returns how far a chain is from its source, up to the step that takes feeds of another kind."""
        bench, component, note = self._bench, made.known.component, ""
        model, interfaces, place = candidate.model, candidate.interfaces, recast_place(candidate.interfaces)
        if place is not None and candidate.given is not None and candidate.recast is not None:
            model, interfaces = candidate.given, interfaces[:place]
            note = f"the model before {candidate.recast.pass_name}, because that pass changes inputs or outputs"
        if model.digest == bench.original.digest and not candidate.target:
            return SourceDrift(note=note)
        job = find_pipeline(bench.registry, made.known.content.source).witness
        code = source_digest(job.module)
        key = bench.keys.found("source", model.digest, interfaces, made.evidence.name, component, code)
        question = SourceQuestion(model, bench.place, bench.original.model, interfaces, made.evidence, component)
        found = bench.runner.call(job, question, timeout_s=bench.settings.timeout_s, key=key)
        return replace(found, note=note) if note else found


def _too_far(found: SourceDrift, budget: Budget, *, lossy: bool) -> Objection:
    """Returns why a result is not what its source computes; false if it is."""
    where = f"output '{found.output}' {found.place}, where the source itself was run"
    if found.problem:
        return Objection(f"{where}: {found.problem}")
    if found.drift.relative_error <= found.limit:
        return Objection()
    far = f"drift {found.drift.relative_error:.3g} from the source at {where}, is beyond"
    if lossy and budget.max_drift is not None:
        return Objection(f"{far} the budget ({found.limit:.3g})", beyond_budget=True)
    return Objection(f"{far} what rounding explains ({found.limit:.3g})")
