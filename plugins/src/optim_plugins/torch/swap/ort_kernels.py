"""Nodes on onnxruntime, each a model of its own. Types that numpy does not hand over go in and come out through casts.

A node in bfloat16, and one that makes integers of 4 bits::

    x (float32) -> Cast -> node -> Cast -> y (float32)
    x (float32) -> node -> Cast -> y (int8)

Where onnxruntime has no kernel in bfloat16, the node alone runs in float32, and its results that are bfloat16 are
rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from optim import ExitStatus, OptimError, Target
from optim.arrays import Array, dtype_of
from optim_plugins.torch.swap.types import as_dtype

BFLOAT16 = dtype_of("bfloat16")


class OrtKernels:
    """Runs nodes of one model on one target.

    Args:
        model: whose opsets and functions nodes use.
        target: whose provider runs them.

    Attributes:
        rounded: operators that have no kernel in bfloat16 here, and ran in float32 between two roundings.
    """

    def __init__(self, model: onnx.ModelProto, target: Target) -> None:
        self._model, self._target = model, target
        self._sessions: dict[tuple[object, ...], _Opened] = {}
        self.rounded: set[str] = set()

    def run(self, place: tuple[object, ...], node: onnx.NodeProto, outer: Mapping[str, Array]) -> list[Array]:
        """What a node makes.

        Args:
            place: of the node in the model; sessions are kept by it.
            node: a node of the main graph or of a branch.
            outer: what it reads, by name.

        Raises:
            OptimError[swap-failed]: onnxruntime cannot run it.
        """
        key = *place, *(f"{array.dtype}{array.ndim}" for array in outer.values())
        if key not in self._sessions:
            self._sessions[key] = self._opened(node, outer)
        opened = self._sessions[key]
        if opened.rounded:
            self.rounded.add(node.op_type)
        return run_between_casts(opened.session, list(outer.values()), opened.made)

    def _opened(self, node: onnx.NodeProto, outer: Mapping[str, Array]) -> _Opened:
        """A session of the node; one in float32 where there is none in bfloat16."""
        plain = single_node(self._model, node, outer)
        cast, made = between_casts(plain)
        try:
            return _Opened(self._session(cast), made, rounded=False)
        except Exception as error:
            wide = {
                name: array.astype(np.float32) if array.dtype == BFLOAT16 else array for name, array in outer.items()
            }
            whole = as_dtype(single_node(self._model, node, {}), np.dtype(np.float32)).graph.node[0]
            if BFLOAT16 not in made and whole == node and all(wide[name] is array for name, array in outer.items()):
                raise OptimError(
                    "swap-failed",
                    f"node '{node.name}' ({node.op_type}) cannot be run alone",
                    f"onnxruntime: {error}",
                    "give the operator another kernel: --kernels " + node.op_type + "=torch",
                    status=ExitStatus.BAD_INPUT,
                ) from error
        return _Opened(self._opened(whole, wide).session, made, rounded=True)

    def _session(self, model: onnx.ModelProto) -> Any:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        providers = list(dict.fromkeys((self._target.provider, "CPUExecutionProvider")))
        return ort.InferenceSession(model.SerializeToString(), options, providers=providers, enable_fallback=False)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A session of one node.

    Attributes:
        session: between casts.
        made: types of its results, see :func:`between_casts`.
        rounded: it computes in float32 in place of bfloat16.
    """

    session: Any
    made: tuple[np.dtype[Any] | None, ...]
    rounded: bool


def run_between_casts(session: Any, given: Sequence[Array], made: Sequence[np.dtype[Any] | None]) -> list[Array]:
    """Run a session of :func:`between_casts`.

    Args:
        session: that takes and makes only types of numpy's own.
        given: its inputs in their order, in any type.
        made: types of its results; None for what comes out as it is.
    """
    arrays = [array if (kind := _outside(array.dtype)) is None else array.astype(kind) for array in given]
    names = [value.name for value in session.get_inputs()]
    results: list[Array] = session.run(None, dict(zip(names, arrays, strict=True)))
    return [array if kind is None else array.astype(kind) for array, kind in zip(results, made, strict=True)]


def _outside(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type in which values of a type of ml_dtypes are handed over, all of them exactly; None for another type."""
    if dtype.isbuiltin == 1 or dtype.kind == "S":
        return None
    small = {"int": np.int8, "uint": np.uint8}
    return np.dtype(small.get(dtype.name.rstrip("0123456789"), np.float32))


def single_node(model: onnx.ModelProto, node: onnx.NodeProto, outer: Mapping[str, Array]) -> onnx.ModelProto:
    """A model of one node, its inputs typed as they are."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
        for name, array in outer.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    made: onnx.ModelProto = helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version, functions=list(model.functions)
    )
    return made


def between_casts(model: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[np.dtype[Any] | None, ...]]:
    """The model with types of numpy's own at its ends, and its nodes as they were.

    Returns:
        The model, and for each output the type that it had, None where the output stays as it is. An output whose type
        nobody can infer counts as bfloat16 where the model has an input of that type.
    """
    inferred = onnx.shape_inference.infer_shapes(model)
    kinds = [value.type.tensor_type.elem_type for value in inferred.graph.output]
    changed: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
    graph, inner = changed.graph, list(changed.graph.node)
    down, up = [], []
    weights = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        name, kind = value.name, value.type.tensor_type.elem_type
        if name not in weights and (outside := _outside_kind(kind)) is not None:
            down.append(helper.make_node("Cast", [f"{name}_outside"], [name], to=kind))
            value.name, value.type.tensor_type.elem_type = f"{name}_outside", outside
    made: list[np.dtype[Any] | None] = []
    unknown = onnx.TensorProto.BFLOAT16 if any(node.attribute[0].i == onnx.TensorProto.BFLOAT16 for node in down) else 0
    for value, inferred_kind in zip(graph.output, kinds, strict=True):
        kind = inferred_kind or unknown
        outside = _outside_kind(kind)
        made.append(None if outside is None else helper.tensor_dtype_to_np_dtype(kind))
        if outside is not None:
            up.append(helper.make_node("Cast", [value.name], [f"{value.name}_outside"], to=outside))
            value.CopyFrom(onnx.ValueInfoProto(name=f"{value.name}_outside"))
    del graph.node[:]
    graph.node.extend([*down, *inner, *up])
    return changed, tuple(made)


def _outside_kind(kind: int) -> int | None:
    outside = _outside(helper.tensor_dtype_to_np_dtype(kind)) if kind not in _WITHOUT_NUMBERS else None
    return None if outside is None else helper.np_dtype_to_tensor_dtype(outside)


_WITHOUT_NUMBERS = (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING)
