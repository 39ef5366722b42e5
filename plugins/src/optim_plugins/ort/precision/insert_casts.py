"""Carries a plan out: nodes in a 16-bit type, Casts where types meet, each value cast once.

Before, with ``B`` left in float32::

    x -> A(w) -> a -> B -> b -> C(w) -> y

After, with inputs and outputs kept::

    x -> Cast -> A(w16) -> a -> Cast -> B -> b -> Cast -> C(w16) -> y_float16 -> Cast -> y

A Cast stands right behind what makes the value, so that branches and loop bodies may read it too; what these bodies are
given and give out stays float32. A weight that only nodes in the narrow type read is stored in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir import TensorProtocol
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim.onnx import UniqueNames, add_constant
from optim_plugins.ort.graph.fixed_weights import drop_unread_weights
from optim_plugins.ort.graph.float_values import is_float32
from optim_plugins.ort.graph.operator_types import Signature, signature
from optim_plugins.ort.precision.operator_kinds import ANY_TYPE
from optim_plugins.ort.precision.precision_plan import CastPlan
from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow, narrowed

_STANDARD = ("", "ai.onnx")
_BOUNDS = frozenset({"Clip", "Min", "Max"})
"""Their constants are limits: one beyond the range becomes the largest number, not half of it."""


class Narrower:
    """One conversion.

    Attributes:
        counts: what was done.
    """

    def __init__(
        self, graph: ir.Model, narrow: Narrow, plan: CastPlan, *, io: bool, masks: Collection[str] = ()
    ) -> None:
        """Prepare.

        Args:
            graph: with types; changed by :meth:`rewrite`.
            narrow: the type.
            plan: which nodes.
            io: whether float32 inputs and outputs become narrow, too.
            masks: inputs whose numbers beyond the range are brought back into it.
        """
        self.counts: Counter[str] = Counter()
        self._model = graph
        self._narrow = narrow
        self._plan = plan
        self._io = io
        self._masks = masks
        self._wide = {value for part in graph.graphs() for value in (*part.inputs, *part.initializers.values())}
        self._wide = {value for value in self._wide if is_float32(value)}
        self._wide |= {value for node in graph.graph.all_nodes() for value in node.outputs if is_float32(value)}
        self._types = {node: signature(node, graph.graph.opset_imports) for node in graph.graph.all_nodes()}
        self._versions: dict[tuple[ir.Value, ir.DataType, bool], ir.Value] = {}
        self._renamed: set[ir.Value] = set()
        self._names = UniqueNames(graph)

    def rewrite(self) -> None:
        """Change the graph."""
        main = self._model.graph
        nodes = list(main.all_nodes())
        if self._io:
            for value in main.inputs:
                if value in self._wide and not value.is_initializer():
                    value.type = ir.TensorType(self._narrow.onnx)
        for node in self._plan.narrow:
            self._convert(node, self._types[node])
        for node in nodes:
            if node.op_type not in ANY_TYPE:
                self._connect(node, self._types[node])
        for part in self._model.graphs():
            for place, value in enumerate(part.outputs):
                if value in self._wide:
                    is_narrow = self._io and part is main
                    self._give_out(part, place, value, self._narrow.onnx if is_narrow else ir.DataType.FLOAT)
        RemoveUnusedNodesPass()(self._model)
        drop_unread_weights(self._model)

    def _convert(self, node: ir.Node, types: Signature | None) -> None:
        assert types is not None
        for place, value in enumerate(node.outputs):
            if value in self._wide and types.output(place) in self._plan.narrow[node]:
                value.type = ir.TensorType(self._narrow.onnx)
        if node.op_type == "Cast" and node.domain in _STANDARD and node.outputs[0].dtype == self._narrow.onnx:
            node.attributes["to"] = ir.AttrInt64("to", int(self._narrow.onnx))
        if node.op_type == "ConstantOfShape" and node.domain in _STANDARD:
            given = node.attributes.get("value")
            number = np.zeros(1, np.float32) if given is None else given.as_tensor().numpy()
            tensor = ir.Tensor(narrowed(number, self._narrow, self._narrow.bound), dtype=self._narrow.onnx)
            node.attributes["value"] = ir.AttrTensor("value", tensor)
        self.counts[f"nodes in {self._narrow}"] += 1

    def _connect(self, node: ir.Node, types: Signature | None) -> None:
        """Let a node read every value in the type that it wants."""
        for place, value in enumerate(node.inputs):
            if value is None or value not in self._wide:
                continue
            wanted = self._narrow.onnx if self._plan.wants(node, types, place) else ir.DataType.FLOAT
            if value.dtype != wanted:
                node.replace_input_with(place, self._version(value, wanted, node.op_type in _BOUNDS))

    def _version(self, value: ir.Value, dtype: ir.DataType, is_bound: bool) -> ir.Value:
        constant = value.const_value if value.is_initializer() and not value.is_graph_input() else None
        key = (value, dtype, is_bound and constant is not None)
        if key not in self._versions:
            if constant is not None and dtype == self._narrow.onnx:
                self._versions[key] = self._weight(value, is_bound)
            else:
                self._versions[key] = self._cast(value, dtype)
        return self._versions[key]

    def _weight(self, value: ir.Value, is_bound: bool) -> ir.Value:
        """The constant in the narrow type, read and rounded when it is written."""
        tensor, narrow = value.const_value, self._narrow
        assert tensor is not None
        assert value.graph is not None
        bound = narrow.largest if is_bound else narrow.bound
        name = self._names.take(f"{value.name}_{narrow}")

        def rounded() -> TensorProtocol:
            array: Any = narrowed(tensor.numpy(), narrow, bound, lift=tensor.size == 1)
            return ir.Tensor(array, dtype=narrow.onnx, name=name)

        shape = ir.Shape(tensor.shape.numpy())
        self.counts["weights converted"] += 1
        return add_constant(value.graph, name, ir.LazyTensor(rounded, dtype=narrow.onnx, shape=shape, name=name))

    def _cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """A Cast right behind what makes the value."""
        nodes = [ir.node("Cast", [value], {"to": int(dtype)})]
        if value.name in self._masks and dtype == self._narrow.onnx:
            nodes.insert(0, self._bounding(value))
            nodes[1].replace_input_with(0, nodes[0].outputs[0])
        suffix = self._narrow if dtype == self._narrow.onnx else "float32"
        new = nodes[-1].outputs[0]
        new.name = self._names.take(f"{value.name}_{suffix}")
        nodes[-1].name = f"{new.name}_cast"
        new.type, new.shape = ir.TensorType(dtype), value.shape
        producer, graph = value.producer(), value.graph
        if producer is not None:
            assert producer.graph is not None
            producer.graph.insert_after(producer, nodes)
        else:
            assert graph is not None
            first = next(iter(graph), None)
            if first is None:
                graph.extend(nodes)
            else:
                graph.insert_before(first, nodes)
        self.counts["Cast added"] += 1
        return new

    def _bounding(self, value: ir.Value) -> ir.Node:
        """A Clip that brings what lies beyond the range to its bound."""
        ends = [
            add_constant(self._model.graph, self._names.take(f"{self._narrow}_bound"), np.float32(number))
            for number in (-self._narrow.bound, self._narrow.bound)
        ]
        node = ir.node("Clip", [value, *ends], name=f"{value.name}_bounded")
        node.outputs[0].name = self._names.take(f"{value.name}_bounded")
        node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
        return node

    def _give_out(self, graph: ir.Graph | ir.Function, place: int, value: ir.Value, dtype: ir.DataType) -> None:
        """Let a graph give an output in this type; the model's own outputs keep their names."""
        if value.dtype == dtype:
            return
        given = self._version(value, dtype, False)
        if graph is self._model.graph and value not in self._renamed:
            self._renamed.add(value)
            name = value.name
            value.name, given.name = self._names.take(f"{name}_made"), name
        graph.outputs[place] = given
