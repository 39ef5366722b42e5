"""What runs in the environment of neural-compressor: no optim here, and nothing but files and JSON values pass.

``quantization.fit`` returns None for an exception of its own as well as for a missed goal: its log has the true cause.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from neural_compressor import quantization
from neural_compressor.config import PostTrainingQuantConfig

Progress = Callable[[float, str], None]
_FLOAT = {"activation": {"dtype": ["fp32"]}, "weight": {"dtype": ["fp32"]}}


class _Calibration:
    """Samples as neural-compressor takes them: (feeds, label), one ``.npz`` each."""

    batch_size = 1

    def __init__(self, files: list[str]) -> None:
        self._files = files

    def __iter__(self) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        for path in self._files:
            with np.load(path) as arrays:
                yield dict(arrays), 0


class _Errors(logging.Handler):
    """What the library logs as errors and would otherwise be lost with its None."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def quantize(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Post-training quantization.

    Args:
        request: ``model``, ``output``: paths; ``config``: of PostTrainingQuantConfig; ``keep``: node names left in
            float; ``samples``: paths of ``.npz``, empty for dynamic.
        progress: called with a share in 0..1 and a few words.

    Returns:
        ``quantized``: operators that hold integers, by type.
    """
    progress(0.1, "quantizing with neural-compressor")
    config = PostTrainingQuantConfig(
        **request["config"], op_name_dict=dict.fromkeys(request["keep"], _FLOAT) or None
    )
    calibration = _Calibration(request["samples"]) if request["samples"] else None
    errors = _Errors()
    logger = logging.getLogger("neural_compressor")
    logger.addHandler(errors)
    try:
        quantized = quantization.fit(request["model"], config, calib_dataloader=calibration)
    finally:
        logger.removeHandler(errors)
    if quantized is None:
        raise RuntimeError(_cause(errors.lines))
    progress(0.9, "writing")
    output = Path(request["output"])
    quantized.save(str(output))
    counts: dict[str, int] = {}
    for node in onnx.load(str(output), load_external_data=False).graph.node:
        if any(word in node.op_type for word in ("Integer", "QLinear", "QuantizeLinear", "QAttention")):
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return {"quantized": counts}


def _cause(lines: list[str]) -> str:
    said = [line.strip() for text in lines for line in text.splitlines() if line.strip()]
    exceptions = [line for line in said if line.split(":")[0].endswith(("Error", "Exception"))]
    return (exceptions or said or ["neural-compressor returned nothing and logged no error"])[-1]
