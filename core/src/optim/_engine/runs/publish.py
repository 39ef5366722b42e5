"""What came of a run, written into its folder: the model with all that opens it, the report, the lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.backends.held import HeldBackend, held_backend
from optim._engine.goals.generating import loading_script
from optim._engine.load_script import LOAD_TEXT
from optim._engine.plugins.registry import Registry
from optim._engine.reports.outcome import Outcome
from optim._engine.reports.renderer import RENDERER
from optim._engine.runs.folder import RunFolder
from optim._engine.runs.locking import lock_of
from optim._engine.runs.session_file import MODEL_FILE, NEAREST_FOLDER, Opening, write_session_files
from optim._engine.search.state import Candidate
from optim._engine.sources.export_file import KeptFiles, files_to_keep, read_export_file, write_export_file
from optim.backend import Check, Delivery
from optim.errors import OptimError
from optim.layout import carry_files
from optim.onnx.libraries import operator_libraries

if TYPE_CHECKING:
    from optim._engine.reports.parts import LayoutReport
    from optim._engine.reports.schema import Report
    from optim._engine.runs.delivering import LayoutRequest
    from optim.model import Model


def publish(
    outcome: Outcome,
    registry: Registry,
    folder: RunFolder,
    say: Callable[[str], None],
    layouts: LayoutRequest | None = None,
    kept: Path | None = None,
) -> Report:
    """Fill a claimed folder with what came of a run; only a new model takes the place of an earlier one.

    ``kept`` is a run folder that has the files of the source already; without it they are taken from the source.
    """
    say("writing the result")
    reports: list[Report] = []
    aside = outcome.delivered is None and folder.holds_a_model
    fill = folder.publish_aside if aside else folder.publish

    def write(path: Path) -> None:
        lay_out = None
        if layouts is not None and outcome.delivered is not None:
            from optim._engine.runs.delivering import find_deliverer

            lay_out = partial(find_deliverer(registry).add, registry, layouts, path, say, outcome.settings.data)
        files = _files(outcome, kept, layouts.files if layouts is not None else None)
        reports.append(write_run(outcome, registry, path, lay_out, files))

    fill(write)
    return reports[0]


def _files(outcome: Outcome, kept: Path | None, named: Path | None) -> KeptFiles | None:
    """The files of the source: what the user named for layouts, what a run folder keeps, or what the source has."""
    if named is not None:
        return KeptFiles(named, links=True)
    if kept is not None:
        return KeptFiles(kept, links=False)
    return files_to_keep(outcome.settings.source, outcome.known)


def write_run(
    outcome: Outcome,
    registry: Registry,
    folder: Path,
    lay_out: Callable[[], tuple[LayoutReport, ...]] | None = None,
    files: KeptFiles | None = None,
) -> Report:
    """Every file of a run folder but its mark.

    Raises:
        OptimError: what the target's backend adds could not be made, or does not work.
    """
    from optim._engine.reports.build import build_report
    from optim._engine.reports.schema import PAGE_FILE, REPORT_FILE

    if outcome.delivered is not None:
        _write_component_file(outcome, folder)
        outcome.checks = _deliver(outcome, outcome.delivered, registry, folder)
        if files is not None:
            note = carry_files(files.folder, folder, links=files.links).note
            outcome.notes = (*outcome.notes, *filter(None, [note]))
        outcome.layouts = lay_out() if lay_out is not None else ()
    if outcome.nearest is not None:
        _set_aside(outcome, outcome.nearest.candidate, registry, folder / NEAREST_FOLDER)
    renderer = None
    try:
        renderer = registry.part(RENDERER, f"{PAGE_FILE} is not written")
    except OptimError as error:  # the result is worth as much without it
        outcome.notes = (*outcome.notes, f"{error.what}: {error.cause}; {error.fix}")
    report = build_report(outcome)
    (folder / REPORT_FILE).write_text(report.as_json(), encoding="utf-8")
    if renderer is not None:
        renderer.write(report, folder)
    return report


def _deliver(outcome: Outcome, candidate: Candidate, registry: Registry, folder: Path) -> tuple[Check, ...]:
    """The model with all that is needed to run it, and what the backend adds."""
    from optim._engine.recipes.lock import write_lock
    from optim.onnx.files import deliver_model

    backend, model = held_backend(registry, outcome.target.backend), candidate.model
    deliver_model(model, folder)
    libraries = operator_libraries(model.opset)
    delivery = Delivery(folder, model, outcome.target, candidate.interfaces)
    script = LOAD_TEXT if backend.owner is None else backend.load_script(delivery)
    outcome.loader, outcome.load_script = bool(script), "" if backend.owner is None else script
    write_session_files(
        folder,
        model.session,
        outcome.target,
        libraries,
        owner=backend.owner,
        script=with_generate(registry, script, model, folder, backend),
        opening=Opening(
            outcome.start.warm_up if outcome.start else {},
            model.adapters,
            outcome.throughput.served.serving if outcome.throughput else None,
        ),
    )
    write_lock(lock_of(outcome), folder / "recipe.lock.toml")
    return tuple(backend.deliver(delivery))


def with_generate(registry: Registry, script: str, model: Model, folder: Path, backend: HeldBackend) -> str:
    """The text of ``load.py``, which generates too where its ``load`` returns a session of a decoder."""
    if backend.owner is None:
        return loading_script(registry, script, model)
    if not backend.kind.loads_sessions:
        return script
    exported = read_export_file(folder)
    return loading_script(registry, script, model, next(iter(exported.components.values())).state if exported else {})


def _set_aside(outcome: Outcome, candidate: Candidate, registry: Registry, folder: Path) -> None:
    """A model that missed the budget, with its settings."""
    from optim.onnx.files import deliver_model

    deliver_model(candidate.model, folder)
    libraries = operator_libraries(candidate.model.opset)
    target = outcome.target_of(candidate)
    owner = held_backend(registry, target.backend).owner
    script = loading_script(registry, LOAD_TEXT, candidate.model) if owner is None else ""
    write_session_files(
        folder,
        candidate.model.session,
        target,
        libraries,
        owner=owner,
        script=script,
        opening=Opening(adapters=candidate.model.adapters),
    )


def _write_component_file(outcome: Outcome, folder: Path) -> None:
    """Write ``export.json`` of a run folder that holds one component."""
    known, result = outcome.known, outcome.result
    if known is not None and result is not None and len(known.content.components) == 1:
        found = result.source
        from_source = found.drift.relative_error if found is not None and found.samples else None
        drift = known.drift_of(result.candidate.drift.relative_error, from_source)
        write_export_file(folder, known.content.with_results({known.component: (MODEL_FILE, drift)}))
