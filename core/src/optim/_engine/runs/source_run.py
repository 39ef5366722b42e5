"""Runs of a source that is exported first: one run folder, or one for each component."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.runs.publish import write_components
from optim._engine.runs.session_file import MODEL_FILE
from optim._engine.search.settings import RunSettings
from optim._engine.sources.export_file import EXPORT_FILE, KnownExport, read_export_file, write_export_file
from optim._engine.store import Store
from optim.errors import OptimError
from optim.layout import carry_files

if TYPE_CHECKING:
    from optim._engine.recipes.lock import Lock
    from optim._engine.reports.schema import Report
    from optim._engine.runs.layouts.asked import Deliveries


def run_source(
    settings: RunSettings,
    output: Path,
    say: Callable[[str], None],
    *,
    lock: Lock | None = None,
    pick: str = "",
    deliveries: Deliveries | None = None,
) -> dict[str, Report]:
    """Export a source, and run what came of it.

    A source with one component gives a run folder; one with several gives a run folder for each, by its name, and an
    ``export.json`` beside them that says how they work together.

    Returns:
        Reports by component.

    Raises:
        OptimError: the source, the folder or the request cannot be used.
    """
    from optim._engine.jobs.runner import Runner
    from optim._engine.plugins.chosen_targets import choose_targets
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.found_goal import require_foretold_context
    from optim._engine.runs.run import run_settings
    from optim._engine.search.preparation import source_choice
    from optim._engine.search.run_time import start_of_command
    from optim._engine.search.targets.entrants import Plans
    from optim._engine.sources.make import make_graphs

    start_of_command()  # exporting comes before the run, and is no part of its time
    require_foretold_context(settings, settings.export)
    registry, store = load_registry(), Store()
    chosen = choose_targets(registry, settings.target, here=not settings.cluster)
    Plans(settings, registry, chosen)  # a request that makes no sense is refused before anything is exported
    assert settings.export is not None
    with store.in_use():
        made = make_graphs(
            settings.export,
            chosen.baseline,
            registry,
            source_choice(settings),
            Runner(store, say, fresh=settings.fresh),
            timeout_s=settings.needed_timeout_s,
        )
    names = [graph.component for graph in made.graphs]
    if len(names) == 1:
        only = run_settings(settings, output, say, lock=lock, exported=made, pick=pick, deliveries=deliveries)
        return {names[0]: only}
    _refuse_lock(lock, names)
    _refuse_layouts(deliveries, names)
    _require_ours(output, names)
    reports = {}
    for name in names:
        say(f"{name}, of {', '.join(names)}")
        part = replace(settings, component=name)
        reports[name] = run_settings(part, output / name, say, exported=made, pick=pick)
    files = {name: f"{name}/{MODEL_FILE}" for name in names if reports[name].result is not None}
    if len(files) == len(names):
        write_components(
            made, files, output, {name: far for name in names if (far := _drift(reports[name])) is not None}
        )
        if made.request.folder is not None:
            carry_files(made.request.folder, output)
    return reports


def run_asked(
    settings: RunSettings,
    output: Path,
    say: Callable[[str], None],
    *,
    lock: Lock | None = None,
    pick: str = "",
    deliveries: Deliveries | None = None,
) -> dict[str, Report]:
    """Run a model file, a folder that an export wrote, or a source, which is exported first.

    Returns:
        Reports by component; a model file has one, without a name.

    Raises:
        OptimError: the source, the folder or the request cannot be used.
    """
    from optim._engine.runs.run import run_settings

    if settings.export is not None:
        return run_source(settings, output, say, lock=lock, pick=pick, deliveries=deliveries)
    if not settings.source.is_dir():
        return {"": run_settings(settings, output, say, lock=lock, pick=pick, deliveries=deliveries)}
    return _run_exported(settings, output, say, lock=lock, pick=pick, deliveries=deliveries)


def _run_exported(
    settings: RunSettings,
    output: Path,
    say: Callable[[str], None],
    *,
    lock: Lock | None,
    pick: str,
    deliveries: Deliveries | None,
) -> dict[str, Report]:
    """Every component of a folder that an export wrote; what it knows of them goes into the new folder."""
    from optim._engine.runs.run import run_settings

    folder = settings.source
    content = read_export_file(folder)
    assert content is not None
    files = {name: folder / component.file for name, component in content.components.items()}
    if len(files) == 1:
        one = replace(settings, source=next(iter(files.values())))
        return {"": run_settings(one, output, say, lock=lock, pick=pick, deliveries=deliveries)}
    _refuse_lock(lock, files)
    _refuse_layouts(deliveries, files)
    _require_ours(output, list(files))
    reports = {}
    for name, file in files.items():
        say(f"{name}, of {', '.join(files)}")
        reports[name] = run_settings(replace(settings, source=file), output / name, say, pick=pick)
    if all(report.result is not None for report in reports.values()):
        own = {name: report.result.drift.relative_l2 or 0.0 for name, report in reports.items() if report.result}
        made = {
            name: KnownExport(content, name).optimized(f"{name}/{MODEL_FILE}", own[name]).components[name]
            for name in files
        }
        write_export_file(output, replace(content, components=made))
        carry_files(folder, output, links=False)
    return reports


def _refuse_lock(lock: Lock | None, components: Collection[str]) -> None:
    if lock is not None:
        raise OptimError.usage(
            "other-source",
            "a lock repeats one model, and the source has several",
            f"its components are {', '.join(components)}",
            "run it without --recipe",
        )


def _refuse_layouts(deliveries: Deliveries | None, names: Collection[str]) -> None:
    if deliveries is not None:
        from optim._engine.runs.layouts.asked import of_several

        raise of_several(deliveries.layouts[0], names)


def _drift(report: Report) -> float | None:
    found = report.export.result_drift if report.export else None
    return found.drift.relative_l2 if found is not None and found.samples else None


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
