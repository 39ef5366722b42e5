"""The gate towards the source: what is about to be delivered is held against the module that was exported.

Everything else in a search is compared with the exported graph, on the feeds of the run. Here the result itself meets
what the source computed on its trials, in shapes, paddings and lengths of the past that those feeds may not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optim._engine.compare.recast import recast_place
from optim._engine.feeds.feedset import SYNTHESIZED
from optim._engine.gate.budget import Budget, Objection
from optim._engine.search.board import Board
from optim._engine.search.state import Candidate, Measured
from optim._engine.search.workbench import Workbench
from optim._engine.sources import result_job
from optim._engine.sources.evidence import LIMITS, SourceDrift
from optim._engine.sources.exported import ExportedSource
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
        found = replace(found, limit=self._limit(made, lossy=lossy))
        far = _too_far(found, self._board.budget, lossy=lossy)
        if far and (found.problem or not lossy or self._bench.prepared.origin == SYNTHESIZED):
            score.source_objection = far
        elif far:  # the user's own data says what the budget is for; the values of a trial are made up
            found = replace(found, note=f"{far}; the result meets the budget on your data")
        score.source = found
        return score.source_objection

    def _limit(self, made: ExportedSource, *, lossy: bool) -> float:
        """Returns what the run accepts, and how far the exported graph itself is from the source."""
        component = self._component(made)
        export = next(one.drift.relative_error for one in made.verified if one.component == component)
        own = self._board.budget.limit(lossy) if lossy else max(self._board.budget.tolerance, LIMITS["float32"])
        return own + export

    def _component(self, made: ExportedSource) -> str:
        return self._bench.settings.component or made.graphs[0].component

    def _compared(self, candidate: Candidate, made: ExportedSource) -> SourceDrift:
        """Returns how far a chain is from its source, up to the step that takes feeds of another kind."""
        bench, component, note = self._bench, self._component(made), ""
        model, interfaces, place = candidate.model, candidate.interfaces, recast_place(candidate.interfaces)
        if place is not None and candidate.given is not None and candidate.recast is not None:
            model, interfaces = candidate.given, interfaces[:place]
            note = f"the model before {candidate.recast.pass_name}, because that pass changes inputs or outputs"
        if model.digest == bench.original.digest and not candidate.target:
            return SourceDrift(note=note)
        key = bench.keys.found("source", model.digest, interfaces, made.evidence.name, component)
        request = result_job.Request(model, bench.place, bench.original.model, interfaces, made.evidence, component)
        found = bench.runner.call(result_job.JOB, request, timeout_s=bench.settings.timeout_s, key=key).found
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
