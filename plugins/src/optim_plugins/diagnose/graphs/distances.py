"""Numbers held against numbers: how far apart, in which units, and which side is nearer to the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim.arrays import Array, Feeds, is_float
from optim.drift import compare_outputs, relative_distance
from optim_plugins.diagnose.graphs.cutting import GraphPart, OpenGraph

_MOST_WEIGHT_BYTES = 128 << 20
"""Of a part that is computed in float64 by ONNX's reference, which holds all of it in memory, twice as large."""

_BINS = 24


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a value inside a model is from the reference's.

    This is no drift: see :func:`optim.drift.relative_distance`.

    Attributes:
        relative_l2: over what is finite in the reference; infinite where NaN or infinity appeared. The share of
            elements that differ, where both are integers.
        max_abs: in the value's unit, where both are finite.
        ulp: largest distance in units in the last place of the coarser type; None for integers.
        problem: what cannot be expressed in numbers.
    """

    relative_l2: float
    max_abs: float
    ulp: float | None
    problem: str = ""


def distance(reference: Array, other: Array) -> Distance:
    """Two values of the same tensor; of other shapes they are held against each other sorted: a layout is no error."""
    if reference.size != other.size:
        shapes = f"shape {list(reference.shape)} became {list(other.shape)}"
        return Distance(math.inf, math.inf, None, shapes)
    a, b = np.asarray(reference).astype(np.float64), np.asarray(other).astype(np.float64)
    if a.shape != b.shape:
        a, b = np.sort(a, axis=None), np.sort(b, axis=None)
    known = np.isfinite(a)
    lost = known & ~np.isfinite(b)
    both = known & np.isfinite(b)
    gap = np.abs(a[both] - b[both])
    largest = float(gap.max(initial=0.0))
    ulp = None
    if is_float(reference.dtype) and gap.size:
        coarse = other.dtype if other.dtype.itemsize <= reference.dtype.itemsize else reference.dtype
        if coarse in (np.float16, np.float32, np.float64):
            info: Any = np.finfo(coarse)
            largest_of_both = np.maximum(np.abs(a[both]), np.abs(b[both]))
            # A process that flushes denormals has np.spacing(0) == 0; exponents stay right.
            exponent = np.maximum(np.frexp(largest_of_both)[1] - 1, int(info.minexp))
            with np.errstate(over="ignore"):
                steps = np.ldexp(gap, int(info.nmant) - exponent)
            steps = steps[largest_of_both <= float(info.max)]  # of what is beyond the coarser type there is none
            ulp = float(steps.max(initial=0.0))
    if count := int(lost.sum()):
        kind = "NaN" if np.isnan(b[lost]).all() else "infinite"
        return Distance(math.inf, largest, ulp, f"{count} of {a.size} elements became {kind}")
    if reference.dtype == bool or (reference.dtype.kind in "iu" and other.dtype.kind in "iu"):
        return Distance(float(np.mean(a[both] != b[both])) if a[both].size else 0.0, largest, ulp)
    return Distance(relative_distance(a[both], b[both]), largest, ulp)


def worst_drift(name: str, samples: Sequence[tuple[Array, Array]]) -> float:
    """Drift of an output of the whole model, as the gate counts it; the worst of some samples.

    Another float type, and another layout of the same numbers, are no error here.

    Args:
        name: of the output.
        samples: its value in the reference, and in the other model.
    """
    alike = (_alike(np.asarray(ours), np.asarray(theirs)) for ours, theirs in samples)
    (found,) = compare_outputs(({name: ours}, {name: theirs}) for ours, theirs in alike)
    return found.relative_error


def _alike(ours: Array, theirs: Array) -> tuple[Array, Array]:
    if ours.size == theirs.size and ours.shape != theirs.shape:
        ours, theirs = np.sort(ours, axis=None), np.sort(theirs, axis=None)
    if ours.dtype.kind not in "SUO":
        with np.errstate(over="ignore", invalid="ignore"):  # the comparison finds what the cast loses
            theirs = theirs.astype(ours.dtype)
    return ours, theirs


def float64_of(graph: OpenGraph, part: GraphPart, value: str, given: Feeds) -> Array | None:
    """What a part makes of given values in float64, by ONNX's reference; None where that cannot compute it.

    Args:
        graph: whose part it is.
        part: the nodes.
        value: what they make.
        given: by name.
    """
    if sum(weight.const_value.nbytes for weight in graph.weights(part) if weight.const_value) > _MOST_WEIGHT_BYTES:
        return None
    try:
        proto = _in_float64(graph, part, value)
        wide = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in given.items()}
        from onnx.reference import ReferenceEvaluator

        names = {entry.name for entry in proto.graph.input}
        outputs: Any = ReferenceEvaluator(proto).run(None, {n: array for n, array in wide.items() if n in names})
        found = np.asarray(outputs[0])
    except Exception:
        return None
    return found if found.dtype == np.float64 else None


def histogram(reference: Array, other: Array) -> tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]:
    """Edges and counts of both, over what is finite."""
    a, b = (np.asarray(array, np.float64).ravel() for array in (reference, other))
    finite = np.concatenate([a[np.isfinite(a)], b[np.isfinite(b)]])
    if not finite.size:
        return (), (), ()
    edges = np.histogram_bin_edges(finite, _BINS)
    counts = [tuple(map(int, np.histogram(array[np.isfinite(array)], edges)[0])) for array in (a, b)]
    return tuple(map(float, edges)), counts[0], counts[1]


def _in_float64(graph: OpenGraph, part: GraphPart, value: str) -> onnx.ModelProto:
    """The nodes of a part as a model of their own, every float32 and float16 in it a float64."""
    fresh = graph.fresh()
    main = fresh.graph
    made = {one.name: one for node in main for one in node.outputs if one.name}
    main.outputs.clear()
    for name in part.given:
        if name in made:
            entry = ir.Value(name=f"{name}_given")
            ir.convenience.replace_all_uses_with(made[name], entry)
            made[name].name, entry.name = f"{name}_before", name
            main.inputs.append(entry)
    main.outputs.append(made[value])
    RemoveUnusedNodesPass()(fresh)
    for entry in main.inputs:
        entry.type, entry.shape = ir.TensorType(ir.DataType.DOUBLE), None
    for initial in main.initializers.values():
        if initial.const_value is not None and initial.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
            initial.const_value = ir.tensor(initial.const_value.numpy().astype(np.float64), name=initial.name)
            initial.type = ir.TensorType(ir.DataType.DOUBLE)
    for node in main.all_nodes():
        to = node.attributes.get("to")
        if node.op_type == "Cast" and to is not None and to.as_int() in (1, 10):
            node.attributes["to"] = ir.AttrInt64("to", int(ir.DataType.DOUBLE))
        for one in node.outputs:
            one.type = one.shape = None
    return ir.serde.serialize_model(fresh)
