"""What a graph tells about its inputs: which table an input indexes, and how wide another must be.

    input_ids -> (Cast, Reshape, Add 2, ...) -> Gather(table[30522, 384], ., axis=0)     values below 30520
    x[batch, ?] -> (Cast) -> MatMul(., weight[768, 64])                                  size of axis 1 is 768

Followed through subgraphs and functions.

A changed row of a table that no sample reads changes no output that is compared. So a table is named if the result has
another one at the same input. A table that is multiplied too, such as one shared with the last product of a decoder, is
compared in whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir

from optim.arrays import Feeds
from optim.onnx.data_files import pieces, place_key
from optim.onnx.external_data import resolved
from optim.onnx.operators import subgraphs
from optim.onnx.skeleton import read_skeleton

_SAME_ELEMENTS = frozenset(["Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"])
"""Operators whose output has every element of their input."""
_KEEP_VALUES = _SAME_ELEMENTS | {"Concat", "Expand", "Gather", "Pad", "Slice", "Split", "Tile", "Where"}
"""Operators whose outputs hold values of their inputs, rearranged."""
_NO_NUMBERS = (onnx.TensorProto.STRING, onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128)
_KEEP_SHAPE = frozenset(["Cast", "Identity", "Neg", "Relu", "Sigmoid", "Tanh", "Dropout"])
_KEEP_CONSTANT_SHAPE = frozenset(["Cast", "Identity", "DequantizeLinear", "QuantizeLinear"])
_TABLE_LOOKUPS = frozenset({"Gather", "GatherBlockQuantized"})


@dataclass
class Table:
    """A constant whose rows inputs choose.

    Attributes:
        rows: how many it has.
        tensors: its numbers, and the scales that belong to them.
        indices: the inputs that choose, and what is added to them.
        is_known: whether these inputs alone say which rows a run reads.
    """

    name: str
    rows: int
    tensors: tuple[onnx.TensorProto, ...]
    indices: set[tuple[str, int]] = field(default_factory=set)
    is_known: bool = True


def trace_inputs(path: Path) -> InputTraces:
    """Follow every input of a graph to the constants that it meets; reads no large weights."""
    model = read_skeleton(path)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    names = {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    traces = InputTraces(values={name: {(name, 0)} for name in names}, same={name: name for name in names})
    traces.graph(model.graph)
    for table in traces.tables.values():
        table.is_known = table.is_known and table.name not in traces.multiplied
    return traces


@dataclass
class InputTraces:
    """Findings of a walk through a graph.

    Attributes:
        values: for each tensor, the inputs whose values it holds, and what was added to them.
        same: for each tensor that has an input's own shape and layout, that input.
        shapes: of constants.
        scalars: values of constants with one element.
        tensors: constants, also behind nodes that hand them on, and their scales.
        multiplied: names of constants that a node reads in whole.
        completed: tensors that hold other values beside those of inputs.
        rows: by input, what its values must lie below.
        widths: sizes that dimensions must have, by input and axis.
        tables: by name.
    """

    values: dict[str, set[tuple[str, int]]]
    same: dict[str, str]
    shapes: dict[str, list[int]] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)
    tensors: dict[str, tuple[onnx.TensorProto, ...]] = field(default_factory=dict)
    multiplied: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)
    rows: dict[str, int] = field(default_factory=dict)
    widths: dict[tuple[str, int], int] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    def graph(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            self.constant(tensor.name, tensor)
        for node in graph.node:
            self.node(node)
            for attribute in node.attribute:
                for inner in subgraphs(attribute):
                    self.graph(inner)

    def constant(self, name: str, tensor: onnx.TensorProto) -> None:
        self.shapes[name] = list(tensor.dims)
        self.tensors[name] = (tensor,)
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if not external and tensor.data_type not in _NO_NUMBERS:
            array = onnx.numpy_helper.to_array(tensor)
            if array.size == 1:
                self.scalars[name] = float(array.reshape(-1)[0])

    def node(self, node: onnx.NodeProto) -> None:
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type == "Constant" and "value" in attributes:
            self.constant(node.output[0], attributes["value"].t)
        elif node.op_type == "Constant" and "value_int" in attributes:
            self.scalars[node.output[0]] = float(attributes["value_int"].i)
        self.lookups(node, attributes)
        self.meetings(node, attributes)
        self.carry(node, attributes)

    def lookups(self, node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> None:
        if node.op_type in _TABLE_LOOKUPS:
            axis = attributes.get("axis") or attributes.get("gather_axis")
            self.indexed(node.input[1], node.input[0], axis.i if axis else 0, node.input[2:])
        elif node.op_type == "EmbedLayerNormalization":
            for ids, table in zip(node.input[:2], (node.input[2], node.input[4]), strict=True):
                self.indexed(ids, table, 0)
        elif node.op_type not in _KEEP_CONSTANT_SHAPE:
            self.multiplied |= {tensor.name for tensor in self.constants(node.input)}

    def constants(self, names: Iterable[str]) -> tuple[onnx.TensorProto, ...]:
        return tuple(tensor for name in names for tensor in self.tensors.get(name, ()))

    def indexed(self, ids: str, table: str, axis: int, scales: Sequence[str] = ()) -> None:
        shape = self.shapes.get(table)
        if not shape or axis:
            return
        indices = self.values.get(ids, set())
        for name, added in indices:
            self.rows[name] = min(shape[0] - added, self.rows.get(name, shape[0] - added))
        tensors = self.constants((table, *scales))
        found = self.tables.setdefault(table, Table(tensors[0].name if tensors else table, shape[0], tensors))
        found.indices |= indices
        found.is_known = found.is_known and bool(indices) and ids not in self.completed

    def meetings(self, node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> None:
        """Where an input meets a weight whose shape tells its width."""
        source = self.same.get(node.input[0]) if node.input else None
        weight = self.shapes.get(node.input[1]) if len(node.input) > 1 else None
        if source is None or not weight:
            return
        if node.op_type == "MatMul" and len(weight) >= 2:
            self.widths[source, -1] = weight[-2]
        elif node.op_type == "Gemm" and len(weight) == 2 and not _integer(attributes, "transA", 0):
            self.widths[source, -1] = weight[1] if _integer(attributes, "transB", 0) else weight[0]
        elif node.op_type == "Conv" and len(weight) >= 3:
            self.widths[source, 1] = weight[1] * _integer(attributes, "group", 1)
        elif node.op_type in ("LSTM", "GRU", "RNN") and len(weight) == 3:
            self.widths[source, -1] = weight[2]
        elif node.op_type in ("LayerNormalization", "Add", "Mul", "Sub", "Div") and weight[-1] > 1:
            self.widths[source, -1] = weight[-1]

    def carry(self, node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> None:
        """What the outputs have of the inputs."""
        held: set[tuple[str, int]] = set()
        if node.op_type in _KEEP_VALUES:
            held.update(*(self.values.get(name, ()) for name in _data_inputs(node)))
        elif node.op_type in ("Add", "Sub") and len(node.input) == 2:
            held = self.shifted(*node.input, sign=1 if node.op_type == "Add" else -1)
        sources = _data_inputs(node)
        others = node.op_type == "Pad" or any(one in self.completed or one not in self.values for one in sources)
        for output in node.output:
            if held:
                self.values[output] = held
                self.completed |= {output} if others else set()
        if not node.input or not node.output:
            return
        first, output = node.input[0], node.output[0]
        if node.op_type in _KEEP_SHAPE and first in self.same:
            self.same[output] = self.same[first]
        if first in self.shapes and node.op_type in _KEEP_CONSTANT_SHAPE:
            self.shapes[output] = self.shapes[first]
            self.tensors[output] = self.constants(node.input)
        elif first in self.shapes and node.op_type == "Transpose":
            shape = self.shapes[first]
            order = list(attributes["perm"].ints) if "perm" in attributes else list(range(len(shape)))[::-1]
            self.shapes[output] = [shape[axis] for axis in order]
        if first in self.scalars and node.op_type in _SAME_ELEMENTS:
            self.scalars[output] = self.scalars[first]

    def shifted(self, left: str, right: str, *, sign: int) -> set[tuple[str, int]]:
        if right in self.scalars:
            return {(name, added + sign * int(self.scalars[right])) for name, added in self.values.get(left, ())}
        if sign > 0 and left in self.scalars:
            return {(name, added + int(self.scalars[left])) for name, added in self.values.get(right, ())}
        return set()


def _data_inputs(node: onnx.NodeProto) -> Sequence[str]:
    """Inputs whose values end up in the output; the others say where."""
    if node.op_type == "Concat":
        return list(node.input)
    return list(node.input[1:3]) if node.op_type == "Where" else list(node.input[:1])


def _integer(attributes: Mapping[str, onnx.AttributeProto], name: str, default: int) -> int:
    return int(attributes[name].i) if name in attributes else default


def unread_rows(original: Path, result: Path, samples: Iterable[Feeds]) -> tuple[str, ...]:
    """Returns a sentence for each table that differs and has rows that no sample reads."""
    tables = [table for table in trace_inputs(original).tables.values() if table.is_known]
    others = trace_inputs(result).tables.values() if tables else ()
    tables = [one for one in tables if not any(_is_same(one, original, other, result) for other in others)]
    if not tables:
        return ()
    read = [np.zeros(table.rows, bool) for table in tables]
    for feeds in samples:
        for table, rows in zip(tables, read, strict=True):
            for name, added in table.indices:
                index = np.asarray(feeds[name]).astype(np.int64).ravel() + added
                rows[index[(-table.rows <= index) & (index < table.rows)]] = True
    return tuple(
        f"no sample reads {table.rows - rows.sum():,} of the {table.rows:,} rows of '{table.name}': "
        "optim did not compare these rows"
        for table, rows in zip(tables, read, strict=True)
        if not rows.all()
    )


def _is_same(one: Table, path: Path, other: Table, other_path: Path) -> bool:
    """Whether inputs choose the same rows from both tables."""
    if one.indices != other.indices or len(one.tensors) != len(other.tensors) or not one.tensors:
        return False
    return all(
        (a.data_type, a.dims) == (b.data_type, b.dims) and _is_equal(a, path, b, other_path)
        for a, b in zip(one.tensors, other.tensors, strict=True)
    )


def _is_equal(one: onnx.TensorProto, path: Path, other: onnx.TensorProto, other_path: Path) -> bool:
    """Compares constants of two graphs. Does not read weights that lie in one place, as those that no pass changed."""
    if one.data_type == onnx.TensorProto.STRING:
        return list(one.string_data) == list(other.string_data)
    a, b = (resolved(ir.serde.deserialize_tensor(*pair)) for pair in ((one, path.parent), (other, other_path.parent)))
    return place_key(a) == place_key(b) or all(x == y for x, y in zip_longest(pieces(a), pieces(b)))
