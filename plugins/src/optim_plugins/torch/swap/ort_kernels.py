"""Nodes on onnxruntime, each a model of its own; in bfloat16, which numpy does not hand over, between two casts.

A node in bfloat16::

    x (float32) -> Cast -> node -> Cast -> y (float32)

Where onnxruntime has no kernel of that type, the node alone runs in float32, and what it makes is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

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
        self._sessions: dict[tuple[object, ...], tuple[Any, bool]] = {}
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
        narrow = any(array.dtype == BFLOAT16 for array in outer.values()) or _says_bfloat16(node)
        key = *place, *(f"{array.dtype}{array.ndim}" for array in outer.values())
        if key not in self._sessions:
            self._sessions[key] = self._opened(node, outer, narrow)
        session, rounded = self._sessions[key]
        if rounded:
            self.rounded.add(node.op_type)
        return run_wide(session, [array for array in outer.values() if not _is_inside(array)], narrow)

    def _opened(self, node: onnx.NodeProto, outer: Mapping[str, Array], narrow: bool) -> tuple[Any, bool]:
        """A session, and whether it is one in float32 in place of one in bfloat16."""
        plain = single_node(self._model, node, outer)
        try:
            return self._session(between_casts(plain) if narrow else plain), False
        except Exception as error:
            if not narrow:
                raise OptimError(
                    "swap-failed",
                    f"node '{node.name}' ({node.op_type}) cannot be run alone",
                    f"onnxruntime: {error}",
                    "give the operator another kernel: --kernels " + node.op_type + "=torch",
                    status=ExitStatus.BAD_INPUT,
                ) from error
        wide = {name: array.astype(np.float32) if array.dtype == BFLOAT16 else array for name, array in outer.items()}
        whole = as_dtype(single_node(self._model, node, {}), np.dtype(np.float32))
        return self._opened(whole.graph.node[0], wide, narrow=False)[0], True

    def _session(self, model: onnx.ModelProto) -> Any:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        providers = list(dict.fromkeys((self._target.provider, "CPUExecutionProvider")))
        return ort.InferenceSession(model.SerializeToString(), options, providers=providers, enable_fallback=False)


def _says_bfloat16(node: onnx.NodeProto) -> bool:
    """Whether a node makes bfloat16 of what is none: a cast, or a constant."""
    kind = onnx.TensorProto.BFLOAT16
    return any(kind in (one.t.data_type, one.i if one.name in ("to", "dtype") else 0) for one in node.attribute)


def run_wide(session: Any, given: Sequence[Array], narrow: bool) -> list[Array]:
    """What a session makes of its inputs in their order; bfloat16 goes in and comes out as float32 where ``narrow``."""
    arrays = [array.astype(np.float32) if array.dtype == BFLOAT16 else array for array in given]
    names = [value.name for value in session.get_inputs()]
    made: list[Array] = session.run(None, dict(zip(names, arrays, strict=True)))
    return [array.astype(BFLOAT16) if narrow and array.dtype == np.float32 else array for array in made]


def single_node(model: onnx.ModelProto, node: onnx.NodeProto, outer: Mapping[str, Array]) -> onnx.ModelProto:
    """A model of one node, its inputs typed as they are; weights that cannot be handed over are inside."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
        for name, array in outer.items()
        if not _is_inside(array)
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in outer.items() if _is_inside(array)]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs, weights)
    made: onnx.ModelProto = helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version, functions=list(model.functions)
    )
    return made


def _is_inside(array: Array) -> bool:
    """Whether an array is a weight of a type that no session takes from numpy: one of ml_dtypes, of 4 or 8 bits."""
    return array.dtype.isbuiltin != 1 and array.dtype != BFLOAT16


def between_casts(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float32 in place of bfloat16 at its ends, and its nodes as they were."""
    inferred = onnx.shape_inference.infer_shapes(model)
    kinds = {value.name: value.type.tensor_type.elem_type for value in inferred.graph.output}
    changed: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
    graph, inner = changed.graph, list(changed.graph.node)
    ends = [value for value in graph.input if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16]
    outside = {value.name: f"{value.name}_float32" for value in ends}
    down = [helper.make_node("Cast", [outside[name]], [name], to=onnx.TensorProto.BFLOAT16) for name in outside]
    for value in ends:
        value.name = outside[value.name]
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    up = []
    for value in graph.output:
        if kinds[value.name] in (onnx.TensorProto.BFLOAT16, onnx.TensorProto.UNDEFINED):
            up.append(helper.make_node("Cast", [value.name], [f"{value.name}_float32"], to=onnx.TensorProto.FLOAT))
            value.CopyFrom(onnx.ValueInfoProto(name=f"{value.name}_float32"))
    del graph.node[:]
    graph.node.extend([*down, *inner, *up])
    return changed
