"""A model run with its runtime's own profiler: the time and work of each node, and the graph that the runtime made."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import onnx

from optim._engine.backends.held import HeldSession
from optim._engine.compare.place import Place
from optim._engine.jobs.start_up import timed_run
from optim.arrays import Feeds
from optim.backend import Session
from optim.errors import OptimError
from optim.laboratory import NodeTime, NodeTimes
from optim.model import Model, SessionConfig
from optim.onnx.backend import writing_optimized


def profile_of(
    place: Place,
    model: Model,
    run: Callable[[HeldSession], Collection[int]],
    share: float,
    weights: Mapping[str, list[int]],
) -> NodeTimes:
    """The times of nodes in a session of ONNX Runtime with its profiler on, and its optimizers as the user has them.

    ``run`` runs the session, and returns the numbers of the runs that do not count; for the others see
    :func:`read_timeline`.
    """
    with TemporaryDirectory(prefix="optim-profile-") as folder:
        asked = SessionConfig({"enable_profiling": True, "profile_file_prefix": str(Path(folder, "profile"))})
        with place.backend().open(_with(model, asked), place.target) as session:
            skipped = run(session)
        written = sorted(Path(folder).glob("profile*.json"))
        if not written:
            raise not_profiled(place)
        return read_timeline(written[0], skipped, share, weights)


def executed_graph(place: Place, model: Model) -> onnx.ModelProto | None:
    """The graph that the runtime makes of a model, without its weights; None where it writes none."""
    if place.backend().owner is not None:
        return None
    with TemporaryDirectory(prefix="optim-profile-") as text:
        graph, writing = writing_optimized(Path(text))
        try:
            with place.backend().open(_with(model, writing), place.target):
                return onnx.load(graph, load_external_data=False) if graph.is_file() else None
        except OptimError:  # a provider that compiles whole graphs cannot write theirs
            return None


def largest_weights(graph: onnx.ModelProto) -> dict[str, list[int]]:
    """Shape of the largest weight that each node reads, by the node's name."""
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.graph.initializer}
    found = {node.name: [shapes[name] for name in node.input if name in shapes] for node in graph.graph.node}
    return {name: max(known, key=math.prod) for name, known in found.items() if known}


def run_ms(session: Session, feeds: Feeds) -> float:
    """Milliseconds of one run."""
    return 1e3 * timed_run(session, feeds)


def not_profiled(place: Place) -> OptimError:
    return OptimError.usage(
        "not-profiled",
        f"nothing is profiled on target {place.target.name}",
        f"backend {place.target.backend} does not say how long nodes take",
        "profile on another target: optim targets",
    )


def _with(model: Model, settings: SessionConfig) -> Model:
    return replace(model, session=model.session.updated(settings))


_KERNEL = "_kernel_time"
_BYTES = {"float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1, "double": 8, "int64": 8, "uint64": 8}
_OTHER_BYTES = 4
_WITH_BODIES = ("If", "Loop", "Scan")
_PRODUCTS = ("MatMul", "Gemm")
_Shaped = Mapping[str, list[int]]
_Run = TypeVar("_Run")


def read_timeline(path: Path, skipped: Collection[int], share: float, weights: Mapping[str, list[int]]) -> NodeTimes:
    """Read the profile that a session wrote when it was closed; what it costs is not known, and not taken off.

    Args:
        path: of the JSON file.
        skipped: numbers of the runs that are left out, since they only warm up; the first is 0.
        share: of the others that counts, the fastest of them, at least one: what other programs slowed down does not.
        weights: shape of the largest weight of nodes, by name: the profile does not name those of packed weights.
    """
    events = json.loads(path.read_text(encoding="utf-8"))
    runs = [event for event in events if event["name"] == "model_run"]
    whole = fastest(
        [event for number, event in enumerate(runs) if number not in skipped], share, lambda one: float(one["dur"])
    )
    whole.sort(key=lambda event: event["ts"])
    starts = [event["ts"] for event in whole]

    def counts(event: dict[str, Any]) -> bool:
        place = bisect_right(starts, event["ts"]) - 1
        return place >= 0 and event["ts"] <= whole[place]["ts"] + whole[place]["dur"]

    kernels: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in _own_times([event for event in events if event["name"].endswith(_KERNEL) and counts(event)]):
        key = event["name"].removesuffix(_KERNEL), event["args"].get("op_name", "")
        kernels.setdefault(key, []).append(event)
    nodes = tuple(
        _node(name, operator, found, len(whole), weights.get(name, [])) for (name, operator), found in kernels.items()
    )
    inside = sum(event["dur"] for found in kernels.values() for event in found)
    total = sum(event["dur"] for event in whole)
    return NodeTimes(nodes, 0.0, total / len(whole) / 1e3, inside / max(1, total), 0.0, events)


def fastest(runs: Sequence[_Run], share: float, lasted: Callable[[_Run], float]) -> list[_Run]:
    """A share of some runs, those that lasted least; at least one."""
    return sorted(runs, key=lasted)[: max(1, round(share * len(runs)))]


def _own_times(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, that of a branch or a loop without what its body's nodes take: they have events of their own."""
    found: list[dict[str, Any]] = []
    around: list[dict[str, Any]] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        own = {**event, "end": event["ts"] + event["dur"], "records": 1}
        while around and around[-1]["end"] <= own["ts"]:
            around.pop()
        if around and around[-1]["args"].get("op_name") in _WITH_BODIES:
            around[-1]["dur"] = max(0, around[-1]["dur"] - event["dur"])
            around[-1]["records"] += 1
        around.append(own)
        found.append(own)
    return found


def _node(name: str, operator: str, events: list[dict[str, Any]], runs: int, weight: list[int]) -> NodeTime:
    """A node inside a loop has several events for a run: their sum counts."""
    times = max(1, round(len(events) / runs))
    arguments = events[-1]["args"]
    sides = [[entry for entry in arguments.get(f"{side}_type_shape", ()) if entry] for side in ("input", "output")]
    return NodeTime(
        name,
        operator,
        sum(event["dur"] for event in events) / runs / 1e3,
        times * _flops(operator, sides[0], sides[1], weight),
        times * sum(_bytes(entry) for side in sides for entry in side),
        times * max(0.0, float(arguments.get("mem_requested_in_use_delta", 0))),
        sum(event["records"] for event in events) / runs,
    )


def _flops(operator: str, given: list[_Shaped], made: list[_Shaped], weight: list[int]) -> float:
    """2 multiply-adds for each element of the output and each that is summed up, in whatever layout a kernel works."""
    inputs, outputs = ([shape for entry in side for shape in entry.values()] for side in (given, made))
    if not inputs or not outputs or not inputs[0]:
        return 0.0
    if "Conv" in operator:
        kernel = weight or max((shape for shape in inputs[1:] if len(shape) > 2), key=math.prod, default=[0, 0])
        return 2.0 * math.prod(outputs[0]) * math.prod(kernel[1:])
    if any(kind in operator for kind in _PRODUCTS):
        return 2.0 * math.prod(outputs[0]) * inputs[0][-1]
    return 0.0


def _bytes(entry: Mapping[str, list[int]]) -> float:
    return float(sum(_BYTES.get(kind, _OTHER_BYTES) * math.prod(shape) for kind, shape in entry.items()))
