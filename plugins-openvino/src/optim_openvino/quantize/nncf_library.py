"""NNCF, imported without what is not needed: it sends nothing, prints nothing, and loads no torch.

Torch is only there for torch models, and would take three times as long to import as all else. NNCF imports it itself,
and again with each call, to ask whether a model is one of torch.

NNCF has onnx infer shapes nine times for one quantization, each time of a model that is written and read again with all
its weights. Shapes need none of those.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from optim_openvino.runtime.quiet_import import quiet_openvino

if TYPE_CHECKING:
    import onnx

INSTALL = "pip install 'nncf>=3.4'"

_WEIGHT_BYTES = 1024
"""What is smaller may be a shape."""


def missing() -> str | None:
    """Why its passes cannot run, or None."""
    return None if importlib.util.find_spec("nncf") is not None else f"NNCF is not installed: {INSTALL}"


@contextlib.contextmanager
def quiet_nncf() -> Iterator[Any]:
    """The module ``nncf``; while it lasts, its progress bars go nowhere."""
    os.environ.setdefault("NNCF_CI", "1")  # no telemetry
    quiet_openvino()
    with contextlib.redirect_stdout(io.StringIO()), _without_torch(), _shapes_without_weights():
        import nncf
        import nncf.onnx

        nncf.set_log_level(logging.ERROR)
        yield nncf


@contextlib.contextmanager
def _without_torch() -> Iterator[None]:
    """Imports of torch fail, unless it was imported before."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # how Python says that a module cannot be imported
    try:
        yield
    finally:
        del sys.modules["torch"]


@contextlib.contextmanager
def _shapes_without_weights() -> Iterator[None]:
    """Shapes are inferred of a graph that lacks its weights, and noted in the graph that has them."""
    from onnx import shape_inference

    infer = shape_inference.infer_shapes

    def inferred(model: onnx.ModelProto, *args: bool) -> onnx.ModelProto:
        found = infer(_without_weights(model), *args).graph
        for there, said in ((model.graph.value_info, found.value_info), (model.graph.output, found.output)):
            del there[:]
            there.extend(said)
        return model

    shape_inference.infer_shapes = inferred  # type: ignore[assignment]  # NNCF gives it graphs alone, no bytes
    try:
        yield
    finally:
        shape_inference.infer_shapes = infer


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph; of a weight its name, its type and its sizes."""
    from onnx import ModelProto

    light = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = model.graph
    light.graph.name = graph.name
    for name in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(light.graph, name).extend(getattr(graph, name))
    for tensor in graph.initializer:
        if tensor.ByteSize() > _WEIGHT_BYTES:
            light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            light.graph.initializer.add().CopyFrom(tensor)
    return light
