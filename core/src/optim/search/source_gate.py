"""The gate towards the source: what is about to be delivered is held against the module that was exported.

Everything else in a search is compared with the exported graph, on the feeds of the run. Here the result itself meets
what the source computed on its trials, in shapes, paddings and lengths of the past that those feeds may not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from optim.feeds.feedset import SYNTHESIZED
from optim.gate.budget import Budget
from optim.jobs import source_result
from optim.jobs.recast import recast_place
from optim.model import Model
from optim.passes import Interface
from optim.processes.process import WorkerFailed, run_job
from optim.search.nodes import Measured, Node
from optim.search.workbench import Workbench
from optim.sources.result import SourceDrift
from optim.sources.verify import LIMITS
from optim.store import cache_key
from optim.wire import from_wire, to_wire

_AT_ONCE = 2


class SourceGate:
    """Holds results against their source; where the original came as an ONNX model, everything holds."""

    def __init__(self, bench: Workbench, budget: Budget) -> None:
        self._bench = bench
        self._budget = budget
        self.objections: dict[str, str] = {}
        """Why a result does not hold, by the digest of its model."""

    def judge(self, items: Sequence[Measured]) -> list[Measured]:
        """Those that hold, with how far they are from the source."""
        if self._bench.exported is None or not any(item.node.steps for item in items):
            return list(items)
        self._bench.say("running the result on what its source was run on")
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            judged = list(pool.map(self._judged, items))
        return [item for item in judged if item.node.model.digest not in self.objections]

    def _judged(self, item: Measured) -> Measured:
        if not item.node.steps:
            return item
        try:
            found = self._compared(item.node)
        except WorkerFailed as failed:
            self.objections[item.node.model.digest] = f"on what its source was run on: {failed.reason}"
            return item
        lossy = item.node.is_lossy or not self._bench.target.exact
        limit = self._limit(lossy=lossy)
        found = replace(found, limit=limit)
        far = _too_far(found, self._budget, lossy=lossy)
        if far and (found.problem or not lossy or self._bench.prepared.origin == SYNTHESIZED):
            self.objections[item.node.model.digest] = far
        elif far:  # the user's own data says what the budget is for; the values of a trial are made up
            found = replace(found, note=f"{far}; the budget is held on your data")
        return replace(item, source=found)

    def _limit(self, *, lossy: bool) -> float:
        """What the run accepts, and how far the exported graph itself is from the source."""
        made = self._bench.exported
        assert made is not None
        export = next(one.drift.relative_l2 for one in made.verified if one.component == self._component)
        own = self._budget.limit(lossy) if lossy else max(self._budget.tolerance, LIMITS["float32"])
        return own + export

    @property
    def _component(self) -> str:
        assert self._bench.exported is not None
        return self._bench.settings.component or self._bench.exported.graphs[0].component

    def _compared(self, node: Node) -> SourceDrift:
        bench, given = self._bench, _comparable(node)
        if given.model.digest == bench.original.model.digest:
            return SourceDrift(note=given.note)
        assert bench.exported is not None
        key = cache_key(
            "source-result", given.model.digest, [to_wire(one) for one in given.interfaces], self._component,
            bench.exported.evidence.name, to_wire(bench.place), bench.prepared.versions,
        )  # fmt: skip
        known = None if bench.settings.fresh else bench.store.read("steps", key)
        if known is None:
            request = source_result.Request(
                given.model, bench.place, bench.original.model, given.interfaces, bench.exported.evidence,
                self._component,
            )  # fmt: skip
            known, _ = run_job(source_result.__name__, to_wire(request), bench.settings.timeout_s)
            bench.store.write("steps", key, known)
        found = from_wire(source_result.Answer, known).found
        return replace(found, note=given.note) if given.note else found


@dataclass(frozen=True, slots=True)
class _Comparable:
    """What of a chain can be fed as the source is; ``note`` says where that is not the whole."""

    model: Model
    interfaces: tuple[Interface, ...]
    note: str = ""


def _comparable(node: Node) -> _Comparable:
    """The model at the end of the chain, or the one before the step that takes feeds of another kind."""
    place = recast_place(node.interfaces)
    if place is None or node.given is None or node.recast is None:
        return _Comparable(node.model, node.interfaces)
    note = f"the model as it was before {node.recast.pass_name}, which takes and gives something else than the source"
    return _Comparable(node.given, node.interfaces[:place], note)


def _too_far(found: SourceDrift, budget: Budget, *, lossy: bool) -> str:
    """Why a result is not what its source computes, in one sentence; empty where it is."""
    where = f"output '{found.output}' {found.place}, where the source itself was run"
    if found.problem:
        return f"{where}: {found.problem}"
    if found.drift.relative_l2 <= found.limit:
        return ""
    bound = "the budget" if lossy and budget.max_drift is not None else "what rounding explains"
    return f"drift {found.drift.relative_l2:.3g} from the source at {where}, is beyond {bound} ({found.limit:.3g})"
