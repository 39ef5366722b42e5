"""Opens the layout ``openvino`` by OpenVINO alone, in whatever Python has it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any


def missing() -> str:
    """What is not installed."""
    return "" if importlib.util.find_spec("openvino") else "openvino is not installed"


def open_and_run(folder: Path, samples: list[dict[str, Any]], told: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Compile for the device and with the properties that the folder names, and run every sample."""
    import openvino

    ((device, properties),) = json.loads((folder / told["properties"]).read_text(encoding="utf-8")).items()
    compiled = openvino.Core().compile_model(folder / "openvino_model.xml", device, properties)
    taken = {name for port in compiled.inputs for name in port.get_names()}
    outputs = []
    for sample in samples:
        found = compiled({name: array for name, array in sample.items() if name in taken})
        outputs.append({name: found[compiled.output(name)].copy() for name in told["outputs"]})
    return f"openvino {openvino.__version__}", outputs
