"""What a pass does to each node, replayed: one application and one run for the errors of all nodes.

The error of a node is what the pass makes of it alone, given what it is given in the unchanged model. Added back into
the unchanged model, errors give the drift of any set of converted nodes for one run, without applying the pass or
opening a model again. To first order that is what converting them does; what the sum of many does to each other is left
out, so whoever decides measures in the end.

The model::

    x -> A -> a -> B -> b -> C -> y

Captured, to know what every node is given and gives::

    x -> A -> a -> B -> b -> C -> y          outputs a, b, y

Isolated: every node on its own, given what it was given before; a pass applied to this does to each node what it does
to it in the model, and one run gives the error of each::

    x -> A -> a      a' -> B -> b      b' -> C -> y

Injected: the model as it was, with an error added behind each node. Fed zeros it is the model itself; fed the error of
one node it does what the pass would do to this node alone::

    x -> A -> Add(ea) -> B -> Add(eb) -> C -> Add(ey) -> y

An input that depends on weights alone (a transposed weight, a constant) stays attached to its node.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim._engine.compare.place import compare_run, mapped_feeds, mapped_outputs
from optim._engine.gate.drift import worst_drift
from optim._engine.repair.costs import OwnError
from optim._engine.repair.pass_probe import PassProbe
from optim.arrays import Array, Feeds
from optim.drift import relative_distance
from optim.errors import describe_exception
from optim.jobs.resources import free_memory_bytes
from optim.onnx.edit import constant_values

MOST_BYTES = 1 << 30
"""Of intermediate values held in memory; a sample that needs more is not replayed.

A detector of text with 83 convolutions needs 0.88 GB for a picture of 736 x 992. With a fourth of this it was not
replayed, and measuring nodes by applying the pass took longer than a search has.
"""

_SHARE_OF_FREE = 0.25
"""Of the free memory, where that is less: the runtime has as much again while it runs."""


class NoReplay(Exception):  # noqa: N818 - a way that is closed, not an error
    """This pass cannot be replayed on this model; the message says why."""


@dataclass(frozen=True, slots=True)
class _Replayed:
    """One sample: its feeds as the model takes them, the original's, and what every value is off by."""

    sample: int
    feeds: Feeds
    original_feeds: Feeds
    errors: Mapping[str, Array]
    zeros: Mapping[str, Array]


class Replay:
    """A pass's nodes, replayed on a few samples; a context manager.

    Args:
        probe: the pass on a model.
        samples: of the run.
        finer: nodes that are replayed in the precision between too.

    Attributes:
        errors: by the name of the node, in graph order.
        runs: how often the model was run to measure a set.

    Raises:
        NoReplay: a graph of this kind cannot be made or run, or takes too much memory.
    """

    def __init__(self, probe: PassProbe, samples: Sequence[int], finer: Collection[str] = ()) -> None:
        self._probe = probe
        self._wanted = frozenset(finer)
        self._samples = samples
        self.errors: dict[str, OwnError] = {}
        self._made: dict[str, tuple[str, ...]] = {}
        self.runs = 0

    def __enter__(self) -> Self:
        try:
            with ExitStack() as opened:
                self._prepare(opened)
                self._open = opened.pop_all()
        except NoReplay:
            raise
        except Exception as error:  # a pass or a runtime that does not take such a graph
            raise NoReplay(describe_exception(error)) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def overflowing(self) -> list[str]:
        """Nodes that make NaN or infinity of what the unchanged model computes, in graph order."""
        return [name for name, error in self.errors.items() if not math.isfinite(error.relative)]

    def drift(self, converted: Collection[str]) -> float:
        """Drift from the original with the errors of these nodes added, the worst of the replayed samples."""
        chosen = {value for name in converted for value in self._made[name]}
        worst = 0.0
        asked = self._probe.request.comparison
        for one in self._replayed:
            added = {error_name(name): (one.errors if name in chosen else one.zeros)[name] for name in one.errors}
            outputs = self._session.run({**one.feeds, **added})
            fed, variations = one.original_feeds, self._variations
            found = compare_run(outputs, asked.reference, one.sample, fed, asked.interfaces, variations)
            worst = max(worst, worst_drift(found).relative_error)
            self.runs += 1
        return worst

    def _prepare(self, opened: ExitStack) -> None:
        probe = self._probe
        places = find_places(probe.request.model.ir(), probe.nodes)
        if not places:
            raise NoReplay("none of its nodes is in the main graph")
        self._made = {place.name: place.made for place in places}
        arrays = self._capture(places)
        outputs = self._replay(places, arrays)
        local = {place.name: _own_error(place, arrays, outputs) for place in places}
        made = {name for names in self._made.values() for name in names}
        self._replayed = [  # outputs go as their differences are known
            _difference(sample, values, got, made, probe)
            for sample, values, got in zip(self._samples, arrays, outputs, strict=True)
        ]
        finer = self._errors_between([place for place in places if place.name in self._wanted], places, arrays)
        self.errors = {
            name: replace(error, finer=finer[name] / error.relative)
            if math.isfinite(finer.get(name, math.inf)) and 0 < error.relative < math.inf
            else error
            for name, error in local.items()
        }
        arrays.clear()
        graph = probe.request.model.ir()
        injected(graph, self._replayed[0].errors)
        self._session = opened.enter_context(probe.opened(opened.enter_context(probe.written(graph))))
        self._variations = probe.request.comparison.reference.variations()

    def _errors_between(
        self, refined: Sequence[NodePlace], places: Sequence[NodePlace], arrays: Sequence[Mapping[str, Array]]
    ) -> dict[str, float]:
        """The errors of these nodes in the precision between, from another replay; none where that is not possible."""
        if not refined:
            return {}
        try:
            outputs = self._replay(places, arrays, frozenset(place.name for place in refined))
            return {place.name: _own_error(place, arrays, outputs).relative for place in refined}
        except Exception:  # a pass or a runtime that does not take it in such a graph
            return {}

    def _capture(self, places: Sequence[NodePlace]) -> list[dict[str, Array]]:
        """Every value that these nodes are given or make, on each sample."""
        probe = self._probe
        made = {name for place in places for name in place.made}
        wanted = made.union(*(place.given for place in places))
        times_made = 2 if self._wanted else 1
        most = min(MOST_BYTES, int(free_memory_bytes() * _SHARE_OF_FREE))
        graph = probe.request.model.ir()
        captured(graph, wanted)
        found = []
        with probe.written(graph) as model, probe.opened(model) as session:
            for sample in self._samples:
                feeds = probe.feeds(sample)
                values = {**feeds, **session.run(feeds)}
                found.append({name: array for name, array in values.items() if name in wanted})
                sizes = [(name in made, array.nbytes) for values in found for name, array in values.items()]
                needed = sum(size * (1 + times_made * is_made) for is_made, size in sizes)
                if needed > most:
                    raise NoReplay(f"its intermediate values take {needed / 1e9:.2g} GB of memory, too much")
        return found

    def _replay(
        self, places: Sequence[NodePlace], arrays: Sequence[Mapping[str, Array]], finer: Collection[str] = ()
    ) -> list[dict[str, Array]]:
        """What the pass makes of every node's outputs, on each sample."""
        probe = self._probe
        graph = probe.request.model.ir()
        floats = {name: array for name, array in arrays[0].items() if array.dtype.kind == "f"}
        givens = {name: array for place in places for name in place.given if (array := arrays[0].get(name)) is not None}
        isolated(graph, places, {**givens, **floats})
        samples = [{given_name(name): values[name] for name in givens} for values in arrays]
        with probe.written(graph) as model, probe.applied(model, (), lambda: samples, finer) as result:
            if not result.changed:
                raise NoReplay("; ".join(result.notes))
            interfaces = (result.interface,) if result.interface else ()
            with probe.opened(result.model) as session:
                return [
                    dict(mapped_outputs(session.run(mapped_feeds(feeds, interfaces)), interfaces)) for feeds in samples
                ]


def _own_error(
    place: NodePlace, arrays: Sequence[Mapping[str, Array]], outputs: Sequence[Mapping[str, Array]]
) -> OwnError:
    """How far a node's outputs are off, without its error in the precision between."""
    worst = work = 0.0
    for values, got in zip(arrays, outputs, strict=True):
        for name in place.made:
            if name in got and values[name].dtype.kind == "f":
                if values[name].shape != got[name].shape:
                    changed = f"{list(values[name].shape)} became {list(got[name].shape)}"
                    raise NoReplay(f"the pass changes a shape: {changed}")
                worst = max(worst, relative_distance(values[name], got[name]))
                work = max(work, place.work(values[name]))
    return OwnError(worst, place.kind, work=work)


def _difference(
    sample: int, values: Mapping[str, Array], got: dict[str, Array], made: Collection[str], probe: PassProbe
) -> _Replayed:
    """What every value is off by; nothing for one that overflows, whose node is left alone anyway.

    ``got`` is empty afterwards: its arrays and the differences together would take twice the memory.
    """
    zeros = _zeros_like({name: values[name] for name in got if name in made and values[name].dtype.kind == "f"})
    errors = {}
    for name in list(got):
        array = got.pop(name)
        if name not in zeros:
            continue
        with np.errstate(all="ignore"):
            error = np.subtract(np.asarray(array, values[name].dtype), values[name])
        errors[name] = error if np.isfinite(error).all() else zeros[name]
    original = probe.request.comparison.reference.feed_set().sample(sample)
    if not errors:
        raise NoReplay("none of its nodes makes floating-point numbers")
    return _Replayed(sample, probe.feeds(sample), original, errors, zeros)


def _zeros_like(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Zeros in the shape of each array, all in the memory of the largest."""
    sizes: dict[np.dtype[Any], int] = {}
    for array in arrays.values():
        sizes[array.dtype] = max(sizes.get(array.dtype, 0), array.size)
    memory = {dtype: np.zeros(size, dtype) for dtype, size in sizes.items()}
    return {name: memory[array.dtype][: array.size].reshape(array.shape) for name, array in arrays.items()}


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node by the names of its values, which outlive the graph object.

    Attributes:
        name: what ``keep`` calls it.
        operator: its type, with the domain where that is not the standard one.
        given: names of inputs that depend on the feeds.
        made: names of its outputs.
        weight: shape of the largest weight that it reads; empty without one.
    """

    name: str
    operator: str
    given: tuple[str, ...]
    made: tuple[str, ...]
    weight: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """Nodes of one operator whose weights have one shape are of one kind, e.g. ``MatMul 384x1536``."""
        return f"{self.operator} {'x'.join(map(str, self.weight))}"

    def work(self, output: Array) -> float:
        """How much it computes, about, in multiplications: each element of the output times what a weight adds up."""
        if len(self.weight) < 2:
            return float(output.size)
        columns = output.shape[1] if self.operator.startswith("Conv") and output.ndim > 1 else output.shape[-1]
        multiplied: float = max(1.0, math.prod(self.weight) / max(1, columns))
        return multiplied * output.size


def find_places(graph: ir.Model, names: Collection[str]) -> list[NodePlace]:
    """The nodes of the main graph that have these names, in its order.

    A node is called by its name, or by that of its first output; one inside a branch or a loop body has no place.
    """
    wanted = set(names)
    fixed = constant_values(graph)
    found: list[NodePlace] = []
    for node in graph.graph:
        own = [name for name in (node.name, node.outputs[0].name if node.outputs else "") if name in wanted]
        if own:
            wanted.discard(own[0] or "")
            found.append(_place(node, own[0] or "", fixed))
    return found


def captured(graph: ir.Model, names: Collection[str]) -> None:
    """Make these values outputs of the graph, beside those that it has."""
    there = {value.name for value in graph.graph.outputs}
    for node in graph.graph:
        graph.graph.outputs.extend(v for v in node.outputs if v.name in names and v.name not in there)


def isolated(graph: ir.Model, places: Sequence[NodePlace], arrays: Mapping[str, Array]) -> None:
    """Cut a graph into its nodes, in place; a value ``v`` that a node is given becomes the input ``given_name(v)``."""
    made = {name for place in places for name in place.made if name in arrays}
    fixed = constant_values(graph)
    kept = [node for node in graph.graph if any(value.name in made for value in node.outputs)]
    inputs: dict[str, ir.Value] = {}
    for node in kept:
        for place, value in enumerate(node.inputs):
            if value is None or value in fixed or value.name is None:
                continue
            if value.name not in inputs:
                inputs[value.name] = _like(given_name(value.name), arrays[value.name], value.shape)
            node.replace_input_with(place, inputs[value.name])
    outputs = [value for node in kept for value in node.outputs if value.name in made]
    for value in outputs:
        value.type = ir.TensorType(ir.DataType.from_numpy(arrays[value.name or ""].dtype))
    graph.graph.outputs.clear()
    graph.graph.outputs.extend(outputs)
    weights = [value for value in graph.graph.inputs if value.is_initializer()]
    graph.graph.inputs.clear()
    graph.graph.inputs.extend([*inputs.values(), *weights])
    RemoveUnusedNodesPass()(graph)


def injected(graph: ir.Model, arrays: Mapping[str, Array]) -> None:
    """Add an input :func:`error_name` ``(v)`` to each of these values, wherever it is read or given out."""
    for node in list(graph.graph):
        for value in node.outputs:
            name = value.name
            if name is None or name not in arrays:
                continue
            error = _like(error_name(name), arrays[name], value.shape)
            graph.graph.inputs.append(error)
            sum_node = ir.node("Add", [value, error], name=f"{error.name}_added")
            total = sum_node.outputs[0]
            total.type, total.shape = error.type, value.shape
            graph.graph.insert_after(node, sum_node)
            ir.convenience.replace_all_uses_with(value, total, replace_graph_outputs=True)
            sum_node.replace_input_with(0, value)
            value.name, total.name = f"{name}_before_error", name


def given_name(value: str) -> str:
    """The input that stands for a value in an isolated graph."""
    return f"optim_given_{value}"


def error_name(value: str) -> str:
    """The input that is added to a value in an injected graph."""
    return f"optim_error_{value}"


def _place(node: ir.Node, name: str, fixed: set[ir.Value]) -> NodePlace:
    given = tuple(dict.fromkeys(v.name for v in node.inputs if v is not None and v not in fixed and v.name))
    weights = [shape for value in node.inputs if value is not None and (shape := _weight_shape(value))]
    largest = max(weights, key=lambda shape: math.prod(shape), default=())
    operator = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}:{node.op_type}"
    made = tuple(value.name for value in node.outputs if value.name)
    return NodePlace(name, operator, given, made, largest)


def _weight_shape(value: ir.Value) -> tuple[int, ...] | None:
    """Returns the shape of an initializer, also of one that is only transposed or cast on the way."""
    producer = value.producer()
    if producer is not None and producer.op_type in ("Transpose", "Cast", "DequantizeLinear") and producer.inputs[0]:
        inner = _weight_shape(producer.inputs[0])
        return inner[::-1] if inner and producer.op_type == "Transpose" else inner
    tensor = value.const_value if value.is_initializer() else None
    return tuple(int(size) for size in tensor.shape.numpy()) if tensor is not None else None


def _like(name: str, array: Array, shape: ir.Shape | None) -> ir.Value:
    """An input of this type; of the known shape where it has the rank of the array."""
    fits = shape is not None and len(shape) == array.ndim
    sizes = shape if fits else ir.Shape([None] * array.ndim)
    return ir.Value(name=name, shape=sizes, type=ir.TensorType(ir.DataType.from_numpy(array.dtype)))
