"""Which of the dtypes of transformers.js a graph is, by what it computes with."""

from __future__ import annotations

from pathlib import Path

_INTEGER_KERNELS = {
    "MatMulInteger",
    "ConvInteger",
    "DynamicQuantizeMatMul",
    "MatMulIntegerToFloat",
    "QLinearMatMul",
    "QLinearConv",
    "QGemm",
    "QAttention",
    "DynamicQuantizeLSTM",
    "QuantizeLinear",
}
_BLOCKS = "MatMulNBits"


def dtype_of_graph(path: Path) -> str:
    """``q4``, ``q8``, ``fp16`` or ``fp32``."""
    import onnx
    from onnx import TensorProto

    from optim.onnx import operator_counts

    counts = operator_counts(path)
    if any(name.endswith(_BLOCKS) for name in counts):
        return "q4"
    if any(name.rpartition(".")[2].rpartition(":")[2] in _INTEGER_KERNELS for name in counts):
        return "q8"
    graph = onnx.load(path, load_external_data=False).graph
    sizes: dict[int, int] = {}
    for tensor in graph.initializer:
        count = 1
        for size in tensor.dims:
            count *= size
        sizes[tensor.data_type] = sizes.get(tensor.data_type, 0) + count
    halves = sizes.get(TensorProto.FLOAT16, 0)
    return "fp16" if halves > sizes.get(TensorProto.FLOAT, 0) else "fp32"
