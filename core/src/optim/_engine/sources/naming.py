"""Sources that a user may name: files, folders, factories, addresses, and what only looks like one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from optim.errors import OptimError, disk_error
from optim.hooks import RESERVED_NAMES
from optim.source import ADAPTER_FILE, CONFIG_FILE, MODULES_FILE
from optim.user_code import FUNCTION_NAME

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_MODEL_SUFFIXES = (".onnx", ".ort", ".pb", ".pt", ".pth", ".bin", ".npz", ".safetensors", ".zip", ".tflite")
WEIGHTS = ("*.safetensors", "*.bin", "*.safetensors.index.json")
"""Files that make a folder one of torch."""

_USUAL = "model.onnx"
"""The graph that others in a folder are made of: ``model_quantized.onnx``, ``model_O2.onnx``, ``model_fp16.onnx``."""
_OURS = ("run.json", "export.json", "session.json", "report.json")
_PICKLES = (".pt", ".pth", ".bin", ".pkl")


def needs_export(spec: str) -> bool:
    """Returns whether ``spec`` is a source that must be exported first: a factory, or a Hugging Face model folder.

    Raises:
        OptimError[source-is-hub-name]: it is the name of a model on a hub; nothing is downloaded.
        OptimError[source-is-weights]: a file with weights, and not how to compute with them.
        OptimError[source-without-config]: a folder with weights but without ``config.json``.
    """
    path = Path(spec)
    if path.is_dir():
        return _folder_needs_export(path)
    if path.is_file():
        if path.suffix.lower() not in (*_PICKLES, ".safetensors"):
            return False
        what = "tensors" if path.suffix == ".safetensors" else "a pickle of torch"
        raise OptimError.usage(
            "source-is-weights",
            f"{path} is not a model that can be exported",
            f"it holds {what}, and not how to compute with them",
            "write a function that builds the module and loads this file, and name it: package.module:function",
        )
    if FUNCTION_NAME.fullmatch(spec):
        return True
    if _HUB_NAME.fullmatch(spec) and not spec.endswith(_MODEL_SUFFIXES) and not path.parent.is_dir():
        raise OptimError.usage(
            "source-is-hub-name",
            f"there is no folder {spec}",
            "it looks like a model of the Hugging Face Hub; the address of such a model begins with hf://",
            f"optim run hf://{spec}   # optim downloads it",
        )
    return False


def graph_of(path: Path) -> Path:
    """The graph of a folder as optimum leaves it, here or in ``onnx/``; any other path as it is.

    A folder that has weights of torch too is a source: what is exported from them is proved, and graphs beside them
    may be anything.
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


def _folder_needs_export(path: Path) -> bool:
    if is_ours(path):
        return False
    if any((path / name).is_file() for name in (CONFIG_FILE, ADAPTER_FILE, MODULES_FILE)):
        return True
    weights = sorted(file.name for file in path.iterdir() if file.suffix in (".safetensors", *_PICKLES))
    if weights and not any(path.glob("*.onnx")):
        raise OptimError(
            "source-without-config",
            f"{path} is not a Hugging Face model folder",
            f"it holds {', '.join(weights[:4])}, but no {CONFIG_FILE}",
            f"save the whole model: model.save_pretrained('{path}')",
        )
    return False


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
    """The place on this machine that an address leads to; for another path the graph, if it is a folder of optimum."""
    if not is_address(spec):
        return graph_of(Path(spec))
    from optim._engine.plugins.registry import load_registry

    registry, scheme = load_registry(), spec.partition("://")[0].lower()
    offered = registry.offered("origin")
    if scheme in offered:
        try:
            path: Path = offered[scheme].value().fetch(spec, say)
        except OSError as error:
            raise disk_error(error, f"the files of {spec} could not be stored") from error
        return path
    if owner := RESERVED_NAMES["origin"].get(scheme):
        registry.require_plugin(owner, f"{spec} cannot be downloaded")
    raise OptimError.usage(
        "bad-address",
        f"{spec} cannot be downloaded",
        f"no plugin brings models from {scheme}://" + (f"; there are {', '.join(offered)}" if offered else ""),
        "name a file or a folder of this machine",
    )


def quiet(text: str) -> None:
    """Say nothing of what is going on."""


def name_of(path: Path) -> str:
    """The name of a file or a folder; of a repository in huggingface_hub's cache its own, and not its commit."""
    repo = path.parent.parent.name
    cached = path.parent.name == "snapshots" and repo.startswith("models--")
    return repo.rpartition("--")[2] if cached else path.name
