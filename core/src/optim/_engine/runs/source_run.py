"""Runs of a source that is exported first: one run folder, or one for each component."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.runs.publish import write_components
from optim._engine.runs.run import ToDeliver, run_settings
from optim._engine.runs.session_file import MODEL_FILE
from optim._engine.search.settings import RunSettings
from optim._engine.sources.export_file import EXPORT_FILE, KnownExport, read_export_file, write_export_file
from optim._engine.store import Store
from optim._engine.trace import trace_of
from optim.errors import OptimError
from optim.layout import carry_files

if TYPE_CHECKING:
    from optim._engine.reports.schema import Report
    from optim._engine.sources.exported import ExportedSource


def run_asked(
    settings: RunSettings, output: Path, say: Callable[[str], None], deliver: ToDeliver | None = None
) -> dict[str, Report]:
    """Run a model file, a folder that an export wrote, or a source, which is exported first.

    Returns:
        Reports by component; a model file has one, without a name.

    Raises:
        OptimError: the source, the folder or the request cannot be used.
    """
    if settings.export is not None:
        return run_source(settings, output, say, deliver)
    if settings.source.is_dir():
        return _run_exported(settings, output, say, deliver)
    return {"": run_settings(settings, output, say, deliver)}


def run_source(
    settings: RunSettings, output: Path, say: Callable[[str], None], deliver: ToDeliver | None = None
) -> dict[str, Report]:
    """Export a source, and run what came of it.

    A source with one component gives a run folder; one with several gives a run folder for each, by its name, and an
    ``export.json`` beside them that says how they work together.

    Returns:
        Reports by component.

    Raises:
        OptimError: the source, the folder or the request cannot be used.
    """
    from optim._engine.plugins.chosen_targets import choose_targets
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.found_goal import require_foretold_context
    from optim._engine.search.deadline import start_of_command
    from optim._engine.search.targets.entrants import Plans
    from optim._engine.sources.exported import ExportConditions, export

    start_of_command()  # exporting comes before the run, and is no part of its time
    registry, store = load_registry(), Store()
    require_foretold_context(settings, registry, settings.export)
    chosen = choose_targets(registry, settings.target, here=not settings.cluster)
    Plans(settings, registry, chosen)  # a request that makes no sense is refused before anything is exported
    assert settings.export is not None
    with store.in_use():
        conditions = ExportConditions(
            registry, store, say, chosen.baseline, settings.needed_timeout_s, settings.source_choice, settings.fresh
        )
        made = export(settings.export, conditions)
    names = [graph.component for graph in made.graphs]
    if len(names) == 1:
        return {names[0]: run_settings(settings, output, say, deliver, made)}
    parts = {name: replace(settings, component=name) for name in names}
    reports = _run_each(parts, output, say, deliver, made)
    if all(report.result is not None for report in reports.values()):
        files = {name: f"{name}/{MODEL_FILE}" for name in names}
        own = {name: far for name, report in reports.items() if (far := _drift(report)) is not None}
        write_components(made, files, output, own)
        if made.request.folder is not None:
            carry_files(made.request.folder, output)
    return reports


def _run_exported(
    settings: RunSettings, output: Path, say: Callable[[str], None], deliver: ToDeliver | None
) -> dict[str, Report]:
    """Every component of a folder that an export wrote; what it knows of them goes into the new folder."""
    folder = settings.source
    content = read_export_file(folder)
    assert content is not None
    parts = {name: replace(settings, source=folder / one.file) for name, one in content.components.items()}
    if len(parts) == 1:
        return {"": run_settings(next(iter(parts.values())), output, say, deliver)}
    reports = _run_each(parts, output, say, deliver)
    if all(report.result is not None for report in reports.values()):
        own = {name: report.result.drift.relative_error or 0.0 for name, report in reports.items() if report.result}
        made = {
            name: KnownExport(content, name).optimized(f"{name}/{MODEL_FILE}", own[name]).components[name]
            for name in parts
        }
        write_export_file(output, replace(content, components=made))
        carry_files(folder, output, links=False)
    return reports


def _run_each(
    parts: Mapping[str, RunSettings],
    output: Path,
    say: Callable[[str], None],
    deliver: ToDeliver | None,
    exported: ExportedSource | None = None,
) -> dict[str, Report]:
    """Run the components of one source, each into a folder by its name.

    Raises:
        OptimError[other-source]: a lock, which repeats one model.
        OptimError[layout-of-several]: a layout, which is made of one graph.
        OptimError[not-our-folder]: the folder holds something else.
    """
    deliver = deliver or ToDeliver()
    if deliver.lock is not None:
        raise OptimError.usage(
            "other-source",
            "a lock repeats one model, and the source has several",
            f"its components are {', '.join(parts)}",
            "run it without --recipe",
        )
    if deliver.layouts is not None:
        from optim._engine.runs.delivering import of_several

        raise of_several(deliver.layouts.texts[0].partition(":")[0], parts)
    _require_ours(output, list(parts))
    reports = {}
    for name, part in parts.items():
        say(f"{name}, of {', '.join(parts)}")
        settings = replace(part, trace=trace_of(part.trace, name))
        reports[name] = run_settings(settings, output / name, say, ToDeliver(pick=deliver.pick), exported)
    return reports


def _drift(report: Report) -> float | None:
    found = report.export.result_drift if report.export else None
    return found.drift.relative_error if found is not None and found.samples else None


def _require_ours(output: Path, names: list[str]) -> None:
    if not output.is_dir():
        return
    strange = sorted(entry.name for entry in output.iterdir() if entry.name not in (*names, EXPORT_FILE))
    if strange and read_export_file(output) is None:
        raise OptimError.usage(
            "not-our-folder",
            f"{output} is not the folder of an earlier run",
            f"it holds {', '.join(strange[:3])}",
            "name an empty or a new folder after -o",
        )
