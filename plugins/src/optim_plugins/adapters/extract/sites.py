"""Where a graph adds what an adapter computes to what the base layer computes.

    LoRA   y = base + s * (x A) B
    DoRA   y = base + (g - 1) * (base - bias) + g * s * (x A) B,   g = m / |W + s B A| by rows
    LoHa   y = base + x D,   D = s * (w1_a w1_b * w2_a w2_b)'

All three are one form, which is what is extracted::

    y = base + (x down) up + gain * (base - bias)

The gain is of DoRA alone, and 0 without an adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim import OptimError
from optim_plugins.adapters.extract.constants import PRODUCTS, constant_value, depends_on_inputs, matrix_of
from optim_plugins.adapters.extract.provenance import PeftPart, part_of_node, part_of_parameter
from optim_plugins.adapters.extract.scopes import FOLDED, parts_by_name
from optim_plugins.adapters.form import Factors, khatri_rao

_PASSED = frozenset(("Cast", "Identity", "Dropout", "Reshape"))
"""Operators between the parts of an adapter that leave its numbers alone."""

_LORA = ("lora_A", "lora_B", "lora_magnitude_vector")
_LOHA = ("hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b")


@dataclass(frozen=True, slots=True)
class Site:
    """One place where an adapter is added.

    Attributes:
        module: as the exported model calls it.
        adapter: its name.
        data: what goes in.
        base: what the base layer makes of it.
        unbiased: the same less its bias; None where there is no gain.
        sum: the node whose output is the module's.
        factors: what is added, as exported.
    """

    module: str
    adapter: str
    data: ir.Value
    base: ir.Value
    unbiased: ir.Value | None
    sum: ir.Node
    factors: Factors


def find_parts(graph: ir.Model) -> dict[PeftPart, ir.Value | ir.Node]:
    """Every part of an adapter in a graph, with its weight, or the node that computes it where the name is gone."""
    found: dict[PeftPart, ir.Value | ir.Node] = {}
    for part in graph.graphs():
        for name, value in part.initializers.items():
            known = part_of_parameter(name)
            if known is not None and value.uses():
                found[known] = value
    for node in graph.graph.all_nodes():
        known = part_of_node(node) if node.op_type in (*PRODUCTS, "Conv") else None
        if known is not None:
            found.setdefault(known, node)
    for node, known in _nodes_by_name(graph, found).items():
        found.setdefault(known, node)
    return found


def _nodes_by_name(graph: ir.Model, known: Mapping[PeftPart, ir.Value | ir.Node]) -> dict[ir.Node, PeftPart]:
    """Nodes with weights of adapters that nothing tells but the names of nodes.

    Args:
        graph: to look at.
        known: parts by other signs; nodes that they tell are left out.
    """
    depends: dict[ir.Value, bool] = {}
    named = {one for one in known.values() if isinstance(one, ir.Value)}
    nodes = [
        node
        for node in graph.graph
        if any(depends_on_inputs(one, depends) for one in node.inputs)
        and not _constants_behind(node.inputs, depends) & named
        and part_of_node(node) is None
    ]
    return parts_by_name(graph, nodes)


def _constants_behind(values: Sequence[ir.Value | None], depends: dict[ir.Value, bool]) -> set[ir.Value]:
    """What values are computed from, where they do not change with what a run is fed."""
    todo, seen = [one for one in values if one is not None], set[ir.Value]()
    while todo:
        one = todo.pop()
        if one in seen or depends_on_inputs(one, depends):
            continue
        seen.add(one)
        producer = one.producer()
        todo += [given for given in producer.inputs if given is not None] if producer is not None else []
    return seen


def find_sites(graph: ir.Model) -> list[Site]:
    """Every place where an adapter is added, in graph order.

    Raises:
        OptimError[adapter-not-extractable]: some part of an adapter is in the graph in a way that is not known; if
            nothing were said, it would stay in the base model for good.
    """
    finder = _Finder(graph)
    sites = [site for node in graph.graph for site in finder.sites_at(node)]
    served = {(site.module, site.adapter) for site in sites}
    for part in finder.parts:
        if (part.module, part.adapter) not in served:
            raise _not_extractable(f"{part.module}.{part.part}", _why_not(part))
    adapters = sorted({site.adapter for site in sites})
    if len(adapters) > 1:
        raise _not_extractable(" and ".join(adapters), "several adapters are active at once: export with one of them")
    return sites


def require_none_left(graph: ir.Model) -> None:
    """Refuse a graph that still computes with weights of an adapter after all sites were written anew.

    Raises:
        OptimError[adapter-not-extractable]: one of several places where a layer is applied is of another form.
    """
    for part in find_parts(graph):
        raise _not_extractable(f"{part.module}.{part.part}", _why_not(part))


def _not_extractable(what: str, cause: str) -> OptimError:
    """The refusal of a part that would stay in the base model."""
    return OptimError(
        "adapter-not-extractable",
        f"the adapter at {what} cannot be taken out of the graph",
        cause,
        "export with --without torch.merge-lora, from float weights, and extract before anything else; or merge it: "
        "leave adapters.extract out",
    )


def _why_not(part: PeftPart) -> str:
    if part.part.startswith("lora_embedding"):
        return "it adapts an embedding, and only linear layers are known"
    if part.part == FOLDED:
        return "its weights were folded with others, so that they cannot be told apart"
    if part.part not in (*_LORA, *_LOHA):
        return f"{part.part} is of another method than LoRA, DoRA and LoHa"
    return "its nodes are not those of a linear layer: it adapts a convolution, or was folded or fused later"


class _Finder:
    """Looks at one graph."""

    def __init__(self, graph: ir.Model) -> None:
        self.graph = graph
        self.parts = find_parts(graph)
        self._named = _nodes_by_name(graph, self.parts)
        self._depends: dict[ir.Value, bool] = {}
        self._weights: dict[ir.Value, PeftPart] = {
            value: part for part, value in self.parts.items() if isinstance(value, ir.Value)
        }

    def sites_at(self, node: ir.Node) -> list[Site]:
        """The site whose last product of matrices a node is, if it is one."""
        if node.op_type not in PRODUCTS or not self._is_data(node.inputs[0]):
            return []
        part = self._part_at(node)
        if part is not None and part.part == "lora_B":
            site = self._lora(node, part)
        elif part is not None and part.part in _LOHA:
            site = self._loha(node, part)
        else:
            return []
        return [site] if site is not None else []

    def _lora(self, up: ir.Node, part: PeftPart) -> Site | None:
        down = self._behind(up.inputs[0])
        if down is None or down.op_type not in PRODUCTS:
            return None
        below = self._part_at(down)
        if below is None or below.part != "lora_A" or below.module != part.module or not self._is_data(down.inputs[0]):
            return None
        chain = self._to_sum(up.outputs[0])
        if chain is None or _has_bias(up) or _has_bias(down):
            return None
        data, first, second = down.inputs[0], matrix_of(self.graph, down), matrix_of(self.graph, up)
        assert data is not None
        if not self._is_scaled(chain.other):
            scale = chain.scale
            return Site(
                part.module, part.adapter, data, chain.other, None, chain.sum, Factors(first, _scaled(second, scale))
            )
        return self._dora(part, data, first, second, chain)

    def _is_scaled(self, value: ir.Value) -> bool:
        """Whether a value is something times a constant, as what DoRA adds of the base is; a base layer's is not."""
        node = value.producer()
        return node is not None and node.op_type == "Mul" and not all(self._is_data(one) for one in node.inputs)

    def _dora(self, part: PeftPart, data: ir.Value, down: NDArray[Any], up: NDArray[Any], chain: _Chain) -> Site | None:
        """The sum so far is of what is added; the next one adds it to the base."""
        whole = self._to_sum(chain.sum.outputs[0])
        gained = chain.other.producer()
        if whole is None or gained is None or gained.op_type != "Mul" or whole.factor is not None:
            return None
        gain_at = next((index for index, one in enumerate(gained.inputs) if not self._is_data(one)), None)
        if gain_at is None:
            return None
        less_one, unbiased = gained.inputs[gain_at], gained.inputs[1 - gain_at]
        assert less_one is not None and unbiased is not None
        gain = constant_value(self.graph, less_one).reshape(-1)
        return Site(
            part.module,
            part.adapter,
            data,
            whole.other,
            unbiased,
            whole.sum,
            Factors(down, _scaled(up, chain.scale), gain),
        )

    def _loha(self, product: ir.Node, part: PeftPart) -> Site | None:
        named = [self.parts.get(PeftPart(part.module, name, part.adapter)) for name in _LOHA]
        chain = self._to_sum(product.outputs[0])
        if chain is None or _has_bias(product) or any(not isinstance(one, ir.Value) for one in named):
            return None
        w1_a, w1_b, w2_a, w2_b = (constant_value(self.graph, one) for one in named if isinstance(one, ir.Value))
        if w1_a.ndim != 2 or w1_b.ndim != 2:
            return None
        down, up = khatri_rao(w1_a, w1_b, w2_a, w2_b)
        whole = matrix_of(self.graph, product)
        made = down @ up
        scale = float((whole * made).sum() / (made * made).sum()) if made.any() else 1.0
        data = product.inputs[0]
        assert data is not None
        factors = Factors(down, _scaled(up, scale) if chain.factor is None else _scaled(up * scale, chain.scale))
        return Site(part.module, part.adapter, data, chain.other, None, chain.sum, factors)

    def _part_at(self, node: ir.Node) -> PeftPart | None:
        """Which part of an adapter a product multiplies with: by its weight's name, else as its node says."""
        named = (
            self._weights[one] for one in _constants_behind(node.inputs[1:], self._depends) if one in self._weights
        )
        return next(named, None) or part_of_node(node) or self._named.get(node)

    def _is_data(self, value: ir.Value | None) -> bool:
        return depends_on_inputs(value, self._depends)

    def _behind(self, value: ir.Value | None) -> ir.Node | None:
        """The node that made a value, past those that leave it alone."""
        node = value.producer() if value is not None else None
        while node is not None and node.op_type in _PASSED and node.inputs[0] is not None:
            node = node.inputs[0].producer()
        return node

    def _to_sum(self, value: ir.Value) -> _Chain | None:
        """From a value to the Add that takes it in, past constant factors."""
        factor: NDArray[Any] | None = None
        while (node := _only_use(value)) is not None:
            if node.op_type == "Add":
                other = node.inputs[1] if node.inputs[0] is value else node.inputs[0]
                return _Chain(node, other, factor) if other is not None and self._is_data(other) else None
            if node.op_type == "Mul":
                other = node.inputs[1] if node.inputs[0] is value else node.inputs[0]
                if other is None or self._is_data(other):
                    return None
                found = constant_value(self.graph, other)
                factor = found if factor is None else factor * found
            elif node.op_type not in _PASSED or self._is_data(node.inputs[1] if len(node.inputs) > 1 else None):
                return None
            value = node.outputs[0]
        return None


@dataclass(frozen=True, slots=True)
class _Chain:
    """The way to a sum.

    Attributes:
        sum: the Add.
        other: what else it adds.
        factor: of all multiplications on the way; None where there is none.
    """

    sum: ir.Node
    other: ir.Value
    factor: NDArray[Any] | None

    @property
    def scale(self) -> NDArray[Any] | float:
        """The factor, one number or one for each output."""
        return 1.0 if self.factor is None else self.factor.reshape(-1)


def _scaled(up: NDArray[Any], scale: NDArray[Any] | float) -> NDArray[Any]:
    """The matrix with its scale in it, in its own type; the product is made in float64."""
    return (up.astype(np.float64) * np.asarray(scale, np.float64)).astype(up.dtype)


def _has_bias(product: ir.Node) -> bool:
    return product.op_type == "Gemm" and len(product.inputs) > 2 and product.inputs[2] is not None


def _only_use(value: ir.Value) -> ir.Node | None:
    uses = list(value.uses())
    return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None
