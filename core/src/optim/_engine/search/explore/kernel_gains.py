"""What passes promise by the kernels they exchange: measured once on each machine, for a backend and its libraries.

A pass gains at best what its kernels gain, on the share of the model's work that its operators do. A pass that does not
win even so is not tried. A product has the ratio for its rows, between those of the probes; another kernel has that of
the shape that suits it best. Weights in blocks take 0.18 of the time on one row, and 0.86 on 128.

How much each operator multiplies, and on how many rows, is counted in one run. Guessed by its weights, products did
2 % of a reader of text, and dynamic 8 bits had no look on a busy machine; they do 9 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import ClassVar

import numpy as np

from optim._engine.jobs import kernels
from optim._engine.search.deadline import LEAST_S
from optim._engine.search.workbench import Workbench
from optim._engine.store import cache_key
from optim._engine.timing import work_job
from optim.backend import KernelRatio
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import to_wire
from optim.passes import KernelUse

_MEASURING_S = 20.0
"""For all of it, which takes two seconds: it only ends a backend that hangs."""

_DISTURBED = 0.25
"""Half of all kernels may be spread by more: else other programs made the figures."""

_COUNTING_SHARE = 0.04
"""Of the run that is left, for counting multiplications: the original is opened and run once more."""

_LEAST_RATIO = 0.05
"""No kernel is faster than that beside one of float32: what says so was not computed."""


class KernelGains:
    """The kernels of one run's backend.

    Attributes:
        measures: whether kernels are timed where they are not known yet; tests go by tables.
    """

    measures: ClassVar[bool] = True

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._work = bench.work  # share of each operator, 0..1, guessed by its weights
        self._ratios: tuple[KernelRatio, ...] = ()
        self._rows: Mapping[str, float] = {}

    def find(self) -> None:
        """Take what is known of this machine, or measure it.

        A disturbed machine, and a run that is too short for measuring, go by the backend's tables.
        """
        bench = self._bench
        key = cache_key("kernels", bench.machine, bench.keys.backend, bench.prepared.versions)
        known = bench.store.read("steps", key, kernels.Answer)
        if known is not None:  # of the machine, and so taken from the cache by a run that takes nothing else from it
            with bench.runner.noted(kernels.JOB.module, kernels.Request(bench.place, bench.store.models)) as action:
                action.answer = known
        elif self.measures and bench.target.timed:
            known = self._asked(key, timed=bench.deadline.left >= LEAST_S)
        if known is None:
            return
        counted = self._counted()
        self._work, self._rows = counted.shares or self._work, counted.rows
        disturbed = _is_disturbed(known.measured)
        self._ratios = known.measured if known.measured and not disturbed else known.known
        if disturbed:
            bench.deadline.note("other programs disturbed the kernel timing, so optim estimated gains from tables")

    def gain(self, uses: Iterable[KernelUse]) -> float | None:
        """Logarithm of the factor that exchanging kernels gains at best; None where nothing is known of them."""
        if not self._work:
            return None
        saved, found = 0.0, False
        for use in uses:
            for operator in use.operators:
                ratio = self._best(operator, use.precision)
                if ratio is not None:
                    found = True
                    saved += self._work.get(operator, 0.0) * (1 - max(_LEAST_RATIO, use.times * ratio))
        return -math.log(max(_LEAST_RATIO, 1 - saved)) if found else None

    def _best(self, operator: str, precision: str) -> float | None:
        found = [one for one in self._ratios if one.operator == operator and one.precision == precision]
        by_rows = sorted((one.rows, one.ratio) for one in found if one.rows)
        if by_rows and operator in self._rows:
            logs = np.log(by_rows)
            return float(np.exp(np.interp(math.log(self._rows[operator]), logs[:, 0], logs[:, 1])))
        return min((one.ratio for one in found), default=None)

    def _counted(self) -> work_job.Answer:
        """The work as it is on a sample; empty where it cannot be counted, or takes too long."""
        bench, prepared = self._bench, self._bench.prepared
        took_s = prepared.open_s + prepared.run_s
        if not self.measures or not self._work or took_s > _COUNTING_SHARE * bench.deadline.left:
            return work_job.Answer({})
        sample = prepared.timed[0]
        key = bench.keys.found("work", bench.original.digest, sample)
        request = work_job.Request(bench.original.model, bench.place, bench.reference.feeds, sample)
        try:
            return bench.runner.call(work_job.JOB, request, timeout_s=_MEASURING_S, key=key)
        except WorkerFailed:  # it is guessed then
            return work_job.Answer({})

    def _asked(self, key: str, *, timed: bool) -> kernels.Answer | None:
        """Asks the backend what it knows of machines like this one, and what it times here.

        Another run may have timed kernels while this one waited for its turn. They are kept before the turn ends:
        whoever waits for it finds them.
        """
        bench = self._bench
        try:
            with bench.turns.turn() if timed else nullcontext():
                if timed and (known := bench.store.read("steps", key, kernels.Answer)) is not None:
                    return known
                if timed:
                    bench.say("timing this machine's kernels, once")
                request = kernels.Request(bench.place, bench.store.models, timed=timed)
                answer = bench.runner.call(kernels.JOB, request, timeout_s=_MEASURING_S)
                if answer.measured and not _is_disturbed(answer.measured):
                    bench.store.write("steps", key, to_wire(answer))
                return answer
        except WorkerFailed:  # passes are guessed by their stage then
            return None


def _is_disturbed(ratios: Sequence[KernelRatio]) -> bool:
    return sum(one.spread > _DISTURBED for one in ratios) > len(ratios) / 2
