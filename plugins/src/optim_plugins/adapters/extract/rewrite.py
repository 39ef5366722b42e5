"""Adapters of a graph as inputs, in one form, and the graph without them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim import AdapterInput, TensorInfo
from optim.onnx.adapter_inputs import name_adapter_inputs
from optim.onnx.edit import UniqueNames
from optim_plugins.adapters.extract.sites import Site
from optim_plugins.adapters.form import DOWN, GAIN, UP, input_name, padded


@dataclass(frozen=True, slots=True)
class Extracted:
    """What was taken out.

    Attributes:
        inputs: of the graph from now on.
        arrays: the adapter that the model was exported with, by input.
    """

    inputs: tuple[AdapterInput, ...]
    arrays: dict[str, NDArray[Any]]


def without_adapters(graph: ir.Model, sites: Sequence[Site]) -> None:
    """Leave out what every site adds; ``graph`` is changed in place."""
    names = UniqueNames(graph)
    for site in sites:
        _put_in_place(site.sum.outputs[0], site.base, names)
    RemoveUnusedNodesPass()(graph)


def adapters_as_inputs(graph: ir.Model, sites: Sequence[Site], *, required: bool, rank: int | None) -> Extracted:
    """Write every site anew, with inputs in place of the adapter's weights.

    Args:
        graph: changed in place.
        sites: of it.
        required: the inputs have no default.
        rank: of every adapter to come; None: any, also another for each module.
    """
    writer = _Writer(graph, required=required, rank=rank)
    for site in sites:
        writer.write(site)
    RemoveUnusedNodesPass()(graph)
    inputs = tuple(writer.inputs.values())
    name_adapter_inputs(graph, inputs)
    return Extracted(inputs, writer.arrays)


class _Writer:
    def __init__(self, graph: ir.Model, *, required: bool, rank: int | None) -> None:
        self._graph = graph.graph
        self._required = required
        self._rank = rank
        self._names = UniqueNames(graph)
        self._values: dict[str, ir.Value] = {}
        self.inputs: dict[str, AdapterInput] = {}
        self.arrays: dict[str, NDArray[Any]] = {}

    def write(self, site: Site) -> None:
        """The module's output as base, product and gain."""
        factors, module = site.factors, site.module
        dtype = ir.DataType.from_numpy(factors.down.dtype)
        symbol = f"rank_{re.sub(r'[^0-9A-Za-z]', '_', module)}" if self._rank is None else self._rank
        down = self._input(module, DOWN, factors.down, (factors.down.shape[0], symbol))
        up = self._input(module, UP, factors.up, (symbol, factors.up.shape[1]))
        low = self._node("MatMul", module, site.data, down, before=site.sum, dtype=dtype)
        added = self._node("MatMul", module, low, up, before=site.sum, dtype=dtype)
        result = self._add(site.base, added, site, dtype)
        if factors.gain is not None and site.unbiased is not None:
            gain = self._input(module, GAIN, factors.gain, (factors.gain.shape[0],))
            scaled = self._node("Mul", module, site.unbiased, gain, before=site.sum, dtype=dtype)
            result = self._add(result, scaled, site, dtype)
        old = site.sum.outputs[0]
        result.shape, result.type = old.shape, old.type
        _put_in_place(old, result, self._names)
        self._graph.remove(site.sum, safe=True)

    def _add(self, base: ir.Value, added: ir.Value, site: Site, dtype: ir.DataType) -> ir.Value:
        if base.dtype is not None and base.dtype != dtype:
            cast = ir.node(
                "Cast", [added], attributes={"to": base.dtype.value}, name=self._names.take(f"{site.module}/Cast")
            )
            added = self._placed(cast, site.module, site.sum, base.dtype)
        return self._node("Add", site.module, base, added, before=site.sum, dtype=base.dtype or dtype)

    def _node(self, operator: str, module: str, *inputs: ir.Value, before: ir.Node, dtype: ir.DataType) -> ir.Value:
        node = ir.node(operator, inputs, name=self._names.take(f"{module}/adapter/{operator}"))
        return self._placed(node, module, before, dtype)

    def _placed(self, node: ir.Node, module: str, before: ir.Node, dtype: ir.DataType) -> ir.Value:
        output = node.outputs[0]
        output.name, output.type = self._names.take(f"{module}.adapter.{node.op_type.lower()}"), ir.TensorType(dtype)
        self._graph.insert_before(before, node)
        return output

    def _input(self, module: str, role: str, array: NDArray[Any], shape: tuple[int | str, ...]) -> ir.Value:
        """The input of a role; layers that share a module share it."""
        name = input_name(module, role)
        if name in self._values:
            return self._values[name]
        default = np.zeros([size if isinstance(size, int) else 0 for size in shape], array.dtype)
        value = ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.from_numpy(array.dtype)))
        self._graph.inputs.append(value)
        if not self._required:
            value.const_value = ir.tensor(default, name=name)
            self._graph.register_initializer(value)
        self._values[name] = value
        self.inputs[name] = AdapterInput(TensorInfo(name, array.dtype.name, shape), module, role, self._required)
        self.arrays[name] = padded(array, role, self._rank)
        return value


def _put_in_place(old: ir.Value, new: ir.Value, names: UniqueNames) -> None:
    """Have a value read in place of another; as an output of the graph it gets the name of that."""
    if old.is_graph_output():
        name, old.name = old.name, names.take(f"{old.name}_with_adapter")
        new.name = name
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
