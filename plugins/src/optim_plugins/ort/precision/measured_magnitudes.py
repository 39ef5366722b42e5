"""How large the numbers of a model get: measured on the samples, without holding its values in memory.

Every float32 value gets a reader, and only what that finds is an output of the run::

    v -> Where(IsInf(v), 0, Abs(v)) -> ReduceMax -> one number

Constants beyond the range of the narrow type are brought to its bound first, as the conversion does: a mask of -3e38
then gives what it will give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from optim.onnx import add_constant, discard_measured, plain_message, save_for_measuring
from optim_plugins.ort.graph.float_values import is_float32
from optim_plugins.ort.precision.operator_kinds import MOVES
from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow, bounded, fit

if TYPE_CHECKING:
    from optim import SessionConfig
    from optim.arrays import Array, Feeds

_MOST_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Ranges:
    """What the samples showed.

    Attributes:
        largest: greatest finite magnitude by value name; NaN where a value is NaN; masks are brought to the bound.
        masks: inputs with numbers beyond the range that are masks.
        samples: how many of them the model ran on.
        refused: what onnxruntime said of each sample that the model did not run on; only its inputs are in ``largest``.
    """

    largest: Mapping[str, float] = field(default_factory=dict)
    masks: frozenset[str] = frozenset()
    samples: int = 0
    refused: tuple[str, ...] = ()


def measure_ranges(
    graph: ir.Model, session: SessionConfig, narrow: Narrow, store: Path, samples: Iterable[Feeds]
) -> Ranges:
    """The greatest finite magnitude of each float32 value of the main graph and of its inputs.

    Args:
        graph: with types; changed in place.
        session: settings that it is opened with: some models do not run, or not rightly, without theirs.
        narrow: constants beyond its range are brought to its bound.
        store: where the graph's weights lie.
        samples: feeds of the graph; the first few that it runs on are used.

    Raises:
        OptimError[session-failed]: onnxruntime does not run it on the processor.
    """
    from optim.onnx import open_session

    _bound_constants(graph, narrow)
    readers = _add_readers(graph)
    moved = [
        (node.outputs[0].name or "", [v.name or "" for v in node.inputs if v is not None and is_float32(v)])
        for node in graph.graph
        if node.op_type in MOVES and is_float32(node.outputs[0])
    ]
    names = {value.name for value in graph.graph.inputs}
    model = save_for_measuring(graph, store)
    found: dict[str, float] = {}
    masks: set[str] = set()
    ran = 0
    refused: list[str] = []
    try:
        opened = open_session(model.path, session)
        for given in _first(samples, names):
            floats = {name: array for name, array in given.items() if _is_float32(array)}
            masks |= {name for name, array in floats.items() if _is_mask(array, narrow)}
            floats |= {name: bounded(array, narrow.bound) for name, array in floats.items() if name in masks}
            feeds = given | floats
            _take(found, {name: _largest(array) for name, array in floats.items()})
            try:
                outputs = opened.run(list(readers.values()), feeds)
            except Exception as error:  # onnxruntime's errors have no class in common
                refused.append(plain_message(" ".join(str(error).split())))
                continue
            _take(found, {name: float(value) for name, value in zip(readers, outputs, strict=True)})
            ran += 1
    finally:
        discard_measured(model)
    for name, sources in moved:
        _take(found, {name: max((found.get(source, 0.0) for source in sources), default=0.0)})
    return Ranges(found, frozenset(masks), ran, tuple(refused))


def _is_float32(array: object) -> bool:
    """Whether it is an array of that type; a sequence is a list of arrays."""
    return isinstance(array, np.ndarray) and array.dtype == np.float32


def _is_mask(array: Array, narrow: Narrow) -> bool:
    """Whether something lies beyond the range, and all of that only says "leave this out"."""
    found = fit(array.astype(np.float32), narrow)
    return found.symbolic > 0 and not found.beyond


def _largest(array: Array) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def _bound_constants(graph: ir.Model, narrow: Narrow) -> None:
    for part in graph.graphs():
        for value in part.initializers.values():
            tensor = value.const_value
            if tensor is None or tensor.dtype != ir.DataType.FLOAT:
                continue
            found = fit(tensor.numpy(), narrow)
            if found.symbolic and not found.beyond:
                value.const_value = ir.tensor(bounded(tensor.numpy(), narrow.bound), name=value.name)


def _add_readers(graph: ir.Model) -> dict[str, str]:
    """Outputs that tell the greatest magnitude, by the value they tell it of."""
    zero = add_constant(graph.graph, "optim_zero", np.float32(0))
    found: dict[str, str] = {}
    outputs = []
    for node in list(graph.graph):
        if node.op_type in MOVES:
            continue
        for value in node.outputs:
            if value.name and is_float32(value):
                nodes = _reader(value, zero)
                graph.graph.insert_after(node, nodes)
                outputs.append(nodes[-1].outputs[0])
                found[value.name] = outputs[-1].name = f"optim_largest_{len(outputs)}"
    graph.graph.outputs.clear()
    graph.graph.outputs.extend(outputs)
    return found


def _reader(value: ir.Value, zero: ir.Value) -> list[ir.Node]:
    size = ir.node("Abs", [value])
    infinite = ir.node("IsInf", [value])
    finite = ir.node("Where", [infinite.outputs[0], zero, size.outputs[0]])
    largest = ir.node("ReduceMax", [finite.outputs[0]], {"keepdims": 0})
    largest.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    return [size, infinite, finite, largest]


def _first(samples: Iterable[Feeds], names: set[str | None]) -> Iterator[dict[str, Any]]:
    for place, feeds in enumerate(samples):
        if place == _MOST_SAMPLES:
            return
        yield {name: array for name, array in feeds.items() if name in names}


def _take(found: dict[str, float], new: Mapping[str, float]) -> None:
    for name, value in new.items():
        found[name] = max(found.get(name, 0.0), value) if not np.isnan(value) else value
