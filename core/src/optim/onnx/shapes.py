"""Dynamic dimensions of a graph's inputs made fixed, and every shape that follows from them.

Before::

    input_ids [batch, seq] -> Gather -> embedded [batch, seq, 384]

After, with ``batch`` 1 and ``seq`` 128::

    input_ids [1, 128] -> Gather -> embedded [1, 128, 384]

Nodes stay as they are: what computes shapes at run time now computes constants, which whoever needs it folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import onnx
import onnx_ir as ir

from optim.arrays import Feeds
from optim.errors import OptimError, unknown_name
from optim.model import TensorInfo


def shapes_of_feeds(inputs: Iterable[TensorInfo], samples: Iterable[Feeds]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the dynamic inputs, which all samples must share.

    Raises:
        OptimError[conflicting-shapes]: two samples differ. The error names both shapes.
        OptimError[feeds-empty]: there is no sample.
    """
    dynamic = [info.name for info in inputs if info.is_dynamic and info.is_tensor]
    found: dict[str, tuple[int, ...]] = {}
    count = 0
    for count, sample in enumerate(samples, 1):
        for name in dynamic:
            shape = tuple(sample[name].shape)
            if found.setdefault(name, shape) != shape:
                raise OptimError(
                    "conflicting-shapes",
                    f"the samples have several shapes of input '{name}'",
                    f"{_text(found[name])} in the first, {_text(shape)} in sample {count}",
                    "give samples of one shape (pad shorter ones), or name the shape that the model is to have",
                )
    if not count:
        raise OptimError(
            "feeds-empty", "there are no samples to take shapes from", "there are no input samples", "give at least one"
        )
    return found


def require_shapes(
    graph: ir.Model, sizes: Mapping[str, int], shapes: Mapping[str, Sequence[int]] | None = None
) -> dict[str, int]:
    """Refuses sizes and shapes that the inputs cannot have.

    Args:
        graph: graph of the inputs.
        sizes: sizes by name of a dimension, for all inputs.
        shapes: shapes by input.

    Returns:
        The size of each named dimension, also of those that the shapes fix.

    Raises:
        OptimError[unknown-dimension]: no input has such a dimension. The error lists the nearest ones.
        OptimError[unknown-input]: there is no such input. The error lists the nearest ones.
        OptimError[bad-shape]: the number of dimensions differs, a size is below 1, or contradicts a fixed size.
        OptimError[conflicting-shapes]: a named dimension would have two sizes.
    """
    inputs, known = _inputs(graph), dict(sizes)
    dimensions = chain.from_iterable(value.shape or () for value in inputs.values())
    names = {size.value for size in dimensions if not isinstance(size, int) and size.value}
    for name, size in sizes.items():
        if name not in names:
            raise unknown_name("dimension", name, names, fix="optim inspect MODEL shows the inputs")
        _require_positive(f"dimension '{name}'", (size,))
    for name, shape in (shapes or {}).items():
        if name not in inputs:
            raise unknown_name("input", name, inputs, fix="optim inspect MODEL shows the inputs")
        _learn(inputs[name], shape, known)
    return known


def fixed_inputs(
    inputs: Iterable[TensorInfo], sizes: Mapping[str, int], shapes: Mapping[str, Sequence[int]] | None = None
) -> tuple[TensorInfo, ...]:
    """Returns the inputs with some dimensions fixed.

    Args:
        inputs: inputs of a model.
        sizes: sizes by name of a dimension, for all inputs.
        shapes: shapes by input, in place of its own. ``sizes`` also fixes the names of dimensions in them.
    """
    found = []
    for info in inputs:
        shape = (shapes or {}).get(info.name, info.shape)
        known = None if shape is None else tuple(sizes.get(s, s) if isinstance(s, str) else s for s in shape)
        found.append(replace(info, shape=known))
    return tuple(found)


def fix_shapes(
    graph: ir.Model, sizes: Mapping[str, int], shapes: Mapping[str, Sequence[int]] | None = None
) -> dict[str, int]:
    """Gives dimensions of the inputs a fixed size and infers all shapes again. Others stay dynamic.

    The name of a dimension means the same size everywhere. So other inputs that share a named dimension with an input
    of ``shapes`` become fixed too.

    Args:
        graph: graph to change.
        sizes: sizes by name of a dimension, e.g. ``{"batch": 1}``; each at least 1.
        shapes: shapes by input: as many sizes as the input has dimensions, each at least 1.

    Returns:
        The size of each named dimension that is now fixed.

    Raises:
        OptimError: as in ``require_shapes``.
    """
    known, inputs = require_shapes(graph, sizes, shapes), _inputs(graph)
    for name, shape in (shapes or {}).items():
        inputs[name].shape = ir.Shape(shape)
    for value in inputs.values():
        value.shape = _with_sizes(value.shape, known)
    infer_shapes_again(graph, known)
    return known


def require_shapes_of(graph: ir.Model, samples: Iterable[Feeds]) -> None:
    """Refuses fixed shapes that a sample does not have.

    Raises:
        OptimError[conflicting-shapes]: a sample has another shape. The error names the input.
    """
    tensors = {name: value for name, value in _inputs(graph).items() if isinstance(value.type, ir.TensorType)}
    shapes = {name: value.shape for name, value in tensors.items() if value.shape is not None}
    for number, sample in enumerate(samples):
        for name in shapes.keys() & sample.keys():
            shape, given = shapes[name], sample[name].shape
            same_rank = len(shape) == len(given)
            if not same_rank or any(isinstance(a, int) and a != b for a, b in zip(shape, given, strict=True)):
                raise OptimError.usage(
                    "conflicting-shapes",
                    f"input '{name}' would not take the samples of this run",
                    f"it would be {shape}, and sample {number} is {_text(given)}; give --data of the one shape",
                    "--data with samples of the shape that the model is to have",
                )


def _inputs(graph: ir.Model) -> dict[str, ir.Value]:
    """Returns what the user feeds, by name."""
    return {value.name or "": value for value in graph.graph.inputs if not value.is_initializer()}


def _learn(value: ir.Value, shape: Sequence[int], sizes: dict[str, int]) -> None:
    """Check a shape against what the input says, and take the sizes of its named dimensions from it."""
    _require_positive(f"input '{value.name}'", shape)
    if value.shape is None:
        return
    if len(shape) != len(value.shape):
        raise _bad_shape(f"input '{value.name}' has {len(value.shape)} dimensions, not {len(shape)}", value, shape)
    for declared, size in zip(value.shape, shape, strict=True):
        if isinstance(declared, int):
            if declared != size:
                raise _bad_shape(f"input '{value.name}' has a fixed size {declared}, not {size}", value, shape)
        elif declared.value is not None and sizes.setdefault(declared.value, size) != size:
            raise OptimError.usage(
                "conflicting-shapes",
                f"dimension '{declared.value}' would have two sizes",
                f"{sizes[declared.value]}, and {size} at input '{value.name}'",
                f"make dimension '{declared.value}' the same in all inputs",
            )


def infer_shapes_again(graph: ir.Model, sizes: Mapping[str, int] | None = None) -> None:
    """Infers every shape inside, and those of the outputs, from those of the inputs.

    Fixed shapes stay, because some operators have no shape inference. The weights stay in their files.

    Args:
        graph: graph to change.
        sizes: sizes of named dimensions that are now fixed.
    """
    sizes = sizes or {}
    values = [value for node in graph.graph for value in node.outputs]
    before = {value.name: value.shape for value in values}
    for value in values:
        known = _with_sizes(value.shape, sizes)
        value.shape = None if known is None else ir.Shape([s if isinstance(s, int) else None for s in known])
    inferred = onnx.shape_inference.infer_shapes(ir.serde.serialize_model(graph), data_prop=True)
    found = {value.name: value.type for value in chain(inferred.graph.value_info, inferred.graph.output)}
    for value in values:
        proto = found.get(value.name or "")
        if proto is not None and proto.HasField("tensor_type"):
            value.type = value.type or ir.serde.deserialize_type_proto_for_type(proto)
            value.shape = ir.serde.deserialize_type_proto_for_shape(proto)
        value.shape = _with_names(value.shape, before[value.name])


def _with_sizes(shape: ir.Shape | None, sizes: Mapping[str, int]) -> ir.Shape | None:
    if shape is None:
        return None
    return ir.Shape([size if isinstance(size, int) else sizes.get(size.value or "", size) for size in shape])


def _with_names(shape: ir.Shape | None, before: ir.Shape | None) -> ir.Shape | None:
    """The names of dimensions that are still dynamic."""
    if shape is None or before is None or len(shape) != len(before):
        return shape
    return ir.Shape([new if isinstance(new, int) else old for new, old in zip(shape, before, strict=True)])


def _require_positive(what: str, sizes: Iterable[int]) -> None:
    for size in sizes:
        if size < 1:
            raise OptimError.usage(
                "bad-shape",
                f"{what} cannot have the size {size}",
                "sizes are counts, at least 1",
                "give a positive size",
            )


def _bad_shape(what: str, value: ir.Value, shape: Sequence[int]) -> OptimError:
    return OptimError.usage(
        "bad-shape",
        what,
        f"the model takes {value.shape}; {_text(shape)} was given",
        "optim inspect MODEL shows the inputs",
    )


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
