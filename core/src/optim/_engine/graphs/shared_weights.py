"""A stand-in's weights are those of the whole model's first layers, so they need not lie on the disk twice."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import onnx_ir as ir
from onnx_ir import TensorProtocol

from optim.model import Model
from optim.onnx.data_files import pieces, placed, static_shape
from optim.onnx.files import EXTERNAL_FROM_BYTES

_BEGINNING_BYTES = 4096


def lay_on_weights_of(graph: ir.Model, whole: Model) -> None:
    """Point initializers into the files of another model where its tensors have the same bytes.

    Args:
        graph: changed in place, before it is written; one tensor at a time passes through memory.
        whole: in the store that the graph is written to.
    """
    there: defaultdict[object, list[ir.ExternalTensor]] = defaultdict(list)
    for value in whole.ir().graph.initializers.values():
        if isinstance(tensor := value.const_value, ir.ExternalTensor):
            there[_beginning(tensor, next(pieces(tensor), b""))].append(tensor)
    for value in graph.graph.initializers.values():
        tensor = value.const_value
        if tensor is None or tensor.dtype == ir.DataType.STRING or tensor.nbytes < EXTERNAL_FROM_BYTES:
            continue
        data = tensor.tobytes()
        same = next((one for one in there.get(_beginning(tensor, data), ()) if _has(one, data)), None)
        if same is not None:
            value.const_value = placed(tensor, Path(same.path), same.offset, same.length)


def _beginning(tensor: TensorProtocol, data: bytes) -> object:
    """What tells most tensors apart without reading them whole."""
    return tensor.dtype, tuple(static_shape(tensor)), data[:_BEGINNING_BYTES]


def _has(tensor: ir.ExternalTensor, data: bytes) -> bool:
    """Whether a tensor has these bytes."""
    at, view = 0, memoryview(data)
    for piece in pieces(tensor):
        if view[at : at + len(piece)] != piece:
            return False
        at += len(piece)
    return at == len(data)
