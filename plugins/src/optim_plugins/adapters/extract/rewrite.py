"""Adapters of a graph as inputs, in one form, and the graph without them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim import AdapterInput, TensorInfo
from optim.onnx import UniqueNames, adapter_names, name_adapter_inputs
from optim_plugins.adapters.extract.sites import Site
from optim_plugins.adapters.form import DOWN, GAIN, UP, input_name, role_arrays
from optim_plugins.adapters.packing import SCALES, ZEROS, Packing

_MICROSOFT = "com.microsoft"


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


@dataclass(frozen=True, slots=True)
class Supply:
    """How weights of adapters come from now on.

    Attributes:
        required: the inputs have no default.
        rank: of every adapter to come; None: any, also another for each module.
        packing: of the weights; None: floats. It needs a rank.
        supplied_by: file of the adapter that sessions are opened with, which is then the default; empty: runs feed it.
    """

    required: bool = False
    rank: int | None = None
    packing: Packing | None = None
    supplied_by: str = ""


def adapters_as_inputs(graph: ir.Model, sites: Sequence[Site], supply: Supply) -> Extracted:
    """Write every site anew, with inputs in place of the adapter's weights.

    Args:
        graph: changed in place.
        sites: of it.
        supply: how weights come.
    """
    writer = _Writer(graph, supply)
    if supply.packing is not None:
        graph.opset_imports.setdefault(_MICROSOFT, 1)
    for site in sites:
        writer.write(site)
    RemoveUnusedNodesPass()(graph)
    inputs = tuple(writer.inputs.values())
    name_adapter_inputs(graph, inputs)
    return Extracted(inputs, writer.arrays)


class _Writer:
    """Adds inputs and nodes to one graph."""

    def __init__(self, graph: ir.Model, supply: Supply) -> None:
        self._graph = graph.graph
        self._names = UniqueNames(graph)
        self._supply = supply
        self._values: dict[str, ir.Value] = {}
        self.inputs: dict[str, AdapterInput] = {}
        self.arrays: dict[str, NDArray[Any]] = {}

    def write(self, site: Site) -> None:
        """Replace what a site adds."""
        module, factors = site.module, site.factors
        dtype = ir.DataType.from_numpy(factors.down.dtype)
        arrays = role_arrays(factors, self._supply.rank, self._supply.packing)
        low = self._product(site, DOWN, site.data, factors.down.shape[0], arrays, dtype)
        added = self._product(site, UP, low, self._supply.rank or factors.up.shape[0], arrays, dtype)
        result = self._add(site.base, added, site, dtype)
        if factors.gain is not None and site.unbiased is not None:
            gain = self._input(module, GAIN, arrays[GAIN], arrays[GAIN].shape)
            scaled = self._node("Mul", module, site.unbiased, gain, before=site.sum, dtype=dtype)
            result = self._add(result, scaled, site, dtype)
        old = site.sum.outputs[0]
        result.shape, result.type = old.shape, old.type
        _put_in_place(old, result, self._names)
        self._graph.remove(site.sum, safe=True)

    def _product(
        self, site: Site, role: str, data: ir.Value, width: int, arrays: dict[str, NDArray[Any]], dtype: ir.DataType
    ) -> ir.Value:
        """Data times one factor, of ``width`` rows, which comes in one input, or packed in several."""
        module, packing, shape = site.module, self._supply.packing, arrays[role].shape
        if packing is None:
            symbol = f"rank_{re.sub(r'[^0-9A-Za-z]', '_', module)}" if self._supply.rank is None else self._supply.rank
            matrix = self._input(module, role, arrays[role], (shape[0], symbol) if role == DOWN else (symbol, shape[1]))
            return self._node("MatMul", module, data, matrix, before=site.sum, dtype=dtype)
        details = {**packing.details, "rows": width}
        taken = [
            self._input(module, role + part, arrays[role + part], arrays[role + part].shape, details)
            for part in ("", SCALES, ZEROS)
            if role + part in arrays
        ]
        node = ir.node(
            "MatMulNBits",
            [data, *taken],
            attributes={"K": width, "N": shape[0], "bits": packing.bits, "block_size": packing.block_size},
            domain=_MICROSOFT,
            name=self._names.take(f"{module}/adapter/MatMulNBits"),
        )
        return self._placed(node, module, site.sum, dtype)

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

    def _input(
        self,
        module: str,
        role: str,
        array: NDArray[Any],
        shape: tuple[int | str, ...],
        details: dict[str, int] | None = None,
    ) -> ir.Value:
        """The input of a role; layers that share a module share it."""
        name = input_name(module, role)
        if name in self._values:
            return self._values[name]
        value = ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.from_numpy(array.dtype)))
        self._graph.inputs.append(value)
        if not self._supply.required:
            none = np.zeros([size if isinstance(size, int) else 0 for size in shape], array.dtype)
            value.const_value = ir.tensor(array if self._supply.supplied_by else none, name=name)
            self._graph.register_initializer(value)
        self._values[name] = value
        info = TensorInfo(name, array.dtype.name, shape)
        self.inputs[name] = AdapterInput(
            info, module, role, self._supply.required, details or {}, self._supply.supplied_by
        )
        self.arrays[name] = array
        return value


def with_constants(graph: ir.Model, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Make constants of all adapter inputs: of an adapter's arrays, and of the defaults where it has none.

    Args:
        graph: changed in place; it takes no adapter any more.
        arrays: of an adapter, by input.
    """
    names = adapter_names(graph)
    for value in [value for value in graph.graph.inputs if value.name in names]:
        array = arrays.get(str(value.name))
        graph.graph.inputs.remove(value)
        if array is not None:
            value.const_value, value.shape = ir.tensor(array, name=value.name), ir.Shape(array.shape)
            graph.graph.register_initializer(value)
    name_adapter_inputs(graph, ())


def _put_in_place(old: ir.Value, new: ir.Value, names: UniqueNames) -> None:
    """Have a value read in place of another; as an output of the graph it gets the name of that."""
    if old.is_graph_output():
        name, old.name = old.name, names.take(f"{old.name}_with_adapter")
        new.name = name
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
