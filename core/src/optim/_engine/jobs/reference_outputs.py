"""The original's outputs on the samples of a run, as far as there is time for them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from optim._engine.backends.held import HeldBackend
from optim._engine.compare.place import Place, Reference, chosen, spread_of
from optim._engine.compare.unseen import write_unseen
from optim._engine.feeds.feedset import FeedSet, FeedWriter
from optim._engine.gate.outputs import elements
from optim.arrays import Feeds, Outputs
from optim.backend import Session
from optim.jobs.doing import doing
from optim.jobs.talk import Channel
from optim.model import Model

_SAY_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of the original that took long: whoever needs its outputs does not run it once more."""

    feeds: Feeds
    outputs: Outputs
    seconds: float

    def is_on(self, feeds: Feeds) -> bool:
        """Whether it was a run on just these feeds."""
        same = self.feeds.keys() == feeds.keys()
        return same and all(np.array_equal(array, feeds[name]) for name, array in self.feeds.items())


@dataclass(frozen=True, slots=True)
class WantedOutputs:
    """Samples to run.

    Attributes:
        within_s: seconds for that; None: no bound.
        known: runs on the target that were made already.
    """

    samples: tuple[int, ...]
    folder: Path
    within_s: float | None
    known: Sequence[Ran] = ()


def write_reference(
    model: Model,
    place: Place,
    backend: HeldBackend,
    session: Session,
    feeds: FeedSet,
    wanted: WantedOutputs,
    channel: Channel,
) -> tuple[tuple[int, ...], float]:
    """Keep the outputs that count as right, on as many samples as there is time for.

    Returns:
        The samples, and the mean duration of a run on the target, in seconds.
    """
    if not backend.has_reference:
        return _write_outputs(session, model, feeds, wanted, channel)
    with backend.open_reference(model, place.target) as trusted:
        compared, _ = _write_outputs(trusted, model, feeds, replace(wanted, known=()), channel)
    arrays = feeds.sample(compared[0])
    with doing(feeds.name_of(compared[0])):
        started = time.perf_counter()
        session.run(arrays)
        return compared, time.perf_counter() - started


def _write_outputs(
    session: Session, model: Model, feeds: FeedSet, wanted: WantedOutputs, channel: Channel
) -> tuple[tuple[int, ...], float]:
    began = said = time.perf_counter()
    total, done, compared = 0.0, 0, wanted.samples
    with FeedWriter(wanted.folder) as writer:
        while done < len(compared):
            for _, arrays in chosen(feeds, compared[done : done + 1]):
                run = next((run for run in wanted.known if run.is_on(arrays)), None) or run_once(session, arrays)
                total += run.seconds
                writer.add(elements(run.outputs))
            done += 1
            if done == 1 and wanted.within_s is not None:
                compared = spread_of(wanted.samples, max(1, int(wanted.within_s / max(total, 1e-9))))
            if wanted.within_s is not None and time.perf_counter() - began > wanted.within_s:
                compared = compared[:done]
            if time.perf_counter() - said > _SAY_EVERY_S:
                said = time.perf_counter()
                channel.event("progress", text=f"running the original on sample {done} of {len(compared)}")
        writer.finish("the original's outputs", ())
    run_s, left_s = total / max(1, len(compared)), math.inf
    if wanted.within_s is not None:
        left_s = wanted.within_s - (time.perf_counter() - began)
    write_unseen(session, Reference(feeds.folder, wanted.folder, model, compared), run_s, left_s)
    return compared, run_s


def run_once(session: Session, feeds: Feeds) -> Ran:
    """Run the original once."""
    started = time.perf_counter()
    outputs = session.run(feeds)
    return Ran(feeds, outputs, time.perf_counter() - started)
