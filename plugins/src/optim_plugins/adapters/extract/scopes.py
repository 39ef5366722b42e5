"""Where weights of adapters are by TorchScript's names of nodes alone: others export with their weights folded.

    /encoder/layer.0/query/base_layer/MatMul     the layer that peft adapts
    /encoder/layer.0/query/default/MatMul        lora_A of adapter 'default'
    /encoder/layer.0/query/default_1/MatMul      lora_B: it takes what the first gives

A layer of peft's is known by its ``base_layer``. What computes in it with weights and is none of this cannot be told,
and is refused: it would stay in the base without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import onnx_ir as ir

from optim_plugins.adapters.extract.constants import PRODUCTS
from optim_plugins.adapters.extract.provenance import PeftPart

FOLDED = "weights"
"""The part of what cannot be told."""

_WEIGHTED = (*PRODUCTS, "Conv", "ConvTranspose", "Gather")
_BASE = "base_layer"
_COUNTED = re.compile(r"_\d+$")
_PASSED = ("Cast", "Identity", "Dropout")


def parts_by_name(graph: ir.Model, data_nodes: Iterable[ir.Node]) -> dict[ir.Node, PeftPart]:
    """Parts of adapters by names of nodes.

    Args:
        graph: whose weights have lost their names.
        data_nodes: those that compute with what a run is fed, and with weights that say nothing.
    """
    paths = {path[: path.index(_BASE)] for node in graph.graph if _BASE in (path := _path(node))}
    if not paths:
        return {}
    modules = _module_names(graph)
    found: dict[ir.Node, PeftPart] = {}
    for node in data_nodes:
        path = _path(node)
        layer = next((path[:size] for size in range(len(path), 0, -1) if path[:size] in paths), None)
        if node.op_type not in _WEIGHTED or layer is None or path[len(layer) : len(layer) + 1] == (_BASE,):
            continue
        name = ".".join(layer)
        module = next((one for one in modules if one == name or one.endswith(f".{name}")), name)
        rest = path[len(layer) :]
        adapter = _COUNTED.sub("", rest[-1]) if rest else "default"
        part = FOLDED
        if node.op_type in PRODUCTS and rest:
            below = _below(node)
            second = below is not None and below in found and found[below] == PeftPart(module, "lora_A", adapter)
            part = "lora_B" if second else "lora_A"
        found[node] = PeftPart(module, part, adapter)
    return found


def _path(node: ir.Node) -> tuple[str, ...]:
    """The modules that a node is in, as TorchScript names it; empty for other names."""
    name = node.name or ""
    return tuple(name[1:].split("/")[:-1]) if name.startswith("/") else ()


def _below(node: ir.Node) -> ir.Node | None:
    found = node.inputs[0].producer() if node.inputs[0] is not None else None
    while found is not None and found.op_type in _PASSED and found.inputs[0] is not None:
        found = found.inputs[0].producer()
    return found


def _module_names(graph: ir.Model) -> list[str]:
    """Adapted modules by the names of their weights that are left."""
    ends = (f".{_BASE}.weight", f".{_BASE}.bias")
    names = {str(value.name) for node in graph.graph for value in node.inputs if value is not None}
    return sorted({name[: -len(end)] for name in names for end in ends if name.endswith(end)})
