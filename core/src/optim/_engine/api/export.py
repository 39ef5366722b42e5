"""``optim.export``: from a torch module or a Hugging Face folder to verified ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import OptimError
from optim.source import SourceRequest, Weights

if TYPE_CHECKING:
    from optim._engine.reports.answers import ExportedFolder
    from optim._engine.sources.exported import Choice, ExportedSource


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
    from optim._engine.sources.exported import Choice
    from optim._engine.sources.naming import fetched, quiet

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
    return export_request(request, Path(output), said, target=target, choice=choice, timeout_s=timeout, fresh=fresh)


def export_request(
    request: SourceRequest,
    output: Path,
    say: Callable[[str], None],
    *,
    target: str,
    choice: Choice,
    timeout_s: float,
    fresh: bool,
) -> ExportedFolder:
    """The same for a request: ``optim export`` has its words as one.

    Raises:
        OptimError: source-is-model, source-missing, source-without-config: there is nothing to export.
        OptimError[bad-budget]: the largest drift is no positive number.
        OptimError: as ``export``.
    """
    from optim._engine.gate.max_loss import require_max_drift
    from optim._engine.plugins.registry import load_registry, require_target
    from optim._engine.sources.exported import ExportConditions, find_pipeline
    from optim._engine.sources.naming import may_be_loaded, needs_export, nothing_to_export
    from optim._engine.store import Store

    require_max_drift(request.max_drift, "leave it out for what rounding explains")
    known = needs_export(request.spec)
    if not known and not may_be_loaded(request.spec):
        raise nothing_to_export(request.spec, output)
    registry = load_registry()
    pipeline, device = find_pipeline(registry, request.spec), require_target(registry, target)
    conditions = ExportConditions(registry, Store(), say, device, timeout_s, choice, fresh)
    try:
        made = pipeline.write(request, output, conditions)
    except OptimError as error:
        if known or error.reference != "source-not-loadable":
            raise
        raise nothing_to_export(request.spec, output) from error
    return _described(made, output)


def _described(made: ExportedSource, output: Path) -> ExportedFolder:
    """What a caller is told of the folder."""
    from optim._engine.reports.answers import ExportedComponent, ExportedFolder
    from optim._engine.reports.parts import ExportStepReport
    from optim._engine.sources.export_file import file_of
    from optim.jobs.wire import to_wire

    verified = {found.component: found for found in made.verified}
    components = [
        ExportedComponent(
            name=graph.component,
            file=str(output / file_of(graph.component)),
            size_bytes=graph.size_bytes,
            inputs=tuple(to_wire(graph.model.inputs)),
            outputs=tuple(to_wire(graph.model.outputs)),
            drift=verified[graph.component].drift.relative_error,
            trials=tuple(verified[graph.component].trials),
            skipped=tuple(verified[graph.component].skipped),
            tokens=verified[graph.component].tokens,
        )
        for graph in made.graphs
    ]
    return ExportedFolder(
        source=made.request.spec,
        output=str(output),
        facts=made.facts,
        components=tuple(components),
        steps=tuple(ExportStepReport.model_validate(step) for step in to_wire(made.steps)),
        notes=(*made.notes, *(note for found in made.verified for note in found.notes)),
        peak_memory_bytes=made.peak_memory_bytes,
        seconds=made.seconds,
    )
