"""What ONNX Runtime's own profile says of each node: its time, its work, and what it allocates."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from optim.laboratory import NodeTime

_KERNEL = "_kernel_time"
_BYTES = {"float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1, "double": 8, "int64": 8, "uint64": 8}
_OTHER_BYTES = 4
_WITH_BODIES = ("If", "Loop", "Scan")
_PRODUCTS = ("MatMul", "Gemm")
_Shaped = Mapping[str, list[int]]
_Run = TypeVar("_Run")


@dataclass(frozen=True, slots=True)
class Timeline:
    """A profile read.

    Attributes:
        nodes: in the order of the runtime.
        run_ms: of a run, the mean of those that count, as the runtime measured it around its nodes.
        share: of the runs' time that is in nodes, 0..1.
        events: as they were written, of Chrome's trace format.
    """

    nodes: tuple[NodeTime, ...]
    run_ms: float
    share: float
    events: list[dict[str, Any]]


def read_timeline(path: Path, skipped: Collection[int], share: float, weights: Mapping[str, list[int]]) -> Timeline:
    """Read the profile that a session wrote when it was closed.

    Args:
        path: of the JSON file.
        skipped: numbers of the runs that are left out, since they only warm up; the first is 0.
        share: of the others that counts, the fastest of them, at least one: what other programs slowed down does not.
        weights: shape of the largest weight of nodes, by name: the profile does not name those of packed weights.
    """
    events = json.loads(path.read_text(encoding="utf-8"))
    runs = [event for event in events if event["name"] == "model_run"]
    whole = fastest([event for number, event in enumerate(runs) if number not in skipped], share, _duration)
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
    return Timeline(nodes, total / len(whole) / 1e3, inside / max(1, total), events)


def fastest(runs: Sequence[_Run], share: float, lasted: Callable[[_Run], float]) -> list[_Run]:
    """A share of some runs, those that lasted least; at least one."""
    return sorted(runs, key=lasted)[: max(1, round(share * len(runs)))]


def _duration(event: dict[str, Any]) -> float:
    return float(event["dur"])


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
