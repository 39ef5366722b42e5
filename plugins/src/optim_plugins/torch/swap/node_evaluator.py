"""A model run node by node, each on the kernel that was chosen for its operator.

A node is a model of its own for onnxruntime and for ONNX's reference. The nodes of the branch that an If takes are run
one by one like any others; loops go to onnxruntime as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from optim import ExitStatus, OptimError, Target
from optim.arrays import Array, Feeds
from optim_plugins.torch.swap.ort_kernels import BFLOAT16, OrtKernels, single_node
from optim_plugins.torch.swap.types import as_dtype, computes_in

if TYPE_CHECKING:
    import torch
    from onnx.reference import ReferenceEvaluator

FLOAT64 = "float64"
"""The kernel of the judge: ONNX's reference, on values in float64."""


@dataclass(frozen=True, slots=True)
class RanNode:
    """What came of a run.

    Attributes:
        outputs: by name.
        on_ort: operators that torch was asked for and has no kernel of here.
        rounded: operators that onnxruntime has no kernel of in bfloat16 here; float32's ran between two roundings.
    """

    outputs: dict[str, Array]
    on_ort: set[str] = field(default_factory=set)
    rounded: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Choice:
    kernels: Mapping[str, str]
    rest: str
    on_ort: set[str]


class NodeEvaluator:
    """Runs a model on one device.

    Args:
        model: with its weights in memory.
        target: whose provider runs onnxruntime's kernels; torch's run on CUDA where that is the provider.
    """

    def __init__(self, model: onnx.ModelProto, target: Target) -> None:
        self._model = model
        self._weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._last = {name: place for place, node in enumerate(model.graph.node) for name in _read(node)}
        self._outputs = [value.name for value in model.graph.output]
        self._ort = OrtKernels(model, target)
        self.device = "cuda" if target.provider == "CUDAExecutionProvider" else "cpu"

    def run(self, feeds: Feeds, kernels: Mapping[str, str], rest: str) -> RanNode:
        """The outputs, and which kernels were not there.

        Args:
            feeds: inputs by name.
            kernels: ``torch``, ``ort`` or ``float64`` by operator.
            rest: for every other operator.

        Raises:
            OptimError[swap-failed]: a node cannot be run alone.
        """
        wide = rest == FLOAT64
        values = {name: _widened(array) if wide else array for name, array in {**self._weights, **feeds}.items()}
        self._ort.rounded.clear()
        found = RanNode({})
        self._walk(self._model.graph.node, (), values, _Choice(kernels, rest, found.on_ort))
        found.outputs.update((name, values[name]) for name in self._outputs)
        found.rounded.update(self._ort.rounded)
        return found

    def _walk(
        self, nodes: Sequence[onnx.NodeProto], around: tuple[object, ...], values: dict[str, Array], choice: _Choice
    ) -> None:
        """Run nodes in their order, and put what they make into ``values``."""
        for place, node in enumerate(nodes):
            path = *around, place
            if node.op_type == "If" and node.domain in ("", "ai.onnx"):
                made = self._branch(node, path, values, choice)
            else:
                made = self._made(node, path, values, choice)
            values.update(zip([name for name in node.output if name], made, strict=False))
            if not around:
                for name in [name for name in _read(node) if self._last[name] == place and name not in self._outputs]:
                    values.pop(name, None)

    def _branch(
        self, node: onnx.NodeProto, path: tuple[object, ...], values: Mapping[str, Array], choice: _Choice
    ) -> list[Array]:
        wanted = "then_branch" if np.all(values[node.input[0]]) else "else_branch"
        body = next(one.g for one in node.attribute if one.name == wanted)
        weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in body.initializer}
        wide = choice.rest == FLOAT64
        inner = {**values, **{name: _widened(array) if wide else array for name, array in weights.items()}}
        self._walk(body.node, (*path, wanted), inner, choice)
        return [inner[value.name] for value, name in zip(body.output, node.output, strict=False) if name]

    def _made(
        self, node: onnx.NodeProto, path: tuple[object, ...], values: Mapping[str, Array], choice: _Choice
    ) -> list[Array]:
        kernel = choice.kernels.get(node.op_type, choice.rest)
        if kernel == "torch":
            made = self._on_torch(node, [values[name] if name else None for name in node.input])
            if made is not None:
                return made
            choice.on_ort.add(node.op_type)
        outer = {name: values[name] for name in _read(node)}
        return self._on_reference(node, outer) if kernel == FLOAT64 else self._ort.run(path, node, outer)

    def _on_torch(self, node: onnx.NodeProto, given: list[Array | None]) -> list[Array] | None:
        import torch

        from optim_plugins.torch.swap.torch_kernels import KERNELS

        kernel = KERNELS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        floats = given[:1] if node.op_type == "ReduceMean" else given
        if (
            kernel is None
            or len(node.output) > 1
            or any(array is None or not computes_in(array.dtype) for array in floats)
        ):
            return None
        attributes = {one.name: _plain(helper.get_attribute_value(one)) for one in node.attribute}
        tensors = [_to_torch(array).to(self.device) for array in given if array is not None]
        with torch.inference_mode():
            return [_from_torch(kernel(attributes, tensors).cpu())]

    def _on_reference(self, node: onnx.NodeProto, outer: Mapping[str, Array]) -> list[Array]:
        from onnx.reference import ReferenceEvaluator

        single = as_dtype(single_node(self._model, node, outer), np.dtype(np.float64))
        try:
            evaluator: ReferenceEvaluator = ReferenceEvaluator(single)
        except NotImplementedError as error:
            raise OptimError(
                "swap-failed",
                f"ONNX's reference has no {node.op_type}",
                f"node '{node.name}': {error}",
                "give the model as it was exported, without operators that onnxruntime's tools put in",
                "optim-plugins",
                ExitStatus.BAD_INPUT,
            ) from error
        made: Any = evaluator.run(None, dict(outer))
        return [_widened(np.asarray(array)) for array in made]


def _read(node: onnx.NodeProto) -> list[str]:
    """Names that a node reads, those that its bodies take from around them too."""
    names = dict.fromkeys(name for name in node.input if name)
    for graph in (one.g for one in node.attribute if one.HasField("g")):
        inner = {value.name for value in (*graph.input, *graph.initializer)}
        inner |= {name for one in graph.node for name in one.output}
        names.update(dict.fromkeys(name for one in graph.node for name in _read(one) if name not in inner))
        names.update(dict.fromkeys(value.name for value in graph.output if value.name not in inner))
    return list(names)


def _to_torch(array: Array) -> torch.Tensor:
    """A copy; torch takes bfloat16 of numpy as integers."""
    import torch

    if array.dtype == BFLOAT16:
        return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def _from_torch(tensor: torch.Tensor) -> Array:
    import torch

    if tensor.dtype == torch.bfloat16:
        found: Array = tensor.contiguous().view(torch.int16).numpy().view(BFLOAT16)
        return found
    made: Array = tensor.numpy()
    return made


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if computes_in(array.dtype) else array


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
