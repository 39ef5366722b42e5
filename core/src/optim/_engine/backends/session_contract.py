"""What a session says, held to what its model and its target say: outputs by name, and where nodes ran."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from optim.arrays import Feeds, dtype_of
from optim.backend import Session
from optim.model import TensorInfo
from optim.providers.names import CPU
from optim.target import Target

_CLOCK_STEP_S = 1e-3
"""Clocks of browsers and devices go in steps, of a tenth of this or so."""

_CLOCK_SHARE = 0.5
"""The least share of a run's wall time, without the way there and back, that the device's own clock must say: with less
than half, the clock leaves out work that the run waits for, such as copies beside the kernels."""

_MORE_RUNS, _LEAST_TRIES, _MOST_TRIES, _TRIES_S = 4, 3, 40, 1.0
"""Runs in a row beside one run, and pairs of both, that tell what the way to a device takes from what each run takes.
Short ones, and many: on a busy machine some of those are not disturbed."""

_SUM = 0.01
"""Shares are of whole nodes, as floats: they sum to 1 within a per cent."""


def outputs_defect(outputs: Any, declared: Iterable[TensorInfo], *, shapes: bool = True) -> str:
    """Why what a run returned is not what the model says, or nothing; with ``shapes``, fixed sizes must be met too."""
    infos = {info.name: info for info in declared}
    if not isinstance(outputs, Mapping):
        return f"a run returned {_kind(outputs)}, not outputs by name"
    if set(outputs) != set(infos):
        return f"a run returned {_names(outputs)}, and the model has {_names(infos)}"
    for name, info in infos.items():
        array = outputs[name]
        if not info.is_tensor:
            continue
        if not isinstance(array, np.ndarray):
            return f"output '{name}' is {_kind(array)}, not a numpy array"
        if array.dtype.kind not in "SUO" and _is_other(array.dtype, info.dtype):
            return f"output '{name}' is {array.dtype}, and the model says {info.dtype}"
        if shapes and not _fits(array.shape, info):
            return f"output '{name}' has shape {list(array.shape)}, and the model says {list(info.shape or ())}"
    return ""


_MOST_BYTES = 1 << 30
"""Shape inference copies the graph; weights beside it do not count."""


def inferred_outputs(path: Path) -> tuple[TensorInfo, ...]:
    """The outputs with the shapes that onnx infers from the operators alone; None for what it cannot tell.

    Exporters write shapes that are wrong, and ONNX Runtime runs such models with a warning.
    """
    import onnx
    from google.protobuf.message import DecodeError

    if path.stat().st_size > _MOST_BYTES:
        return ()
    model = onnx.load(path, load_external_data=False)
    declared = tuple(TensorInfo.of(value) for value in model.graph.output)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        found = onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, DecodeError, ValueError):
        return tuple(replace(info, shape=None) for info in declared)
    return tuple(TensorInfo.of(value) for value in found.graph.output)


def executed_defect(shares: Any) -> str:
    """Why what a session says of where nodes ran is no answer, or nothing; where they ran is another question."""
    if not isinstance(shares, Mapping) or not shares:
        return f"executed_on is {_kind(shares) if shares else 'empty'}, not the share of nodes by provider"
    for name, share in shares.items():
        if not isinstance(name, str) or not isinstance(share, int | float) or not 0 <= share <= 1:
            return f"executed_on says {name!r}: {share!r}, not a share between 0 and 1"
    if not math.isclose(sum(shares.values()), 1.0, abs_tol=_SUM):
        return f"the shares of executed_on sum to {sum(shares.values()):.3g}, not to 1"
    return ""


def ran_elsewhere(shares: Mapping[str, float], target: Target) -> str:
    """Where else than on the target nodes ran, though nobody admitted that; nothing where they did not."""
    own = {target.runs_on, *target.also}
    admitted = own | ({CPU} if target.shapes_on_cpu and any(shares.get(name) for name in own) else set())
    if target.fallback or sum(shares.get(name, 0.0) for name in admitted) >= 1 - _SUM:
        return ""
    others = (f"{share:.1%} on {name}" for name, share in shares.items() if name not in own and share)
    share = sum(shares.get(name, 0.0) for name in own)
    return f"{share:.1%} of its nodes ran on {' and '.join((target.runs_on, *target.also))}, {', '.join(others)}"


def times_defect(times: Any, count: int) -> str:
    """Why what a session measured is no time, or nothing."""
    if not isinstance(times, list) or len(times) != count:
        return f"time_runs returned {_kind(times)} of {len(times) if isinstance(times, list) else 0}, not {count} times"
    if not all(isinstance(one, int | float) and math.isfinite(one) and one > 0 for one in times):
        return f"time_runs returned {times[:3]}, not seconds above 0"
    return ""


def is_beyond(said_s: float, passed_s: float) -> bool:
    """Whether a device's clock says more of some runs than the time that passed."""
    return said_s > 1.01 * passed_s + _CLOCK_STEP_S


def is_other_clock(said_s: float, passed_s: float, share_s: float) -> bool:
    """Whether what a device's clock says of some runs may not be of the time that passed, and is worth a look.

    Args:
        said_s: by the device's clock.
        passed_s: by the wall's, in these runs.
        share_s: their share of the time of all runs, untimed ones too: those wait for the work that a device still has.
    """
    return said_s < _CLOCK_SHARE * max(passed_s, share_s) or is_beyond(said_s, passed_s)


def clock_doubt(session: Session, feeds: Feeds) -> tuple[float, float] | None:
    """Seconds of a run by the device's clock and by the wall's, if they contradict each other; else nothing.

    The way to a device and back takes no longer for more runs in a row, so no difference of two bursts has it. A burst
    ends with a plain run: it waits for the work of a device that says a time before it has done it. What else the
    machine does only adds to a burst, so the shortest ones count.
    """

    def burst(runs: int) -> tuple[float, float, float]:
        started = time.perf_counter()
        said_s = sum(session.time_runs(feeds, runs))
        passed_s = time.perf_counter() - started
        session.run(feeds)
        return said_s, passed_s, time.perf_counter() - started

    few: list[tuple[float, float, float]] = []
    more: list[tuple[float, float, float]] = []
    end = time.perf_counter() + _TRIES_S
    while len(few) < _LEAST_TRIES or (len(few) < _MOST_TRIES and time.perf_counter() < end):
        few.append(burst(1))
        more.append(burst(_MORE_RUNS))
    said_s = min(said for said, _, _ in more)
    if all(is_beyond(said, passed) for said, passed, _ in more):
        return said_s / _MORE_RUNS, min(passed for _, passed, _ in more) / _MORE_RUNS
    passed_s = (min(whole for *_, whole in more) - min(whole for *_, whole in few)) / (_MORE_RUNS - 1)
    return (said_s / _MORE_RUNS, passed_s) if said_s < _CLOCK_SHARE * _MORE_RUNS * passed_s else None


def _is_other(found: np.dtype[Any], declared: str) -> bool:
    try:
        wanted = dtype_of(declared)
    except (TypeError, AttributeError):
        return False
    return bool(wanted.isbuiltin == 1 and found != wanted)  # what numpy has no type for comes in various guises


def _fits(shape: tuple[int, ...], info: TensorInfo) -> bool:
    if info.shape is None:
        return True
    sizes = zip(shape, info.shape, strict=False)
    return len(shape) == len(info.shape) and all(not isinstance(said, int) or size == said for size, said in sizes)


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _names(values: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, values))) or "nothing"
