"""``onnxruntime.transformers.optimizer``, with the model type found from the graph.

It reads and writes whole models in memory, and some of its exports are invalid; the core checks what comes out.
"""

from __future__ import annotations

import logging
from pathlib import Path

import onnx

from optim.model import Model

_LARGE_BYTES = 1 << 30


def fuse(model: Model, scratch: Path) -> tuple[Path, dict[str, int]]:
    """Optimize a model into ``scratch``.

    Returns:
        The file written, and how often each operator was fused.
    """
    from onnxruntime.transformers.optimizer import optimize_model

    logging.getLogger("onnxruntime.transformers").setLevel(logging.ERROR)
    optimizer = optimize_model(str(model.path), model_type=model_type(model), opt_level=0, use_gpu=False)
    counts = {name: int(count) for name, count in optimizer.get_fused_operator_statistics().items() if count}
    path = scratch / "fused.onnx"
    size = sum(len(tensor.raw_data) for tensor in optimizer.model.graph.initializer)
    optimizer.save_model_to_file(str(path), use_external_data_format=size > _LARGE_BYTES)
    return path, counts


def model_type(model: Model) -> str:
    """The family whose fusions fit: decoders with a past, RMS normalization, or an encoder."""
    graph = onnx.load(model.path, load_external_data=False).graph
    operators = {node.op_type for node in graph.node}
    has_past = any("past" in value.name for value in graph.input)
    if operators & {"SimplifiedLayerNormalization", "RMSNormalization"} or (has_past and "Sin" in operators):
        return "phi"
    if has_past:
        return "gpt2"
    if "Conv" in operators and any(value.name == "pixel_values" for value in graph.input):
        return "vit"
    return "bert"
