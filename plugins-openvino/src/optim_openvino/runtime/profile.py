"""Where the time of a model goes, by OpenVINO's own counters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from optim.backend import NodeProfile, NodeSeconds

if TYPE_CHECKING:
    from optim.arrays import Feeds
    from optim_openvino.runtime.session import OpenVinoSession

_WARM_UP = 3
_LEAST_RUNS, _MOST_RUNS = 5, 200


def profile(session: OpenVinoSession, feeds: Feeds, seconds: float) -> NodeProfile:
    """Runs of a session that was opened with counters, after some that do not count.

    OpenVINO's counters are means over all runs since the model was opened: the first runs are taken out of them.

    Args:
        session: opened with ``PERF_COUNT``.
        feeds: of every run.
        seconds: about how long; five runs at least, and 200 at most.
    """
    for _ in range(_WARM_UP):
        session.run(feeds)
    before = session.node_times()
    whole, runs = 0.0, 0
    while runs < _LEAST_RUNS or (runs < _MOST_RUNS and whole < seconds):
        started = time.perf_counter()
        session.run(feeds)
        whole += time.perf_counter() - started
        runs += 1
    nodes = tuple(
        NodeSeconds(*node, max(0.0, (mean * (_WARM_UP + runs) - before.get(node, 0.0) * _WARM_UP) / runs))
        for node, mean in session.node_times().items()
    )
    return NodeProfile(nodes, whole / runs)
