"""Folders of onnxruntime-genai: how they are known, and whether that program is here. Imports nothing heavy."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from optim.errors import OptimError

CONFIG_FILE = "genai_config.json"


def is_genai_folder(path: Path) -> bool:
    """Whether it is one, whatever else it is."""
    return (path / CONFIG_FILE).is_file()


def require_installed(folder: Path) -> None:
    """Refuse a folder that nothing here runs.

    Raises:
        OptimError[runtime-missing]: onnxruntime-genai is not installed.
    """
    if importlib.util.find_spec("onnxruntime_genai") is None:
        raise OptimError.usage(
            "runtime-missing",
            f"nothing here runs {folder}",
            f"it is a folder of onnxruntime-genai, as {CONFIG_FILE} says, and that is not installed",
            "pip install onnxruntime-genai",
        )
