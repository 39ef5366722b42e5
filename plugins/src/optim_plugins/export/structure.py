"""Whether an exported graph has the inputs, outputs and dynamic dimensions that its component declares.

An exporter loses them without a word: a size of 1 in the example becomes a constant, and a mask of ones that changes
nothing in the example is read by no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optim.errors import OptimError

if TYPE_CHECKING:
    import onnx_ir as ir

    from optim.model import TensorInfo
    from optim.source import Component


def require_structure(graph: ir.Model, component: Component) -> None:
    """Refuse a graph that is not what the component declares.

    Raises:
        OptimError[export-input-dropped]: an input is missing, or no node reads it.
        OptimError[export-dimension-fixed]: a dimension meant to be dynamic has a size.
        OptimError[export-output-missing]: an output is missing.
    """
    inputs = {value.name: value for value in graph.graph.inputs}
    used = _used(graph)
    for declared in component.inputs:
        value = inputs.get(declared.name)
        if value is None or declared.name not in used:
            raise _dropped(declared.name, component, there=value is not None)
        _require_dynamic(value, declared, component)
    outputs = {value.name for value in graph.graph.outputs}
    for missing in [info.name for info in component.outputs if info.name not in outputs]:
        raise OptimError(
            "export-output-missing",
            f"the exported {component.name} has no output '{missing}'",
            f"it has {', '.join(sorted(map(str, outputs)))}",
            "return the output from the module's forward",
        )


def _used(graph: ir.Model) -> set[str]:
    """Names of values that some node reads, those of subgraphs too, or that are outputs."""
    read = {value.name for node in graph.graph.all_nodes() for value in node.inputs if value is not None}
    return {name for name in read | {value.name for value in graph.graph.outputs} if name is not None}


def _require_dynamic(value: ir.Value, declared: TensorInfo, component: Component) -> None:
    shape: Sequence[object] = tuple(value.shape) if value.shape is not None else ()
    if declared.shape is None or value.shape is None:
        return
    if len(shape) != len(declared.shape):
        raise OptimError(
            "export-input-dropped",
            f"input '{declared.name}' of the exported {component.name} has another rank",
            f"{len(declared.shape)} dimensions were meant, the graph has {len(shape)}",
            "correct the name in --dynamic",
        )
    for axis, (wanted, found) in enumerate(zip(declared.shape, shape, strict=True)):
        if isinstance(wanted, str) and isinstance(found, int):
            size = component.example[declared.name].shape[axis]
            raise OptimError(
                "export-dimension-fixed",
                f"dimension {axis} ('{wanted}') of input '{declared.name}' became the constant {found}",
                f"the example has size {size} there, and the module computes something else for it than for others"
                if size != 1
                else "the example has size 1 there, which an exporter takes for a constant",
                f"give an example whose '{wanted}' is at least 2, or leave it fixed: --dynamic "
                f"{declared.name}={_as_option(declared, axis)}",
            )


def _as_option(declared: TensorInfo, fixed: int) -> str:
    assert declared.shape is not None
    names = [size if isinstance(size, str) and axis != fixed else "" for axis, size in enumerate(declared.shape)]
    return ",".join(names)


def _dropped(name: str, component: Component, *, there: bool) -> OptimError:
    cause = "no node of the graph reads it" if there else "the graph does not have it"
    return OptimError(
        "export-input-dropped",
        f"input '{name}' was dropped while {component.name} was exported",
        f"{cause}: the module does not use it, or not on this example (as a mask of ones)",
        f"give an example on which '{name}' matters, or take it out of the module's forward",
    )
