"""What the passes share: one job of the worker, and its model brought into the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim import Context, Model, PassResult
from optim.isolation import run_isolated
from optim_inc.environment import ISOLATION
from optim_inc.product_quantizer import PRODUCTS, quantizable

if TYPE_CHECKING:
    from optim_inc.options import GraphLevel

_MOST_SECONDS = 3600.0

IN_FLOAT = {"activation": {"dtype": ["fp32"]}, "weight": {"dtype": ["fp32"]}}
"""Of an operator that is not quantized."""

_GRAPH_LEVELS = {"none": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}


def graph_recipe(level: GraphLevel) -> dict[str, Any]:
    """The recipe for what ONNX Runtime does to the graph before it is quantized; the library's choice for auto."""
    return {} if level == "auto" else {"graph_optimization_level": _GRAPH_LEVELS[level]}


def reduce_range(weight_bits: int | str) -> bool | None:
    """Whether weights have 7 bits; None leaves it to the library."""
    return None if weight_bits == "auto" else weight_bits == 7


def quantize(
    model: Model,
    context: Context,
    config: Mapping[str, Any],
    keep: Sequence[str],
    *,
    samples: int = 0,
    alike: bool = False,
    tuning: Mapping[str, Any] | None = None,
) -> PassResult:
    """Run the job ``quantize`` on a model.

    Args:
        model: to be quantized.
        context: of the pass.
        config: of neural-compressor's PostTrainingQuantConfig.
        keep: names of nodes left in float.
        samples: to calibrate on, at most.
        alike: only samples of equal shapes: SmoothQuant and AWQ stack them, and a histogram that grows with each sample
            gets wrong and slow.
        tuning: where models are to be tried until one is good enough, see ``jobs.py``.
    """
    output = context.scratch / "quantized.onnx"
    known = set(quantizable(model, PRODUCTS))
    unknown = sorted(set(keep) - known)
    notes = (f"keep names no quantizable node: {', '.join(unknown)}",) if unknown else ()
    if known <= set(keep):
        return PassResult(model, changed=False, notes=(*notes, "keep leaves nothing to quantize"))
    written, about_samples = _write_samples(samples, context, alike=alike)
    notes = (*notes, *about_samples)
    request = {
        "model": str(model.path),
        "output": str(output),
        "config": dict(config),
        "tuning": tuning and dict(tuning),
        "keep": [name for name in keep if name in known],
        "samples": written,
    }
    answer = run_isolated(
        ISOLATION,
        "quantize",
        request,
        timeout_s=_MOST_SECONDS,
        on_progress=context.report_progress,
        calls={"accuracy": _accuracy(context)},
    )
    if answer["trials"]:
        tried = ", ".join(f"{trial:.4g}" for trial in answer["trials"][1:])
        notes = (*notes, f"accuracy {answer['trials'][0]:.4g} in float; of the models tried: {tried}")
    if answer["quantized"] is None:
        return PassResult(model, changed=False, notes=("no model that was tried is accurate enough", *notes))
    if not answer["quantized"]:
        return PassResult(model, changed=False, notes=(*notes, "neural-compressor quantized no operator"))
    return PassResult(context.adopt(output, model), changed=True, notes=notes, counts=answer["quantized"])


def _accuracy(context: Context) -> Callable[[Any], float]:
    def accuracy(path: Any) -> float:
        assert context.score is not None, "the pass requires it"
        return max(context.score(Path(path)), -1e9)  # JSON has no infinity

    return accuracy


def _write_samples(most: int, context: Context, *, alike: bool) -> tuple[list[str], tuple[str, ...]]:
    """Write samples for the worker; alike: of the shapes that most samples have, else of the larger ones.

    Returns:
        Their paths, and a note where samples were left out for their shapes.
    """
    import numpy as np

    chosen: set[int] | None = None
    notes: tuple[str, ...] = ()
    if alike and most:
        groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for index, feeds in enumerate(context.samples()):
            groups.setdefault(tuple(feeds[name].shape for name in sorted(feeds)), []).append(index)
        chosen = set(max(groups.items(), key=lambda group: (len(group[1]), group[0]))[1])
        if len(groups) > 1:
            there = sum(map(len, groups.values()))
            notes = (f"calibrated on the {min(most, len(chosen))} of {there} samples that have equal shapes",)
    paths: list[str] = []
    for index, feeds in enumerate(context.samples()):
        if len(paths) == most:
            break
        if chosen is None or index in chosen:
            path = context.scratch / f"sample-{index}.npz"
            np.savez(path, allow_pickle=False, **feeds)
            paths.append(str(path))
    return paths, notes
