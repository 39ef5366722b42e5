"""Job: times the kernels that a backend offers, in turns, each beside that of float32 on the same work."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from optim._engine.backends.held import HeldBackend
from optim._engine.compare.place import Place
from optim._engine.jobs.job import Job
from optim._engine.jobs.start_up import timed_run
from optim.arrays import Array, Feeds, dtype_of
from optim.backend import FLOAT32, KernelProbe, KernelRatio, Session
from optim.errors import OptimError
from optim.jobs.talk import Channel
from optim.model import Model, TensorInfo
from optim.onnx.files import describe_model

_ROUNDS = 7
"""Their quartiles are the spread: with three, one disturbed round makes it."""

_FEWEST_ROUNDS = 3

_SECONDS = 4.0
"""After which there are no more rounds than three: a machine that takes longer is busy with something else."""

_BURST_S, _MOST_RUNS = 4e-3, 50
"""Of one kernel in one round: 25 kernels take a second and a half."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked.

    Attributes:
        store: a folder beside which scratch files may lie.
        timed: whether they are timed; else the backend's tables are all that is asked for.
    """

    place: Place
    store: Path
    timed: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What was measured, and what stands for it where this machine is disturbed; both may be empty."""

    measured: tuple[KernelRatio, ...]
    known: tuple[KernelRatio, ...]


JOB = Job(__name__, Request, Answer, timed=True)


@dataclass(frozen=True, slots=True)
class _Open:
    probe: KernelProbe
    session: Session
    feeds: Feeds
    runs: int


def run(request: Request, channel: Channel) -> Answer:
    """Open all of them, then go round by round."""
    backend, target = request.place.backend(), request.place.target
    known = tuple(backend.known_kernels(target))
    if not request.timed:
        return Answer((), known)
    probes = backend.kernel_probes(target)
    request.store.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + _SECONDS
    with TemporaryDirectory(dir=request.store.parent, prefix="scratch-") as scratch, ExitStack() as stack:
        opened = [one for one in (_open(p, backend, request, Path(scratch), stack) for p in probes) if one is not None]
        times: dict[int, list[float]] = defaultdict(list)
        for done in range(_ROUNDS):
            if done >= _FEWEST_ROUNDS and time.monotonic() > end:
                break
            for place, one in enumerate(opened):
                times[place].append(float(np.median(one.session.time_runs(one.feeds, one.runs))))
    return Answer(tuple(_ratios([one.probe for one in opened], times)), known)


def _open(probe: KernelProbe, backend: HeldBackend, request: Request, folder: Path, stack: ExitStack) -> _Open | None:
    """The probe, warmed up; None where the runtime has no such kernel."""
    path = folder / f"{probe.operator}-{probe.precision}-{probe.shape}.onnx".replace(" ", "-")
    path.write_bytes(probe.model)
    model = describe_model(path, session=probe.session, digest=path.stem)
    feeds = _feeds(model)
    try:
        session = stack.enter_context(backend.open(model, request.place.target))
        session.run(feeds)
        run_s = timed_run(session, feeds)
    except OptimError:
        return None
    return _Open(probe, session, feeds, max(1, min(_MOST_RUNS, int(_BURST_S / max(run_s, 1e-9)))))


def _feeds(model: Model) -> Feeds:
    rng = np.random.default_rng(0)

    def values(info: TensorInfo) -> Array:
        shape = [size for size in info.shape or () if isinstance(size, int)]
        return rng.standard_normal(shape).astype(dtype_of(info.dtype))

    return {info.name: values(info) for info in model.inputs}


def _ratios(probes: Sequence[KernelProbe], times: dict[int, list[float]]) -> list[KernelRatio]:
    floats = {(one.operator, one.shape): times[place] for place, one in enumerate(probes) if one.precision == FLOAT32}
    found = []
    for place, probe in enumerate(probes):
        base = floats.get((probe.operator, probe.shape))
        if probe.precision == FLOAT32 or base is None:
            continue
        each = np.asarray(times[place]) / np.asarray(base)
        low, middle, high = (float(value) for value in np.percentile(each, [25, 50, 75]))
        spread = (high - low) / middle
        found.append(KernelRatio(probe.operator, probe.precision, probe.shape, middle, spread, probe.rows))
    return found
