"""Opens the layouts ``onnxruntime`` and ``onnx``: by ONNX Runtime, with the settings beside the file."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any


def missing() -> str:
    """What is not installed."""
    return "" if importlib.util.find_spec("onnxruntime") else "onnxruntime is not installed"


def open_and_run(folder: Path, samples: list[dict[str, Any]], told: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Run every sample."""
    import onnxruntime as ort

    saved = json.loads((folder / "session.json").read_text(encoding="utf-8"))
    options = ort.SessionOptions()
    for name, value in saved["session_options"].items():
        members = getattr(type(getattr(options, name)), "__members__", None)
        setattr(options, name, members[value] if members else value)
    for key, text in saved["session_config"].items():
        options.add_session_config_entry(key, text)
    session = ort.InferenceSession(folder / told["graph"], options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    outputs = [dict(zip(names, session.run(names, sample), strict=True)) for sample in samples]
    return f"onnxruntime {ort.__version__}", outputs
