"""From settings to a run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.backends.held import held_backend
from optim._engine.plugins.registry import Registry, load_registry
from optim._engine.reports.outcome import Outcome, RunStatus
from optim._engine.runs.execute import execute
from optim._engine.runs.folder import RunFolder
from optim._engine.runs.locking import lock_of, require_source
from optim._engine.runs.session_file import LOAD_TEXT, NEAREST_FOLDER, Opening, write_session_files
from optim._engine.runs.source_run import write_component_file
from optim._engine.search.select.archive import require_pick
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Candidate
from optim._engine.sources.kept_files import KeptFiles, files_to_keep
from optim._engine.store import Store, cache_key
from optim.backend import Check, Delivery
from optim.errors import ExitStatus, OptimError
from optim.jobs.wire import to_wire
from optim.layout import carry_files
from optim.onnx.libraries import libraries_of

if TYPE_CHECKING:
    from optim._engine.jobs.workplace import Workplace
    from optim._engine.recipes.lock import Lock
    from optim._engine.reports.parts.laid_out import LayoutReport
    from optim._engine.reports.schema import Report
    from optim._engine.runs.layouts.asked import Deliveries
    from optim._engine.sources.make import ExportedSource

EXIT_STATUS = {
    RunStatus.IMPROVED: ExitStatus.DELIVERED,
    RunStatus.PREPARED: ExitStatus.DELIVERED,
    RunStatus.UNCHANGED: ExitStatus.DELIVERED,
    RunStatus.BUDGET_MISSED: ExitStatus.NOT_HELD,
    RunStatus.FAILED: ExitStatus.NOT_HELD,
}


def run_settings(
    settings: RunSettings,
    output: Path,
    say: Callable[[str], None],
    *,
    lock: Lock | None = None,
    exported: ExportedSource | None = None,
    pick: str = "",
    deliveries: Deliveries | None = None,
) -> Report:
    """Run what was asked for into a folder; with a lock the model must come out the same.

    Args:
        settings: what was asked for.
        output: the run folder.
        say: told what is going on.
        lock: of an earlier run that is repeated.
        exported: the source, where it has been exported already.
        pick: the point of the front that is delivered; empty: the one that the goal says.
        deliveries: layouts that the result is written in too.

    Raises:
        OptimError[bad-budget]: a number that cannot be one.
        OptimError[data-required]: a metric and nothing to measure it on.
        OptimError[unknown-point]: no run has such a point, or this one has not.
        OptimError[other-source]: the lock is of another model.
        OptimError[lock-mismatch]: the chain of the lock gives another model here.
    """
    settings.require_sound()
    _require_data_for_a_metric(settings)
    if pick:
        require_pick(pick)
    registry, store = load_registry(), Store()
    with RunFolder.claim(output, cache_key(to_wire(settings))) as folder:
        with _workplace(settings, registry, store, say) as elsewhere:
            outcome = execute(settings, registry, store, say, exported, elsewhere)
        if lock is not None:
            _require_same(outcome, lock)
        if pick:
            from optim._engine.runs.pick import picked

            outcome = picked(outcome, pick)
        report = publish(outcome, registry, folder, say, deliveries)
    if not outcome.cached:  # one that was served from the cache left nothing there
        store.trim()
    return report


@contextmanager
def _workplace(
    settings: RunSettings, registry: Registry, store: Store, say: Callable[[str], None]
) -> Iterator[Workplace | None]:
    """The workers of a cluster; None: this machine."""
    if not settings.cluster:
        yield None
        return
    from optim._engine.cluster.fleet import fleet_of
    from optim._engine.search.run_time import start_of_command

    start_of_command()  # the run has begun: connecting to a cluster is no search time
    with fleet_of(settings, registry, store, say) as fleet:
        yield fleet


def _require_data_for_a_metric(settings: RunSettings) -> None:
    if settings.metric is not None and settings.data is None and settings.chain is None:
        raise OptimError(
            "data-required",
            f"metric {settings.metric.text} needs data",
            "on made-up inputs it would say nothing",
            "--data feeds.npz, with the labels that it needs",
            status=ExitStatus.USAGE,
        )


def publish(
    outcome: Outcome,
    registry: Registry,
    folder: RunFolder,
    say: Callable[[str], None],
    deliveries: Deliveries | None = None,
    kept: Path | None = None,
) -> Report:
    """Fill a claimed folder with what came of a run; only a new model takes the place of an earlier one.

    Args:
        outcome: what came of it.
        registry: of the plugins.
        folder: the claimed one.
        say: told what is going on.
        deliveries: layouts that the result is written in too.
        kept: run folder that keeps the files of the source already; None: they are taken from the source.
    """
    say("writing the result")
    reports: list[Report] = []
    aside = outcome.delivered is None and folder.holds_a_model
    fill = folder.publish_aside if aside else folder.publish

    def write(path: Path) -> None:
        lay_out = None
        if deliveries is not None and outcome.delivered is not None:
            from optim._engine.runs.layouts.deliver import deliver_in_run

            lay_out = partial(deliver_in_run, path, deliveries, registry, say, outcome.settings.data)
        files = _files(outcome, kept, deliveries.files if deliveries is not None else None)
        reports.append(write_run(outcome, registry, path, lay_out, files))

    fill(write)
    return reports[0]


def _files(outcome: Outcome, kept: Path | None, named: Path | None) -> KeptFiles | None:
    """The files of the source: what the user named for layouts, what a run folder keeps, or what the source has."""
    if named is not None:
        return KeptFiles(named, links=True)
    if kept is not None:
        return KeptFiles(kept, links=False)
    return files_to_keep(outcome.settings.source, outcome.settings.export, outcome.known)


def _require_same(outcome: Outcome, lock: Lock) -> None:
    require_source(lock, outcome.source.model.digest)
    found = outcome.delivered.model.digest if outcome.delivered else "none"
    if found != lock.result.model_digest:
        changed = [
            f"{name} {version} -> {outcome.versions.get(name, 'none')}"
            for name, version in lock.target.versions.items()
            if outcome.versions.get(name) != version
        ]
        why = ", ".join(changed) or "no version differs"
        raise OptimError(
            "lock-mismatch",
            "the repeated model is not the one of the lock",
            f"expected {lock.result.model_digest[:12]}, got {found[:12]}; {why}",
            "install the versions that the lock names, or search again without --recipe",
            status=ExitStatus.NOT_HELD,
        )


def write_run(
    outcome: Outcome,
    registry: Registry,
    folder: Path,
    lay_out: Callable[[], tuple[LayoutReport, ...]] | None = None,
    files: KeptFiles | None = None,
) -> Report:
    """Every file of a run folder but its mark.

    Args:
        outcome: what came of the run.
        registry: of the plugins.
        folder: to fill.
        lay_out: writes the result in further layouts, once the folder has it.
        files: of the source, which are kept in the folder.

    Raises:
        OptimError: what the target's backend adds could not be made, or does not work.
    """
    from optim._engine.reports.build import build_report
    from optim._engine.reports.card import CARD_FILE, model_card
    from optim._engine.reports.html import render_html
    from optim._engine.reports.schema import REPORT_FILE

    if outcome.delivered is not None:
        outcome.checks = _deliver(outcome, outcome.delivered, registry, folder)
        write_component_file(outcome, folder)
        if files is not None:
            note = carry_files(files.folder, folder, links=files.links).note
            outcome.notes = (*outcome.notes, *filter(None, [note]))
        outcome.layouts = lay_out() if lay_out is not None else ()
    if outcome.nearest is not None:
        _set_aside(outcome, outcome.nearest.candidate, registry, folder / NEAREST_FOLDER)
    report = build_report(outcome)
    (folder / REPORT_FILE).write_text(report.as_json(), encoding="utf-8")
    (folder / "report.html").write_text(render_html(report), encoding="utf-8")
    if report.result is not None:
        (folder / CARD_FILE).write_text(model_card(report), encoding="utf-8")
    return report


def _deliver(outcome: Outcome, candidate: Candidate, registry: Registry, folder: Path) -> tuple[Check, ...]:
    """The model with all that is needed to run it, and what the backend adds."""
    from optim._engine.recipes.lock import write_lock
    from optim.onnx.files import deliver

    backend, model = held_backend(registry, outcome.target.backend), candidate.model
    deliver(model, folder)
    libraries = libraries_of(model.opset)
    delivery = Delivery(folder, model, outcome.target, candidate.interfaces)
    script = LOAD_TEXT if backend.owner is None else backend.load_script(delivery)
    outcome.loader, outcome.load_script = bool(script), "" if backend.owner is None else script
    outcome.requirements = tuple(backend.requirements(outcome.target))
    write_session_files(
        folder,
        model.session,
        outcome.target,
        libraries,
        owner=backend.owner,
        script=script,
        opening=Opening(
            outcome.start.warm_up if outcome.start else {},
            model.adapters,
            outcome.throughput.served.serving if outcome.throughput else None,
        ),
    )
    write_lock(lock_of(outcome), folder / "recipe.lock.toml")
    return tuple(backend.deliver(delivery))


def _set_aside(outcome: Outcome, candidate: Candidate, registry: Registry, folder: Path) -> None:
    """A model that missed the budget, with its settings."""
    from optim.onnx.files import deliver

    deliver(candidate.model, folder)
    libraries = libraries_of(candidate.model.opset)
    target = outcome.target_of(candidate)
    owner = held_backend(registry, target.backend).owner
    script = LOAD_TEXT if owner is None else ""
    write_session_files(
        folder,
        candidate.model.session,
        target,
        libraries,
        owner=owner,
        script=script,
        opening=Opening(adapters=candidate.model.adapters),
    )
