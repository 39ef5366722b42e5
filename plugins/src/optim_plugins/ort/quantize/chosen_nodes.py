"""Which nodes that a quantization reaches stay in float: what options ``keep``, ``only`` and ``operators`` say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from optim_plugins.ort.graph.products import Product


class HasChosenNodes(Protocol):
    """Options that name nodes."""

    @property
    def keep(self) -> tuple[str, ...]:
        """Names of nodes that stay in float."""

    @property
    def only(self) -> tuple[str, ...]:
        """Names of nodes to quantize; empty: all."""

    @property
    def operators(self) -> tuple[str, ...]:
        """Operators to quantize; empty: all."""


@dataclass(frozen=True, slots=True)
class ChosenNodes:
    """Nodes to quantize.

    Attributes:
        keep: names of nodes that stay in float.
        only: names of nodes to quantize; empty: all.
        operators: to quantize; empty: all.
    """

    keep: Collection[str] = ()
    only: Collection[str] = ()
    operators: Collection[str] = ()

    @classmethod
    def of(cls, options: HasChosenNodes) -> ChosenNodes:
        """What options say."""
        return cls(options.keep, options.only, options.operators)

    def takes(self, name: str, operator: str) -> bool:
        """Whether a node is quantized."""
        is_named = name in self.only or not self.only
        return is_named and name not in self.keep and (operator in self.operators or not self.operators)

    def left_out(self, operators: Mapping[str, str]) -> frozenset[str]:
        """Names of the nodes that stay in float, of the operators of nodes by name."""
        return frozenset(name for name, operator in operators.items() if not self.takes(name, operator))

    def notes(self, names: Collection[str], further: Iterable[str] = ()) -> list[str]:
        """What to say of names that no node has; ``further`` are those of other options, which are reported as keep."""
        unknown = {"keep": sorted({*self.keep, *further} - {*names}), "only": sorted({*self.only} - {*names})}
        return [f"{option} names no quantizable node: {', '.join(left)}" for option, left in unknown.items() if left]


def operator_of(product: Product) -> str:
    """What ``operators`` calls a product: a FusedMatMul is a MatMul whose weight is read transposed."""
    return "Gemm" if product.node.op_type == "Gemm" else "MatMul"
