"""What came of a run, written into its folder: the model with all that opens it, the report, the lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from optim._engine.backends.held import HeldBackend, held_backend
from optim._engine.goals.generating import loading_script
from optim._engine.load_script import LOAD_TEXT
from optim._engine.plugins.registry import Registry
from optim._engine.recipes.lock import LOCK_FILE, write_lock
from optim._engine.reports.build import build_report
from optim._engine.reports.outcome import Outcome
from optim._engine.reports.renderer import RENDERER
from optim._engine.reports.schema import PAGE_FILE, REPORT_FILE, Report
from optim._engine.runs.delivering import LayoutRequest, find_deliverer
from optim._engine.runs.folder import RunFolder
from optim._engine.runs.locking import lock_of
from optim._engine.runs.session_file import MODEL_FILE, NEAREST_FOLDER, SessionFile, write_session_files
from optim._engine.search.state import Candidate
from optim._engine.sources.export_file import KeptFiles, files_to_keep, read_export_file, write_export_file
from optim._engine.sources.naming import quiet
from optim.backend import Check, Delivery
from optim.errors import OptimError
from optim.layout import carry_files
from optim.model import Model
from optim.onnx.files import deliver_model


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
    earlier = folder.earlier.files if folder.earlier is not None else ()
    fill = folder.publish_aside if outcome.delivered is None and MODEL_FILE in earlier else folder.publish
    if layouts is not None and layouts.files is not None:
        files: KeptFiles | None = KeptFiles(layouts.files, links=True)
    elif kept is not None:
        files = KeptFiles(kept, links=False)
    else:
        files = files_to_keep(outcome.settings.source, outcome.known)
    return fill(lambda path: write_run(outcome, registry, path, files, layouts, say))


def write_run(
    outcome: Outcome,
    registry: Registry,
    folder: Path,
    files: KeptFiles | None = None,
    layouts: LayoutRequest | None = None,
    say: Callable[[str], None] = quiet,
) -> Report:
    """Every file of a run folder but its mark."""
    if outcome.delivered is not None:
        _write_component_file(outcome, folder)
        outcome.checks = _deliver(outcome, outcome.delivered, registry, folder)
        if files is not None:
            note = carry_files(files.folder, folder, links=files.links).note
            outcome.notes = (*outcome.notes, *filter(None, [note]))
        if layouts is not None:
            outcome.layouts = find_deliverer(registry).add(registry, layouts, folder, say, outcome.settings.data)
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
    backend, model = held_backend(registry, outcome.target.backend), candidate.model
    deliver_model(model, folder)
    delivery = Delivery(folder, model, outcome.target, candidate.interfaces)
    script = LOAD_TEXT if backend.owner is None else backend.load_script(delivery)
    timed = outcome.timed
    started = timed.ready.start if timed is not None and timed.ready is not None else None
    served = timed.throughput.served if timed is not None and timed.throughput is not None else None
    outcome.loader, outcome.load_script = bool(script), "" if backend.owner is None else script
    settings = SessionFile.of(
        model.session,
        outcome.target,
        owner=backend.owner,
        model=model,
        warm_up=started.warm_up if started else {},
        serving=served.serving if served else None,
    )
    write_session_files(folder, settings, with_generate(registry, script, model, folder, backend))
    write_lock(lock_of(outcome), folder / LOCK_FILE)
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
    model, target = candidate.model, outcome.target_of(candidate)
    deliver_model(model, folder)
    owner = held_backend(registry, target.backend).owner
    script = loading_script(registry, LOAD_TEXT, model) if owner is None else ""
    write_session_files(folder, SessionFile.of(model.session, target, owner=owner, model=model), script)


def _write_component_file(outcome: Outcome, folder: Path) -> None:
    """Write ``export.json`` of a run folder that holds one component."""
    known, result = outcome.known, outcome.result
    if known is not None and result is not None and len(known.content.components) == 1:
        found = result.source
        from_source = found.drift.relative_error if found is not None and found.samples else None
        drift = known.drift_of(result.candidate.drift.relative_error, from_source)
        write_export_file(folder, known.content.with_results({known.component: (MODEL_FILE, drift)}))
