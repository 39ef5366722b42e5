"""What the quantize passes share: one job of the worker, and its model brought into the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optim import Context, Model, PassResult
from optim.isolation.client import run_isolated
from optim_inc.environment import ISOLATION

OPERATORS = ("MatMul", "Gemm", "Conv")


def quantizable(model: Model) -> list[str]:
    """Names of the nodes with a constant weight, in graph order."""
    graph = model.ir().graph
    return [
        str(node.name)
        for node in graph
        if node.op_type in OPERATORS and any(value and value.is_initializer() for value in node.inputs[1:2])
    ]


def quantize(
    model: Model, context: Context, config: Mapping[str, Any], keep: Sequence[str], samples: Sequence[str] = ()
) -> PassResult:
    """Run the job ``quantize`` on ``model``; see ``jobs.py`` for its request."""
    output = context.scratch / "quantized.onnx"
    known = set(quantizable(model))
    request = {
        "model": str(model.path), "output": str(output), "config": dict(config),
        "keep": [name for name in keep if name in known], "samples": list(samples),
    }  # fmt: skip
    answer = run_isolated(ISOLATION, "quantize", request, on_progress=context.report_progress)
    unknown = sorted(set(keep) - known)
    notes = (f"keep names no quantizable node: {', '.join(unknown)}",) if unknown else ()
    if not answer["quantized"]:
        return PassResult(model, changed=False, notes=(*notes, "neural-compressor quantized no operator"))
    return PassResult(context.adopt(output, model), changed=True, notes=notes, counts=answer["quantized"])
