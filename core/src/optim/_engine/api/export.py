"""``optim.export``: from a torch module or a Hugging Face folder to verified ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.source import SourceRequest, Weights

if TYPE_CHECKING:
    from optim._engine.reports.answers import ExportedFolder


def export(
    source: str | PathLike[str],
    output: str | PathLike[str],
    *,
    target: str = "cpu",
    arguments: Mapping[str, Any] | None = None,
    dynamic: Mapping[str, Sequence[str]] | None = None,
    state: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    task: str = "",
    max_drift: float | None = None,
    weights: Weights = "copy",
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    passes: Sequence[str] | Mapping[str, Mapping[str, Any] | None] = (),
    without: Sequence[str] = (),
    timeout: float = 3600.0,
    seed: int = 0,
    fresh: bool = False,
    say: Callable[[str], None] | None = None,
) -> ExportedFolder:
    """Exports a source to ONNX and proves that the graphs are equal to it. Downloads nothing.

    Args:
        source: a Hugging Face folder, or ``package.module:factory``, which returns a module, or a module and inputs.
        output: folder for the graphs.
        target: where the model will run.
        arguments: keyword arguments of the factory.
        dynamic: names of the dimensions by input; an empty name leaves a dimension fixed.
        state: arguments of the module that carry state from step to step.
        rename: name in the graph, by input or output of the module.
        task: task of a Hugging Face model; by default that of its architecture.
        max_drift: largest drift of each output of the graph from the source; by default rounding only.
        weights: ``copy``, or ``link``: the graph points into the user's safetensors files.
        allow_pickle: read weights from a pickle, which can run any code.
        trust_remote_code: run the code in the folder.
        passes: required passes by name; a mapping gives their options.
        without: passes and exporters to leave out.
        timeout: time limit for each of the three jobs, in seconds.
        seed: random seed.
        fresh: ignore the cache.
        say: function that gets progress, a line at a time.

    Returns:
        Each component with its file and its drift from the source. ``load()`` opens the folder.

    Raises:
        OptimError: the source cannot be loaded or exported, or its graphs compute something else.

    Examples:
        >>> made = optim.export("path/to/gpt2", "exported")
        >>> made.components[0].drift
        2.4e-07
    """
    from optim._engine.plugins.registry import load_registry, require_target
    from optim._engine.sources.exported import Choice, ExportConditions, find_pipeline
    from optim._engine.sources.naming import fetched, quiet
    from optim._engine.store import Store

    said = say or quiet
    request = SourceRequest(
        str(fetched(fspath(source), said)),
        arguments=dict(arguments or {}),
        dynamic={name: tuple(dimensions) for name, dimensions in (dynamic or {}).items()},
        state=tuple(state),
        rename=dict(rename or {}),
        task=task,
        max_drift=max_drift,
        weights=weights,
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
        seed=seed,
    )
    named = dict(passes.items() if isinstance(passes, Mapping) else ((name, None) for name in passes))
    choice = Choice(named, tuple(sorted(set(without))))
    registry = load_registry()
    pipeline, device = find_pipeline(registry, request.spec), require_target(registry, target)
    conditions = ExportConditions(registry, Store(), said, device, timeout, choice, fresh)
    return pipeline.write(request, Path(output), conditions)
