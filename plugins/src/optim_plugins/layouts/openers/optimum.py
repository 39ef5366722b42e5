"""Opens the layout ``optimum``: by sentence-transformers where the folder is one of its models, else by optimum."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any


def missing() -> str:
    """What is not installed."""
    for module in ("optimum", "onnxruntime"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    if importlib.util.find_spec("optimum.onnxruntime") is None:
        return "optimum is installed without its part for ONNX Runtime, optimum-onnx"
    return ""


def open_and_run(folder: Path, samples: list[dict[str, Any]], told: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Run every sample in the model that the library opened."""
    pooled = (folder / "modules.json").is_file() and importlib.util.find_spec("sentence_transformers") is not None
    names = ["optimum-onnx", *(["sentence-transformers"] if pooled else [])]
    model = _of_sentence_transformers(folder, told) if pooled else _of_optimum(folder, told)
    outputs = [dict(model(**sample).items()) for sample in samples]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names), outputs


def _of_sentence_transformers(folder: Path, told: dict[str, Any]) -> Any:
    from sentence_transformers import SentenceTransformer

    arguments = {"file_name": told["file"], "provider": told["provider"], "subfolder": "onnx"}
    return SentenceTransformer(str(folder), backend="onnx", model_kwargs=arguments, device="cpu")[0].auto_model


def _of_optimum(folder: Path, told: dict[str, Any]) -> Any:
    from optimum.onnxruntime import ORTModelForCustomTasks

    return ORTModelForCustomTasks.from_pretrained(
        folder, subfolder="onnx", file_name=told["file"], provider=told["provider"], local_files_only=True
    )
