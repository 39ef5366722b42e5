"""A graph opened up: what its values are, how large they are, and what a part of it makes of given values.

A graph that is cut at ``a`` and asked for ``a`` and ``y``::

    x -> A -> a -> B -> y        becomes        x -> A -> a      optim_given_a -> B -> y

Sessions here switch the runtime's own optimizations off, so that each value is there and is made by its own node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass, ShapeInferencePass

from optim import LabSetup
from optim.arrays import Array, Feeds
from optim.backend import Session
from optim.errors import OptimError
from optim.model import Model, SessionConfig
from optim.onnx import constant_values, discard_measured, save_for_measuring
from optim_plugins.diagnose.graphs.branches import bodies, branchings, open_branches

MOST_BYTES = 256 << 20
"""Of values in memory at a time, those of both models; with twice as many a 500 MB model would come close to 2 GB."""

MOST_ELEMENT_BYTES = 8
"""Of an element of a value."""

_MOST_HALF = float(np.finfo(np.float16).max)

_PLAIN = SessionConfig({"graph_optimization_level": "ORT_DISABLE_ALL"})
_SHAPE, _CONDITION = "optim_shape_", "optim_condition_"
_NO_TENSORS = ("Sequence", "Optional", "SplitToSequence", "StringSplit")

Change = Callable[[ir.Model], object]


@dataclass(frozen=True, slots=True)
class GraphPart:
    """What makes a value of given ones: nodes in graph order, and the given values that they read."""

    nodes: tuple[ir.Node, ...]
    given: tuple[str, ...]


class OpenGraph:
    """A model whose values can be looked at.

    Args:
        model: in the store.
        setup: where it is run.
        change: made to the graph before anything else.

    Attributes:
        graph: as it is looked at; not to be changed.
        values: the tensors of the main graph that depend on feeds, by name, in the order of its nodes.
        random: those of them that random operators have a part in.
        shapes: of every value, on each sample, once :meth:`measure` was called.
        dtypes: of every value that was seen.
        taken: the branches that stand in place of Ifs, as :meth:`branches` names them.
    """

    def __init__(self, model: Model, setup: LabSetup, change: Change = lambda graph: None) -> None:
        self.model = model
        self._setup, self._change = setup, change
        self.taken: dict[str, bool] = {}
        self.shapes: list[dict[str, tuple[int, ...]]] = []
        self.dtypes: dict[str, np.dtype[np.generic]] = {}
        self._look()

    def _look(self) -> None:
        self.graph = self.fresh()
        self._fixed = {value.name for value in constant_values(self.graph)}
        self.values: dict[str, ir.Value] = {}
        self.random: set[str] = set()
        typed = self._inferred()
        for node in self.graph.graph:
            by_chance = node.op_type.startswith(("Random", "Bernoulli", "Multinomial"))
            tainted = by_chance or any(value.name in self.random for value in read_by(node))
            for value in node.outputs:
                if value.name and value.name not in self._fixed and _is_tensor(value, typed):
                    self.values[value.name] = value
                    self.random |= {value.name} if tainted else set()
        self.inputs = {value.name: value for value in self.graph.graph.inputs if value.name}

    def branches(self, samples: Sequence[Feeds]) -> dict[str, bool]:
        """Which branch an If of the main graph takes, by its first output; those that take one on every sample."""
        nodes = branchings(self.graph)
        if not nodes:
            return {}
        names = [node.outputs[0].name or "" for node in nodes]
        with self.opened(lambda graph: _only_conditions(graph, names)) as session:
            found = [session.run(feeds) for feeds in samples]
        chosen = {name: {bool(np.all(one[_CONDITION + name])) for one in found} for name in names}
        return {name: verdicts.pop() for name, verdicts in chosen.items() if len(verdicts) == 1}

    def open_branches(self, taken: Mapping[str, bool]) -> None:
        """Look at the nodes of these branches in place of the Ifs, as :meth:`branches` names them."""
        self.taken.update(taken)
        self._look()

    def measure(self, samples: Sequence[Feeds]) -> None:
        """Find the shape of every value, by asking the runtime for shapes alone."""
        asking = self.opened(lambda graph: _only_shapes(graph, self.values)) if self.values else nullcontext()
        with asking as session:
            for feeds in samples:
                found = session.run(feeds) if session else {}
                self.shapes.append({name: tuple(map(int, found[_SHAPE + name])) for name in self.values})
                self.shapes[-1].update({name: array.shape for name, array in feeds.items()})
                self.dtypes.update((name, array.dtype) for name, array in feeds.items())

    def size(self, name: str) -> int:
        """Elements of a value on the largest sample."""
        return max(self.sizes(name))

    def sizes(self, name: str) -> tuple[int, ...]:
        """Elements of a value on each sample."""
        return tuple(math.prod(shapes.get(name, ())) for shapes in self.shapes)

    def dtype(self, value: ir.Value) -> str:
        """Name of a value's type: as it was seen, or as the graph says; empty where neither is known."""
        known = self.dtypes.get(value.name or "")
        return known.name if known is not None else value.dtype.numpy().name if value.dtype is not None else ""

    def part(self, value: str, cuts: Collection[str]) -> GraphPart:
        """The nodes that make a value of values at which the graph is cut, inputs and constants."""
        made = self.values[value].producer()
        nodes, given, waiting = set(), dict[str, None](), [made] if made else []
        while waiting:
            node = waiting.pop()
            if node in nodes:
                continue
            nodes.add(node)
            for read in read_by(node):
                producer = read.producer()
                if read.name in cuts or read.name in self.inputs:
                    given[read.name or ""] = None
                elif producer is not None and read.name in self.values:
                    waiting.append(producer)
        return GraphPart(tuple(node for node in self.graph.graph if node in nodes), tuple(given))

    def weights(self, part: GraphPart) -> list[ir.Value]:
        """What the nodes of a part read that no feed has a part in."""
        read = dict.fromkeys(value for node in part.nodes for value in read_by(node))
        return [value for value in read if value.name in self._fixed]

    @contextmanager
    def cut(
        self, outputs: Iterable[str], cuts: Collection[str] = (), change: Change | None = None
    ) -> Iterator[Session]:
        """A session that makes ``outputs``; values of ``cuts`` are read from inputs called :func:`given_name`.

        Args:
            outputs: names of values.
            cuts: values that nodes are given rather than what the graph makes.
            change: made to the graph last.
        """
        wanted = list(outputs)
        types = {name: ir.TensorType(ir.DataType.from_numpy(self.dtypes[name])) for name in cuts}
        with self.opened(lambda graph: _cut(graph, wanted, types, change)) as session:
            yield session

    @contextmanager
    def values_of(
        self, names: Iterable[str], cuts: Collection[str] = (), change: Change | None = None
    ) -> Iterator[Callable[[Feeds], dict[str, Array]]]:
        """A function that runs the model for some of its values, as :meth:`cut` opens it; their types are noted."""
        chosen = set(names)
        wanted = [name for name in self.values if name in chosen]
        if not wanted:
            yield lambda feeds: {}
            return
        with self.cut(wanted, cuts, change) as session:

            def run(feeds: Feeds) -> dict[str, Array]:
                found = {name: np.asarray(array) for name, array in session.run(feeds).items()}
                self.dtypes.update((name, array.dtype) for name, array in found.items())
                return found

            yield run

    def as_given(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Values as inputs of the graph that was cut there, each in the type that it has here.

        What overflows there becomes the largest number: the overflow is its maker's, and not its readers'.
        """
        return {given_name(name): _fitted(array, self.dtypes[name]) for name, array in values.items()}

    @contextmanager
    def opened(self, change: Change) -> Iterator[Session]:
        """A session of the graph after a change."""
        graph = self.fresh()
        change(graph)
        model = save_for_measuring(graph, self._setup.store, session=self.model.session.updated(_PLAIN))
        try:
            with self._setup.open_reference(model) as session:
                yield session
        except OptimError as error:
            raise error.naming({model.path.name: self.model.path.name}) from error
        finally:
            discard_measured(model)

    def fresh(self) -> ir.Model:
        """The graph, to change."""
        graph = self.model.ir()
        open_branches(graph, self.taken)
        self._change(graph)
        return graph

    def _inferred(self) -> dict[str, ir.TypeProtocol | None]:
        """Types that ONNX finds; what it does not know is taken for a tensor."""
        try:
            graph = ShapeInferencePass()(self.fresh()).model.graph
        except Exception:
            return {}
        return {value.name: value.type for node in graph for value in node.outputs if value.name}


def chunks(names: Iterable[str], bytes_of: Callable[[str], int]) -> Iterator[list[str]]:
    """Names in groups that take :data:`MOST_BYTES` together, in order; one that takes more is alone."""
    group: list[str] = []
    total = 0
    for name in names:
        size = bytes_of(name)
        if group and total + size > MOST_BYTES:
            yield group
            group, total = [], 0
        group.append(name)
        total += size
    if group:
        yield group


def read_by(node: ir.Node) -> list[ir.Value]:
    """What a node reads: its inputs, and what its branches or loop bodies read of the graph around them."""
    read = [value for value in node.inputs if value is not None]
    for inner in (one for body in bodies(node) for one in body.all_nodes()):
        read += [value for value in inner.inputs if value is not None and value.graph is node.graph]
    return read


def given_name(value: str) -> str:
    """The input that stands for a value in a graph that was cut there."""
    return f"optim_given_{value}"


def overflows_half(array: Array) -> bool:
    """Whether finite elements of an array are beyond float16."""
    return bool(np.any(np.isfinite(array) & (np.abs(array) > _MOST_HALF)))


def _fitted(array: Array, dtype: np.dtype[np.generic]) -> Array:
    if array.dtype == dtype:
        return array
    if dtype == np.float16:
        array = np.where(np.isfinite(array), np.clip(array, -_MOST_HALF, _MOST_HALF), array)
    return array.astype(dtype)


def _is_tensor(value: ir.Value, typed: Mapping[str, ir.TypeProtocol | None]) -> bool:
    kind = value.type or typed.get(value.name or "")
    node = value.producer()
    if kind is None:
        return node is not None and not node.op_type.startswith(_NO_TENSORS)
    return isinstance(kind, ir.TensorType) and kind.dtype != ir.DataType.STRING


def _only_shapes(graph: ir.Model, names: Collection[str]) -> None:
    made = [value for node in graph.graph for value in node.outputs if value.name in names]
    graph.graph.outputs.clear()
    for value in made:
        node = ir.node("Shape", [value])
        node.outputs[0].name = f"{_SHAPE}{value.name}"
        node.outputs[0].type = ir.TensorType(ir.DataType.INT64)
        graph.graph.append(node)
        graph.graph.outputs.append(node.outputs[0])


def _only_conditions(graph: ir.Model, names: Collection[str]) -> None:
    conditions = {node.outputs[0].name: node.inputs[0] for node in branchings(graph)}
    graph.graph.outputs.clear()
    for name in names:
        node = ir.node("Identity", [conditions[name]])
        node.outputs[0].name = f"{_CONDITION}{name}"
        node.outputs[0].type = ir.TensorType(ir.DataType.BOOL)
        graph.graph.append(node)
        graph.graph.outputs.append(node.outputs[0])
    RemoveUnusedNodesPass()(graph)


def _cut(graph: ir.Model, outputs: Sequence[str], cuts: Mapping[str, ir.TensorType], change: Change | None) -> None:
    main = graph.graph
    made = {value.name: value for node in main for value in node.outputs if value.name}
    main.outputs.clear()
    for name in (name for name in made if name in cuts):
        value = made[name]
        given = ir.Value(name=given_name(name), type=cuts[name])
        ir.convenience.replace_all_uses_with(value, given)
        main.inputs.append(given)
    main.outputs.extend(made[name] for name in outputs)
    if change is not None:
        change(graph)
    RemoveUnusedNodesPass()(graph)
    for value in [value for value in main.inputs if not value.uses() and not value.is_initializer()]:
        main.inputs.remove(value)
