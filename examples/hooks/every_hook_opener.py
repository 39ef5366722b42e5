"""Opens the layout of ``every_hook`` by its consumer; it runs in the consumer's Python, without optim."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def missing() -> str:
    """What is not installed."""
    return "" if importlib.util.find_spec("onnxruntime") else "onnxruntime is not installed"


def open_and_run(folder: Path, samples: list[dict[str, Any]], told: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Run every sample as the consumer does."""
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "1" / "model.onnx")
    names = [output.name for output in session.get_outputs()]
    outputs = [dict(zip(names, session.run(None, sample), strict=True)) for sample in samples]
    return f"onnxruntime {onnxruntime.__version__}", outputs
