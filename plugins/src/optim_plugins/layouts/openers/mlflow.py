"""Opens the layout ``mlflow``: by ``mlflow.pyfunc``, whose signature says which arrays it takes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def missing() -> str:
    """What is not installed."""
    for module in ("mlflow", "pandas", "onnx", "onnxruntime"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    return ""


def open_and_run(folder: Path, samples: list[dict[str, Any]], told: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Run every sample as MLflow serves it."""
    import mlflow
    import mlflow.pyfunc

    model = mlflow.pyfunc.load_model(str(folder))
    if model.metadata.signature is None:
        raise ValueError("MLflow reads no signature from it")
    return f"mlflow {mlflow.__version__}", [model.predict(sample) for sample in samples]
