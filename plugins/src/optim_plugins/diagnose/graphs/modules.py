"""The PyTorch module that a node was exported from, as the exporter wrote it into the graph.

The dynamo exporter keeps it in the metadata of a node, from the root inwards, with the operator last::

    pkg.torch.onnx.name_scopes       ['', 'module', 'module.layers.0', 'module.layers.0.up', 'linear']
    pkg.torch.onnx.class_hierarchy   [..., 'torch.nn.modules.linear.Linear', 'aten.linear.default']

TorchScript writes it into the name of the node: ``/layers.0/up/MatMul``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

import onnx_ir as ir

_SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"
_WRAPPER = "module."
"""The name, in optim's exporter, of the module that wraps a source."""


def modules_of(nodes: Iterable[ir.Node]) -> tuple[str, ...]:
    """The innermost module of each node, each once, e.g. ``layers.0.up (Linear)``; empty if the graph names none."""
    return tuple(dict.fromkeys(name for node in nodes if (name := _module_of(node))))


def _module_of(node: ir.Node) -> str:
    scopes = _written(node, _SCOPES)[:-1]
    if not scopes:
        name = node.name or ""
        return "/".join(name.split("/")[1:-1]) if name.startswith("/") else ""
    module, classes = scopes[-1].removeprefix(_WRAPPER), _written(node, _CLASSES)
    if module in ("", _WRAPPER[:-1]):
        return ""
    kind = classes[-2].rpartition(".")[2] if len(classes) > 1 else ""
    return f"{module} ({kind})" if kind else module


def _written(node: ir.Node, key: str) -> list[str]:
    try:
        found = ast.literal_eval(node.metadata_props.get(key, "[]"))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return list(map(str, found)) if isinstance(found, list) else []
