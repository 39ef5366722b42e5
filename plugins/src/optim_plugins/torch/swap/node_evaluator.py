"""A model run node by node, each on the kernel that was chosen for its operator.

A node is a model of its own for onnxruntime and for ONNX's reference; branches and loops go to onnxruntime as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from optim import ExitStatus, OptimError, Target
from optim.arrays import Array, Feeds

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

FLOAT64 = "float64"
"""The kernel of the judge: ONNX's reference, on values in float64."""


class NodeEvaluator:
    """Runs a model on one device.

    Args:
        model: with its weights in memory.
        target: whose provider runs onnxruntime's kernels; torch's run on CUDA where that is the provider.
    """

    def __init__(self, model: onnx.ModelProto, target: Target) -> None:
        self._model = model
        self._target = target
        self._weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._last = {name: place for place, node in enumerate(model.graph.node) for name in _read(node)}
        self._outputs = [value.name for value in model.graph.output]
        self._sessions: dict[tuple[int, tuple[str, ...]], Any] = {}
        self.device = "cuda" if target.provider == "CUDAExecutionProvider" else "cpu"

    def run(self, feeds: Feeds, kernels: Mapping[str, str], rest: str) -> tuple[dict[str, Array], set[str]]:
        """The outputs, and operators that torch was asked for and has no kernel of here.

        Args:
            feeds: inputs by name.
            kernels: ``torch``, ``ort`` or ``float64`` by operator.
            rest: for every other operator.
        """
        wide = rest == FLOAT64
        values = {name: _widened(array) if wide else array for name, array in {**self._weights, **feeds}.items()}
        missing = set()
        for place, node in enumerate(self._model.graph.node):
            given = [values[name] if name else None for name in node.input]
            kernel = kernels.get(node.op_type, rest)
            made = self._on_torch(node, given) if kernel == "torch" else None
            if kernel == "torch" and made is None:
                missing.add(node.op_type)
            if made is None:
                outer = {name: values[name] for name in _read(node)}
                made = self._on_reference(node, outer) if kernel == FLOAT64 else self._on_ort(place, node, outer)
            values.update(zip(node.output, made, strict=False))
            for name in [name for name in _read(node) if self._last[name] == place and name not in self._outputs]:
                values.pop(name, None)
        return {name: values[name] for name in self._outputs}, missing

    def _on_torch(self, node: onnx.NodeProto, given: list[Array | None]) -> list[Array] | None:
        import torch

        from optim_plugins.torch.swap.torch_kernels import KERNELS

        kernel = KERNELS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        floats = given[:1] if node.op_type == "ReduceMean" else given
        if kernel is None or len(node.output) > 1 or any(array is None or array.dtype.kind != "f" for array in floats):
            return None
        attributes = {one.name: _plain(helper.get_attribute_value(one)) for one in node.attribute}
        tensors = [torch.from_numpy(np.array(array)).to(self.device) for array in given if array is not None]
        with torch.inference_mode():
            return [kernel(attributes, tensors).cpu().numpy()]

    def _on_ort(self, place: int, node: onnx.NodeProto, outer: Mapping[str, Array]) -> list[Array]:
        import onnxruntime as ort

        key = place, tuple(f"{array.dtype}{array.ndim}" for array in outer.values())
        if key not in self._sessions:
            options = ort.SessionOptions()
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.log_severity_level = 4
            encoded = self._single(node, outer).SerializeToString()
            providers = list(dict.fromkeys((self._target.provider, "CPUExecutionProvider")))
            try:
                self._sessions[key] = ort.InferenceSession(encoded, options, providers=providers)
            except Exception as error:
                raise OptimError(
                    "swap-failed",
                    f"node '{node.name}' ({node.op_type}) cannot be run alone",
                    f"onnxruntime: {error}",
                    "give the operator another kernel: --kernels " + node.op_type + "=torch",
                    status=ExitStatus.BAD_INPUT,
                ) from error
        found: list[Array] = self._sessions[key].run(None, dict(outer))
        return found

    def _on_reference(self, node: onnx.NodeProto, outer: Mapping[str, Array]) -> list[Array]:
        from onnx.reference import ReferenceEvaluator

        evaluator: ReferenceEvaluator = ReferenceEvaluator(as_dtype(self._single(node, outer), np.dtype(np.float64)))
        made: Any = evaluator.run(None, dict(outer))
        return [_widened(np.asarray(array)) for array in made]

    def _single(self, node: onnx.NodeProto, outer: Mapping[str, Array]) -> onnx.ModelProto:
        """A model of one node, its inputs typed as they are."""
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
            for name, array in outer.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", inputs, outputs)
        made: onnx.ModelProto = helper.make_model(
            graph,
            opset_imports=self._model.opset_import,
            ir_version=self._model.ir_version,
            functions=list(self._model.functions),
        )
        return made


def as_dtype(model: onnx.ModelProto, dtype: np.dtype[Any]) -> onnx.ModelProto:
    """The model with every float of its interface, weights and casts in another type; a copy."""
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
    changed: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
    for graph in _graphs(changed.graph):
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type in floats:
                value.type.tensor_type.elem_type = kind
        attributes = [one for node in graph.node for one in node.attribute]
        for tensor in (*graph.initializer, *(one.t for one in attributes if one.HasField("t"))):
            if tensor.data_type in floats:
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name))
        casts = [one for node in graph.node if node.op_type == "Cast" for one in node.attribute]
        for attribute in casts:
            if attribute.name == "to" and attribute.i in floats:
                attribute.i = kind
    return changed


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph, and bodies of branches and loops inside it."""
    yield graph
    for attribute in (one for node in graph.node for one in node.attribute if one.HasField("g")):
        yield from _graphs(attribute.g)


def _read(node: onnx.NodeProto) -> list[str]:
    """Names that a node reads, those that its bodies take from around them too."""
    names = dict.fromkeys(name for name in node.input if name)
    for graph in (one.g for one in node.attribute if one.HasField("g")):
        inner = {value.name for value in (*graph.input, *graph.initializer)}
        inner |= {name for one in graph.node for name in one.output}
        names.update(dict.fromkeys(name for one in graph.node for name in _read(one) if name not in inner))
        names.update(dict.fromkeys(value.name for value in graph.output if value.name not in inner))
    return list(names)


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def operators(model: onnx.ModelProto) -> Iterator[str]:
    """Types of the nodes of the main graph."""
    yield from dict.fromkeys(node.op_type for node in model.graph.node)
