"""Finds the steps of an LSTM that an exporter wrote out, and which follows which.

One step, as exporters write torch's LSTMCell; W and R are the same weights in every step::

    z = x W^T + b_w + h' R^T + b_r          Gemm, or MatMul and Add, in any order
    i, f, g, o = Split(z)                   four parts of one size, in any order
    c = Sigmoid(f) * c' + Sigmoid(i) * Tanh(g)
    h = Sigmoid(o) * Tanh(c)

Which part is which is told by what reads it: so steps of Keras (``i, f, g, o``) and of others are found too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.onnx import read_constant
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import producer

_KNOWN = {"Gemm": ("alpha", "beta", "transA", "transB")}
_PARTS = 4


@dataclass(frozen=True, slots=True)
class Product:
    """``value @ weight + bias``.

    Attributes:
        node: a Gemm or a MatMul.
        weight: the constant as the graph has it.
        is_transposed: whether it is [M, K], not [K, M].
        bias: constants of M numbers.
    """

    node: ir.Node
    weight: ir.Value
    is_transposed: bool
    bias: tuple[ir.Value, ...] = ()

    @property
    def value(self) -> ir.Value:
        """What is multiplied now, [N, K]."""
        value = self.node.inputs[0]
        assert value is not None
        return value

    def has_weight_of(self, other: Product) -> bool:
        """Whether both compute the same of their values."""
        same = self.is_transposed == other.is_transposed and _are_equal(self.weight, other.weight)
        pairs = zip(self.bias, other.bias, strict=False)
        return same and len(self.bias) == len(other.bias) and all(_are_equal(one, another) for one, another in pairs)

    def matrix(self) -> NDArray[np.float32]:
        """The weight as [M, K]."""
        found: NDArray[np.float32] = read_constant(self.weight)
        return found if self.is_transposed else found.T

    def total_bias(self) -> NDArray[np.float32]:
        """All that is added, [M]."""
        zero = np.zeros(len(self.matrix()), np.float32)
        return sum((np.asarray(read_constant(one)).reshape(-1) for one in self.bias), zero)


@dataclass(frozen=True, slots=True)
class LstmStep:
    """One step of an LSTM.

    Attributes:
        products: of the input and of the state before; which is which shows in how steps follow each other.
        bias: added to both.
        places: which part of the products is the input gate, the output gate, the forget gate, the cell: ONNX's order.
        cell_before: [N, H].
        cell: [N, H].
        state: [N, H], what the step gives.
        end: the node that makes it.
        own: the nodes that alone may read the cell within the step.
    """

    products: tuple[Product, Product]
    bias: tuple[ir.Value, ...]
    places: tuple[int, int, int, int]
    cell_before: ir.Value
    cell: ir.Value
    state: ir.Value
    end: ir.Node
    own: tuple[ir.Node, ...]

    def with_state_first(self, state: ir.Value) -> tuple[Product, Product] | None:
        """The product of the state before and that of the input; None where the state is not multiplied."""
        one, other = self.products
        if one.value is state:
            return one, other
        return (other, one) if other.value is state else None


def find_steps(graph: ir.Graph) -> list[LstmStep]:
    """All of them, in the graph's order."""
    found = (_step(node) for node in graph if node.op_type == "Mul" and node.domain in ("", "ai.onnx"))
    return [step for step in found if step is not None]


def find_chains(steps: Sequence[LstmStep]) -> Iterator[list[LstmStep]]:
    """Steps that follow each other with the same weights; each belongs to one chain.

    A chain may begin with the state and cell that another one with other weights ends with, as a decoder behind its
    encoder.
    """
    by_cell: dict[ir.Value, list[LstmStep]] = {}
    for step in steps:
        by_cell.setdefault(step.cell_before, []).append(step)
    follows = {step.end: _next(step, by_cell.get(step.cell, [])) for step in steps}
    later = {step.end for step in follows.values() if step is not None}
    begins = [step for step in steps if step.end not in later]
    while begins:
        chain = [begins.pop(0)]
        while (following := follows[chain[-1].end]) is not None:
            if len(chain) > 1 and not _has_weights_of(chain[-2:], following):
                begins.insert(0, following)
                break
            chain.append(following)
        yield chain


def _next(step: LstmStep, candidates: list[LstmStep]) -> LstmStep | None:
    """The one step that reads cell and state of another, where nobody else reads the cell."""
    following = [other for other in candidates if other.with_state_first(step.state) is not None]
    if len(following) != 1 or step.cell.is_graph_output():
        return None
    readers = {use.node for use in step.cell.uses()}
    allowed = {*step.own, *following[0].own}
    same = step.places == following[0].places and _are_all_equal(step.bias, following[0].bias)
    return following[0] if same and readers <= allowed else None


def _has_weights_of(before: list[LstmStep], step: LstmStep) -> bool:
    """Whether a step multiplies as the one before it, which follows another."""
    one, other = before[1].with_state_first(before[0].state), step.with_state_first(before[1].state)
    assert one is not None
    assert other is not None
    return one[0].has_weight_of(other[0]) and one[1].has_weight_of(other[1])


def _step(end: ir.Node) -> LstmStep | None:
    """The step that ends in ``Sigmoid(o) * Tanh(c)``."""
    for gate, squashed in _either_way(end):
        tanh, sigmoid = producer(squashed, "Tanh"), producer(gate, "Sigmoid")
        total = producer(tanh.inputs[0], "Add") if tanh is not None else None
        split = _split_of(sigmoid)
        if tanh is None or sigmoid is None or total is None or split is None:
            continue
        for kept, added in _either_way(total):
            parts, forgotten = _gated(added, split), _forgotten(kept, split)
            terms = _terms(split.inputs[0])
            if parts is None or forgotten is None or terms is None:
                continue
            forget, cell_before, reader = forgotten
            places = (parts[0], _place(sigmoid, split), forget, parts[1])
            nodes = (end, *(product.node for product in terms[0]))
            if len(set(places)) == _PARTS and are_known(nodes, _KNOWN):
                own = (tanh, reader)
                return LstmStep(*terms, places, cell_before, total.outputs[0], end.outputs[0], end, own)
    return None


def _gated(value: ir.Value | None, split: ir.Node) -> tuple[int, int] | None:
    """The places of ``Sigmoid(i) * Tanh(g)``."""
    product = producer(value, "Mul")
    for gate, squashed in _either_way(product):
        sigmoid, tanh = producer(gate, "Sigmoid"), producer(squashed, "Tanh")
        if sigmoid is not None and tanh is not None and _split_of(sigmoid) is split and _split_of(tanh) is split:
            return _place(sigmoid, split), _place(tanh, split)
    return None


def _forgotten(value: ir.Value | None, split: ir.Node) -> tuple[int, ir.Value, ir.Node] | None:
    """The place of the gate in ``Sigmoid(f) * c'``, the cell before, and the product."""
    product = producer(value, "Mul")
    for gate, cell in _either_way(product):
        sigmoid = producer(gate, "Sigmoid")
        if product is not None and sigmoid is not None and cell is not None and _split_of(sigmoid) is split:
            return _place(sigmoid, split), cell, product
    return None


def _split_of(node: ir.Node | None) -> ir.Node | None:
    """The Split whose part a node reads: into four of one size, along the last of two axes."""
    split = producer(node.inputs[0], "Split") if node is not None else None
    if split is None or len(split.outputs) != _PARTS or split.attributes.get_int("axis", 0) not in (1, -1):
        return None
    sizes = read_constant(split.inputs[1], at_most=_PARTS) if len(split.inputs) > 1 else None
    if sizes is None and len(split.inputs) > 1 and split.inputs[1] is not None:
        return None
    if sizes is None and (listed := split.attributes.get_ints("split")) is not None:
        sizes = np.array(listed)
    return split if sizes is None or len(set(sizes.tolist())) == 1 else None


def _place(node: ir.Node, split: ir.Node) -> int:
    return next(place for place, part in enumerate(split.outputs) if part is node.inputs[0])


def _terms(value: ir.Value | None) -> tuple[tuple[Product, Product], tuple[ir.Value, ...]] | None:
    """The two products of a sum, and the constants beside them."""
    products: list[Product] = []
    bias: list[ir.Value] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        node = producer(one, "Add", "Gemm", "MatMul")
        if one is not None and _length(one) is not None:
            bias.append(one)
        elif node is None:
            return None
        elif node.op_type == "Add":
            waiting += [node.inputs[1], node.inputs[0]]
        elif (product := _product(node)) is not None:
            products.append(product)
        else:
            return None
    if len(products) != 2 or len({len(one.matrix()) for one in products}) != 1:
        return None
    size = len(products[0].matrix())
    fits = size % _PARTS == 0 and all(_length(one) == size for one in (*bias, *products[0].bias, *products[1].bias))
    return ((products[0], products[1]), tuple(bias)) if fits else None


def _product(node: ir.Node) -> Product | None:
    """A Gemm or MatMul with a constant weight of float32."""
    value, weight, *bias = node.inputs
    constant = read_constant(weight)
    if value is None or weight is None or constant is None or constant.ndim != 2 or constant.dtype != np.float32:
        return None
    if node.op_type == "MatMul":
        return Product(node, weight, False) if value.shape is not None and len(value.shape) == 2 else None
    scaled = any(node.attributes.get_float(name, 1.0) != 1.0 for name in ("alpha", "beta"))
    known = tuple(one for one in bias if one is not None)
    if scaled or node.attributes.get_int("transA", 0) != 0 or any(_length(one) is None for one in known):
        return None
    return Product(node, weight, bool(node.attributes.get_int("transB", 0)), known)


def _length(value: ir.Value) -> int | None:
    """Of a constant vector of float32, which may have leading axes of 1."""
    constant = read_constant(value)
    fits = constant is not None and constant.ndim > 0 and constant.dtype == np.float32
    return int(constant.size) if fits and constant.size == constant.shape[-1] and constant.ndim <= 2 else None


def _either_way(node: ir.Node | None) -> tuple[tuple[ir.Value | None, ir.Value | None], ...]:
    """The operands of a sum or product in both orders."""
    return ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])) if node is not None else ()


def _are_all_equal(ones: Sequence[ir.Value], others: Sequence[ir.Value]) -> bool:
    return len(ones) == len(others) and all(map(_are_equal, ones, others))


def _are_equal(one: ir.Value, other: ir.Value) -> bool:
    return one is other or np.array_equal(read_constant(one), read_constant(other))
