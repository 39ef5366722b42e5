"""What it costs that a consumer opens a result without some of its tuned settings: both timed in turns."""

from __future__ import annotations

from pathlib import Path

from optim._engine.reports.parts.laid_out import OpenedCost
from optim._engine.search.effort import Effort
from optim._engine.search.measure.racing import Wanted, race_candidates
from optim._engine.search.state import Candidate
from optim._engine.search.workbench import Workbench
from optim.model import SessionConfig

_RACE = Effort(5.0, least_rounds=10, most_rounds=40, width=0.02, drop=False)
"""Five seconds, as long as the last race of a small run: who delivers waits for it."""


def opened_cost(bench: Workbench, own: Candidate, graph: Path, session: SessionConfig) -> OpenedCost | None:
    """The ratio of a graph as its consumer opens it to the result with its own settings; None where nothing is timed.

    Args:
        bench: prepared on the result's own graph.
        own: the result with its settings.
        graph: that the consumer opens.
        session: settings that it opens it with.
    """
    if not bench.target.timed or graph.suffix != ".onnx":
        return None
    bench.say("timing it as its consumer opens it")
    found = bench.ingest_file(graph)
    there = Candidate(found.model.with_session(session), found.size_bytes)
    bench.original = own
    _, (other,) = race_candidates(bench, [there], _RACE, Wanted("layout"))
    if other.ratio is None:
        return None
    return OpenedCost(ratio=other.ratio.value, ci=(other.ratio.low, other.ratio.high))
