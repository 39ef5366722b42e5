"""Sources that a user may name: files, folders, factories, addresses, and what only looks like one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import OptimError, disk_error
from optim.hooks import RESERVED_NAMES
from optim.source import ADAPTER_FILE, CONFIG_FILE, MODULES_FILE
from optim.user_code import FUNCTION_NAME

if TYPE_CHECKING:
    from optim.origin import Origin


_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_MODEL_SUFFIXES = (".onnx", ".ort", ".pb", ".pt", ".pth", ".bin", ".npz", ".safetensors", ".zip", ".tflite")
WEIGHTS = ("*.safetensors", "*.bin", "*.safetensors.index.json")
"""Files that make a folder one of torch."""

_USUAL = "model.onnx"
"""The graph that others in a folder are made of: ``model_quantized.onnx``, ``model_O2.onnx``, ``model_fp16.onnx``."""
_OURS = ("run.json", "export.json", "session.json", "report.json")


def needs_export(spec: str) -> bool:
    """Returns whether ``spec`` looks like a source: a factory, a Hugging Face folder, weights, a model's name on a hub.

    Plugin ``export`` refuses those that cannot be exported.
    """
    path = Path(spec)
    if path.is_dir():
        is_model = any((path / name).is_file() for name in (CONFIG_FILE, ADAPTER_FILE, MODULES_FILE))
        holds_weights = any(map(_is_weights, path.iterdir())) and not any(path.glob("*.onnx"))
        return not is_ours(path) and (is_model or holds_weights)
    if path.is_file():
        return _is_weights(path)
    is_hub_name = _HUB_NAME.fullmatch(spec) and not spec.endswith(_MODEL_SUFFIXES) and not path.parent.is_dir()
    return bool(FUNCTION_NAME.fullmatch(spec) or is_hub_name)


def _is_weights(file: Path) -> bool:
    return file.suffix.lower() in (".safetensors", ".pt", ".pth", ".bin", ".pkl")


def graph_of(path: Path) -> Path:
    """The graph of a folder as optimum leaves it, here or in ``onnx/``; any other path as it is.

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


def is_ours(path: Path) -> bool:
    """Whether optim wrote the graphs of a folder, which keeps config and tokenizer of their source.

    Graphs that point into the weights beside them may be exported anew.
    """
    linked = any(any(path.glob(pattern)) for pattern in WEIGHTS)
    filled = any((path / name).is_file() for name in ("run.json", "session.json"))
    return filled or ((path / "export.json").is_file() and not linked)


_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://.*", re.IGNORECASE | re.DOTALL)


def is_address(spec: str) -> bool:
    """Returns whether it is an address, and no path."""
    return _ADDRESS.fullmatch(spec) is not None


def fetched(spec: str, say: Callable[[str], None]) -> Path:
    """What an address leads to, on this machine; of a path that is none the graph, where it is a folder of optimum.

    Raises:
        OptimError[plugin-missing]: no plugin brings it; says what to install.
        OptimError[plugin-failed]: the plugin that does cannot be used.
        OptimError[bad-address]: it can be no address.
        OptimError[which-graph]: a folder of optimum has several.
        OptimError: as :meth:`optim.origin.Origin.fetch`.
    """
    if not is_address(spec):
        return graph_of(Path(spec))
    origin = _find_origin(spec)
    try:
        return origin.fetch(spec, say)
    except OSError as error:
        raise disk_error(error, f"the files of {spec} could not be stored") from error


def quiet(text: str) -> None:
    """Say nothing of what is going on."""


def name_of(path: Path) -> str:
    """The name of a file or a folder; of a repository in huggingface_hub's cache its own, and not its commit."""
    repo = path.parent.parent.name
    cached = path.parent.name == "snapshots" and repo.startswith("models--")
    return repo.rpartition("--")[2] if cached else path.name


def _find_origin(spec: str) -> Origin:
    from optim._engine.plugins.registry import load_registry

    registry = load_registry()
    scheme = spec.partition("://")[0].lower()
    offered = registry.offered("origin")
    if scheme in offered:
        found: type[Origin] = offered[scheme].value
        return found()
    if owner := RESERVED_NAMES["origin"].get(scheme):
        registry.require_plugin(owner, f"{spec} cannot be downloaded")
    raise OptimError.usage(
        "bad-address",
        f"{spec} cannot be downloaded",
        f"no plugin brings models from {scheme}://" + (f"; there are {', '.join(offered)}" if offered else ""),
        "name a file or a folder of this machine",
    )
