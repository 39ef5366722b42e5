"""A graph in 16-bit floats in float32: weights and constants keep their numbers, inputs and outputs their types.

Bodies of loops and branches are widened whole, what they are given and give out too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from onnx_ir import TensorProtocol

from optim.onnx import UniqueNames
from optim_plugins.ort.graph.fixed_weights import drop_unread_weights, fix_weights
from optim_plugins.ort.graph.float_values import infer_types
from optim_plugins.ort.graph.operator_types import signature, type_text

_NARROW = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_WIDE = ir.DataType.FLOAT
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype", "output_datatype", "stash_type", "precision"})
"""Attributes of standard operators that name the type of what they make or compute in."""
_WITH_PAST = frozenset({"GroupQueryAttention", "MultiHeadAttention", "Attention", "DecoderMaskedMultiHeadAttention"})


def objection(graph: ir.Model) -> str:
    """Why a graph is not widened; empty where it can be."""
    if not any(map(_is_narrow, _values(graph))) and not any(_narrow_attributes(graph)):
        return "none of its tensors is in float16 or bfloat16"
    if graph.functions:
        return "it has functions of its own, whose types nobody declares: inline them before export"
    for value in graph.graph.inputs:
        readers = {node.op_type for node in value.consumers()}
        if _is_narrow(value) and not value.is_initializer() and readers & _WITH_PAST and len(value.shape or ()) >= 4:
            return f"its past '{value.name}' comes in 16 bits, and would be cast at each token"
    opsets = graph.graph.opset_imports
    for node in graph.graph.all_nodes():
        inputs = [place for place, value in enumerate(node.inputs) if _is_narrow(value)]
        outputs = [place for place, value in enumerate(node.outputs) if _is_narrow(value)]
        if not inputs and not outputs:
            continue
        types = signature(node, opsets)
        if types is None:
            return f"nobody defines which types {node.domain}:{node.op_type} takes (node '{node.name}')"
        variables = [*map(types.input, inputs), *map(types.output, outputs)]
        if not all(types.takes(variable, _WIDE) for variable in variables if variable):
            return f"{node.op_type} takes no {type_text(_WIDE)} there (node '{node.name}')"
    return ""


def widen(graph: ir.Model) -> dict[str, int]:
    """Widen a graph in place; returns what was done.

    Args:
        graph: one to which :func:`objection` has none.
    """
    counts: Counter[str] = Counter()
    fix_weights(graph)
    infer_types(graph)
    names = UniqueNames(graph)
    main = graph.graph
    given = [value for value in main.inputs if _is_narrow(value)]
    made = [(place, value) for place, value in enumerate(main.outputs) if _is_narrow(value)]
    made = [(place, value) for place, value in made if not value.is_graph_input()]
    interface = {value: value.dtype for value in (*given, *(value for _, value in made))}
    for part in graph.graphs():
        for value in part.initializers.values():
            if value.const_value is not None and value.const_value.dtype in _NARROW:
                value.const_value = _widened(value.const_value)
                counts["weights widened"] += 1
    for value in _values(graph):
        value.type = _widened_type(value.type)
    for node in main.all_nodes():
        counts["nodes changed"] += _widen_attributes(node)
    for value in given:
        _cast_input(main, value, interface[value], names)
    for place, value in made:
        _cast_output(main, place, value, interface[value], names)
    counts["Cast added"] = len(given) + len({value for _, value in made})
    counts["Cast removed"] = _drop_casts(main)
    drop_unread_weights(graph)
    return {what: count for what, count in counts.items() if count}


def _values(graph: ir.Model) -> Iterator[ir.Value]:
    for part in graph.graphs():
        yield from part.inputs
        yield from part.initializers.values()
    for node in graph.graph.all_nodes():
        yield from node.outputs


def _is_narrow(value: ir.Value | None) -> bool:
    return value is not None and value.dtype in _NARROW


def _narrow_attributes(graph: ir.Model) -> Iterator[bool]:
    for node in graph.graph.all_nodes():
        for attribute in node.attributes.values():
            is_type = attribute.type == ir.AttributeType.INT and attribute.name in _TYPE_ATTRIBUTES
            if is_type and attribute.as_int() in _NARROW:
                yield True
            if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype in _NARROW:
                yield True


def _widen_attributes(node: ir.Node) -> bool:
    changed = False
    for name, attribute in list(node.attributes.items()):
        if attribute.type == ir.AttributeType.INT and name in _TYPE_ATTRIBUTES and attribute.as_int() in _NARROW:
            node.attributes[name] = ir.AttrInt64(name, int(_WIDE))
            changed = True
        elif attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype in _NARROW:
            node.attributes[name] = ir.AttrTensor(name, ir.tensor(_numbers(attribute.as_tensor())))
            changed = True
    return changed


def _widened(tensor: TensorProtocol) -> ir.LazyTensor:
    """The same numbers, read when they are written."""
    return ir.LazyTensor(
        lambda: ir.tensor(_numbers(tensor), name=tensor.name),
        dtype=_WIDE,
        shape=ir.Shape(tensor.shape.numpy()),
        name=tensor.name,
    )


def _numbers(tensor: TensorProtocol) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return tensor.numpy().astype(np.float32)


def _widened_type(kind: ir.TypeProtocol | None) -> ir.TypeProtocol | None:
    if isinstance(kind, ir.SequenceType | ir.OptionalType):
        inner = _widened_type(kind.elem_type)
        return kind if inner is None or inner is kind.elem_type else type(kind)(inner)
    if isinstance(kind, ir.TensorType) and kind.dtype in _NARROW:
        return ir.TensorType(_WIDE)
    return kind


def _cast_input(main: ir.Graph, value: ir.Value, dtype: ir.DataType | None, names: UniqueNames) -> None:
    assert dtype is not None
    value.type = ir.TensorType(dtype)
    readers = list(value.uses())
    cast = _cast(value, _WIDE, names.take(f"{value.name}_float32"))
    for reader, place in readers:
        reader.replace_input_with(place, cast.outputs[0])
    first = next(iter(main), None)
    if first is None:
        main.append(cast)
    else:
        main.insert_before(first, cast)


def _cast_output(main: ir.Graph, place: int, value: ir.Value, dtype: ir.DataType | None, names: UniqueNames) -> None:
    assert dtype is not None
    name = value.name
    assert name is not None
    value.name = names.take(f"{name}_float32")
    cast = _cast(value, dtype, name)
    main.append(cast)
    main.outputs[place] = cast.outputs[0]


def _cast(value: ir.Value, dtype: ir.DataType, name: str) -> ir.Node:
    cast = ir.node("Cast", [value], {"to": int(dtype)}, name=f"{name}_cast")
    result = cast.outputs[0]
    result.name, result.type, result.shape = name, ir.TensorType(dtype), value.shape
    return cast


def _drop_casts(main: ir.Graph) -> int:
    """Remove casts from float32 to float32, which stood where the precision changed."""
    dropped = 0
    for node in list(main.all_nodes()):
        if node.op_type != "Cast" or node.domain not in ("", "ai.onnx") or node.attributes["to"].as_int() != int(_WIDE):
            continue
        read, made = node.inputs[0], node.outputs[0]
        if read is None or read.dtype != _WIDE:
            continue
        if made.is_graph_output():
            maker = read.producer()
            if maker is None or maker.graph is not node.graph or read.is_graph_output():
                continue
            made.name, read.name = None, made.name
        ir.convenience.replace_all_uses_with(made, read, replace_graph_outputs=True)
        assert node.graph is not None
        node.graph.remove(node, safe=True)
        dropped += 1
    return dropped
