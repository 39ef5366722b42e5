"""A stand-in's weights are those of the whole model's first layers, so they need not lie on the disk twice."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from optim.model import Model
from optim.onnx.data_files import pieces, placed, static_shape
from optim.onnx.files import save_in_store

if TYPE_CHECKING:
    from onnx_ir import TensorProtocol


def with_weights_of(small: Model, whole: Model) -> Model:
    """The same model, whose tensors lie in the files of another one where these have the same bytes.

    Args:
        small: in the store; its own files stay.
        whole: in the same store.
    """
    graph = small.ir()
    there: defaultdict[object, list[ir.ExternalTensor]] = defaultdict(list)
    for value in whole.ir().graph.initializers.values():
        if isinstance(tensor := value.const_value, ir.ExternalTensor):
            there[_beginning(tensor)].append(tensor)
    for value in graph.graph.initializers.values():
        if isinstance(tensor := value.const_value, ir.ExternalTensor):
            same = next((one for one in there[_beginning(tensor)] if _equal(tensor, one)), None)
            if same is not None:
                value.const_value = placed(tensor, Path(same.path), same.offset, same.length)
    return save_in_store(graph, small.path.parent, session=small.session)


def _beginning(tensor: TensorProtocol) -> object:
    """What tells most tensors apart without reading them whole."""
    return tensor.dtype, tuple(static_shape(tensor)), next(pieces(tensor), b"")


def _equal(tensor: TensorProtocol, other: TensorProtocol) -> bool:
    """Whether two tensors of one type and shape have the same bytes."""
    return all(one == two for one, two in zip(pieces(tensor), pieces(other), strict=True))
