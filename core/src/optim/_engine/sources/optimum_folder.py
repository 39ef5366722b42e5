"""Folders as optimum leaves them: ``config.json`` and graphs, here or in ``onnx/``, and no weights of torch."""

from __future__ import annotations

from pathlib import Path

from optim._engine.sources.naming import WEIGHTS
from optim.errors import OptimError
from optim.source import CONFIG_FILE

_USUAL = "model.onnx"
"""The graph that others in the folder are made of: ``model_quantized.onnx``, ``model_O2.onnx``, ``model_fp16.onnx``."""

_OURS = ("run.json", "export.json", "session.json", "report.json")


def graph_of(path: Path) -> Path:
    """The graph of a folder of optimum; any other path as it is.

    A folder that has weights of torch too is a source: what is exported from them is proved, and graphs beside them
    may be anything.

    Raises:
        OptimError[which-graph]: the folder has several graphs, and none that the others are made of.
    """
    if not (path / CONFIG_FILE).is_file() or any((path / name).exists() for name in _OURS):
        return path
    graphs = sorted([*path.glob("*.onnx"), *path.glob("onnx/*.onnx")])
    if not graphs or any(any(path.glob(pattern)) for pattern in WEIGHTS):
        return path
    usual = [graph for graph in graphs if graph.name == _USUAL]
    if len(graphs) == 1 or len(usual) == 1:
        return (usual or graphs)[0]
    names = ", ".join(str(graph.relative_to(path)) for graph in graphs[:6])
    raise OptimError.usage("which-graph", f"{path} has several graphs", f"they are {names}", f"name one: {graphs[0]}")


def is_genai_folder(path: Path) -> bool:
    """Whether it is a folder of onnxruntime-genai, whatever else it is."""
    return (path / "genai_config.json").is_file()
