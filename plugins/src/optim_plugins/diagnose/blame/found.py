"""What a blame finds: parts of a model that are wrong, and the graph around them; reports hold it as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optim.errors import some_of


@dataclass(frozen=True, slots=True)
class Blamed:
    """A part of the other model that is wrong.

    Attributes:
        nodes: of the other model, in graph order; one, or those that the reference computes in another way.
        operators: theirs.
        reference_nodes: what computes the same in the reference.
        value: what they make, in the other model.
        reference_value: the same in the reference.
        given: values that they are given, in the other model.
        local: relative L2 of the value where the nodes are given the reference's values; None for an overflow.
        limit: what their precision explains.
        alone: drift of the model's outputs with this error alone in the reference; None: beyond all numbers.
        max_abs: of the value.
        ulp: largest distance in units in the last place.
        nearer: ``reference`` or ``other``, whichever is nearer to a float64 computation; empty where that is unknown.
        errors: relative L2 of the reference's and the other's value to that computation.
        precision: ``float``, ``half`` or ``int8``.
        problem: e.g. how many elements became infinite.
        path: names of nodes from here to an output.
        edges: of a histogram of the value.
        counts: of the reference and of the other in it.
        modules: of PyTorch that the nodes were exported from; empty if neither graph names any.
    """

    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    reference_nodes: tuple[str, ...]
    value: str
    reference_value: str
    given: tuple[str, ...]
    local: float | None
    limit: float
    alone: float | None
    max_abs: float
    ulp: float | None
    nearer: str
    errors: tuple[float, float] | None
    precision: str
    problem: str
    path: tuple[str, ...]
    edges: tuple[float, ...] = ()
    counts: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    modules: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its first node with its operator, and how many more there are."""
        return some_of([f"node {self.nodes[0]} ({self.operators[0]})", *self.nodes[1:]], 1)


@dataclass(frozen=True, slots=True)
class NearNode:
    """A node of the neighbourhood.

    Attributes:
        name: its own, else that of its first output.
        operator: with the domain, where that is not the standard one.
        reads: values that it reads, of those that other nodes here make and of the graph's inputs.
        makes: its outputs.
        blamed: whether it is marked.
        error: relative L2 of its worst output to the reference's; None where it is not known or beyond all numbers.
        lost: whether it is beyond all numbers.
    """

    name: str
    operator: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    blamed: bool
    error: float | None
    lost: bool


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Some nodes of a graph.

    Attributes:
        nodes: in graph order.
        inputs: of the graph, those that they read.
        outputs: of the graph, those that they make.
        left_out: how many nodes the graph has beside them, constants not counted.
    """

    nodes: tuple[NearNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    left_out: int


def finite(value: float | None) -> float | None:
    """The same; None where it is beyond all numbers, as JSON has no word for that."""
    return value if value is not None and math.isfinite(value) else None
