"""Which weights are rounded to blocks of few bits, and how each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import onnx_ir as ir

from optim_plugins.ort.graph.products import Product, find_products
from optim_plugins.ort.quantize.chosen_nodes import ChosenNodes, operator_of
from optim_plugins.ort.quantize.weights.block_weights import Grid
from optim_plugins.ort.quantize.weights.embeddings import Embedding, find_embeddings
from optim_plugins.ort.quantize.weights.seen_inputs import PART

if TYPE_CHECKING:
    from optim_plugins.ort.quantize.weights.quantize_weights_options import QuantizeWeightsOptions

FINER_BITS = 8
"""Between fewer bits and floats."""

LEAST_ELEMENTS = 4096
"""Smaller weights gain nothing."""

_GROUP_BYTES = 512 << 20
"""Of the sums that gptq needs for the weights it works on together; each group runs the samples once more."""

_MOST_BY_GPTQ = 32_000_000
"""Weights of products that a search rounds by gptq, some 20 s on two cores; more would take most of its time."""

_DOWN = 2
"""So many times as many inputs as outputs; 2.7 to 4 in transformers, up to 1.5 in their other products."""

_VALUES = 2
"""Place of values among the inputs of an attention."""

_ATTENTIONS = ("GroupQueryAttention", "MultiHeadAttention")
_MOVES = ("Identity", "Reshape", "Transpose")

Method: TypeAlias = Literal["rtn", "k-quant", "scale-estimation", "hqq", "gptq"]
Place: TypeAlias = Product | Embedding


@dataclass(frozen=True, slots=True)
class Rounding:
    """How a weight is rounded.

    Attributes:
        grid: to what.
        method: as the option has it.
        accuracy_level: of ``MatMulNBits``.
    """

    grid: Grid
    method: str
    accuracy_level: int

    @property
    def by_samples(self) -> bool:
        """Whether it asks what products are given."""
        return self.method in ("scale-estimation", "gptq")


def find_places(graph: ir.Model, *, tables: bool = True) -> list[Place]:
    """Products and look-ups with a large constant weight, in the graph's order."""
    places: list[Place] = list(find_products(graph, LEAST_ELEMENTS))
    if tables:
        places += find_embeddings(graph, LEAST_ELEMENTS)
    order = {node: number for number, node in enumerate(graph.graph.all_nodes())}
    return sorted(places, key=lambda place: order[place.node])


def share_of_weights(graph: ir.Model) -> float:
    """How much of all float32 weights products and look-ups hold, 0..1."""
    own = {place.weight if isinstance(place, Product) else place.table for place in find_places(graph)}
    values = {value for part in graph.graphs() for value in part.initializers.values()}
    tensors = {value: value.const_value for value in values if value.dtype == ir.DataType.FLOAT}
    sizes = {value: tensor.size for value, tensor in tensors.items() if tensor is not None}
    return sum(sizes.get(value, 0) for value in own) / max(1, sum(sizes.values()))


def method_for(graph: ir.Model, *, samples_given: bool) -> Method:
    """How a search rounds to few bits; what is made up does not show what inputs are like."""
    if not samples_given:
        return "k-quant"
    weights = {one.weight for one in find_places(graph, tables=False) if isinstance(one, Product)}
    count = sum(weight.const_value.size for weight in weights if weight.const_value is not None)
    return "gptq" if count <= _MOST_BY_GPTQ else "scale-estimation"


def names_that_err_most(graph: ir.Model) -> tuple[str, ...]:
    """Heads, whose errors nothing evens out, and products that add up many inputs: a layer's way down."""
    outputs = set(graph.graph.outputs)
    products = [place for place in find_places(graph, tables=False) if isinstance(place, Product)]
    return tuple(one.name for one in products if one.last.outputs[0] in outputs or one.rows >= _DOWN * one.columns)


def names_around_attention(graph: ir.Model) -> tuple[str, ...]:
    """Products that make what attentions average, where they take it apart from queries, and the first one behind one.

    These errors go into the sum of all layers as they are; those of queries and keys only shift who is attended to.
    And in the first layer that sum is still small. Where heads share values these are few weights: of a Llama of 200
    million random weights, in 4 bits in blocks of 128, drift is .45; with 8 bits for values .38 (2 % of the weights),
    with the first product behind an attention, too, .33 (2.5 %). With ways down (21 %) it is .42, with the head .44.
    """
    products = [one for one in find_places(graph, tables=False) if isinstance(one, Product)]
    made = {one.last.outputs[0]: one.name for one in products}
    attentions = [node for node in graph.graph.all_nodes() if node.op_type in _ATTENTIONS]
    values = [_unmoved(node.inputs[_VALUES]) for node in attentions if len(node.inputs) > _VALUES]
    found = [made[one] for one in values if one in made]
    behind = [one.name for one in products if found and _unmoved(one.a) is attentions[0].outputs[0]]
    return tuple(dict.fromkeys([*found, *behind]))


def _unmoved(value: ir.Value | None) -> ir.Value | None:
    """The value before it was given another shape."""
    while value is not None and (maker := value.producer()) is not None and maker.op_type in _MOVES:
        value = maker.inputs[0]
    return value


def rounding_of(place: Place, options: QuantizeWeightsOptions) -> Rounding | None:
    """How its weight is rounded; None where it stays float."""
    bits: int = options.bits if isinstance(place, Product) else options.embedding_bits
    operator = operator_of(place) if isinstance(place, Product) else "Gather"
    if not bits or not ChosenNodes.of(options).takes(place.name, operator):
        return None
    bits = FINER_BITS if place.name in options.finer else bits
    method = "rtn" if bits == FINER_BITS else options.method
    if isinstance(place, Embedding) and method != "rtn":
        method = "k-quant"
    # With 8 bits zero points gain nothing, and without them a table and the head tied to it can share their bytes.
    grid = Grid(bits, options.block_size, options.symmetric or bits == FINER_BITS)
    return Rounding(grid, method, options.accuracy_level)


def gptq_groups(work: Sequence[tuple[Place, Rounding]]) -> Iterator[list[tuple[Place, Rounding]]]:
    """All of the work at once; where gptq must hold large sums of squares, as much at a time as memory allows."""
    group: list[tuple[Place, Rounding]] = []
    held: dict[ir.Value, int] = {}
    for place, rounding in work:
        if isinstance(place, Product) and rounding.method == "gptq":
            held.setdefault(place.a, 4 * place.rows * min(place.rows, PART))
        if group and sum(held.values()) > _GROUP_BYTES:
            yield group
            group, held = [], {}
        group.append((place, rounding))
    if group:
        yield group
