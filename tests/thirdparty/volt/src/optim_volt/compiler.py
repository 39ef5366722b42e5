"""ONNX to a ``.volt`` program."""

from __future__ import annotations

import json

from optim import Model, OptimError

PROGRAM = "program.volt"


def unsupported(model: Model) -> str:
    """The first node that Volt cannot run, or nothing."""
    from volt_runtime import OPERATORS

    for node in model.ir().graph:
        plain = not node.domain and node.op_type in OPERATORS and len(node.outputs) == 1
        if not plain or (node.op_type == "Gemm" and node.attributes):
            return f"{node.op_type} at node {node.name}"
    return ""


def compiled(model: Model) -> str:
    """The text of the program.

    Raises:
        OptimError[volt-operator]: Volt has no such operator.
    """
    from volt_runtime import VERSION, pack

    if reason := unsupported(model):
        raise OptimError(
            "volt-operator",
            f"Volt cannot run {model.path.name}",
            f"it has no {reason}",
            "run it on another target: optim targets",
        )
    graph = model.ir().graph
    steps = [
        {"operator": node.op_type, "inputs": [one.name for one in node.inputs], "output": node.outputs[0].name}
        for node in graph
    ]
    weights = {name: pack(value.const_value.numpy()) for name, value in sorted(graph.initializers.items())}
    program = {
        "version": VERSION,
        "inputs": [info.name for info in model.inputs],
        "outputs": [info.name for info in model.outputs],
        "steps": steps,
        "weights": weights,
    }
    return json.dumps(program, sort_keys=True)
