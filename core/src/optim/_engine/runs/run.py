"""From settings to a run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.goals.generating import GENERATE
from optim._engine.machine import this_machine
from optim._engine.plugins.chosen_targets import choose_targets, find_cluster
from optim._engine.plugins.registry import Registry, load_registry
from optim._engine.plugins.versions import version_of
from optim._engine.runs.delivering import LayoutRequest, find_deliverer, of_several
from optim._engine.runs.execute import execute
from optim._engine.runs.folder import RunFolder
from optim._engine.runs.locking import require_same
from optim._engine.runs.publish import publish
from optim._engine.runs.session_file import MODEL_FILE
from optim._engine.search.deadline import start_of_command
from optim._engine.search.settings import RunSettings
from optim._engine.search.time_estimate import PassCosts
from optim._engine.sources.export_file import (
    EXPORT_FILE,
    KeptFiles,
    KnownExport,
    files_of,
    read_export_file,
    write_export_file,
)
from optim._engine.store import Store, cache_key
from optim._engine.trace import STORE, Recorder, trace_of
from optim.errors import OptimError
from optim.jobs.wire import to_wire
from optim.layout import carry_files
from optim.workplace import Workplace, WorkplaceRequest

if TYPE_CHECKING:
    from optim._engine.recipes.lock import Lock
    from optim._engine.reports.schema import Report
    from optim._engine.sources.exported import ExportedGraph


@dataclass(frozen=True, slots=True)
class ToDeliver:
    """What a run delivers, where that is not just the model which the goal says.

    Attributes:
        lock: of an earlier run: the same model must come out.
        pick: the point of the front; empty: the one that the goal says.
    """

    lock: Lock | None = None
    pick: str = ""
    layouts: LayoutRequest | None = None


def run_settings(
    settings: RunSettings,
    output: Path,
    say: Callable[[str], None],
    deliver: ToDeliver | None = None,
    exported: ExportedGraph | None = None,
) -> Report:
    """Run what was asked for into a folder."""
    settings.require_sound()
    settings = replace(settings, fresh=settings.fresh or bool(settings.trace))  # every action has its seconds
    if settings.metric is not None and settings.data is None and settings.chain is None:
        raise OptimError.usage(
            "data-required",
            f"metric {settings.metric.text} needs data",
            "a metric on synthesized samples means nothing",
            "--data samples.npz, with labels if the metric needs them",
        )
    deliver = deliver or ToDeliver()
    if deliver.pick:
        from optim._engine.runs.pick import Pick, picked

        Pick.parse(deliver.pick)
    registry, store = load_registry(), Store()
    with RunFolder.claim(output, cache_key(to_wire(settings))) as folder:
        with _workplace(settings, registry, store, say) as elsewhere, _trace(settings, store) as trace:
            outcome = execute(settings, registry, store, say, exported, elsewhere, trace)
        if deliver.lock is not None:
            require_same(outcome, deliver.lock)
        if deliver.pick:
            outcome = picked(outcome, deliver.pick, registry)
        report = publish(outcome, registry, folder, say, deliver.layouts)
    if outcome.first_s is None:  # one that was served from the cache left nothing there
        store.trim()
    return report


@contextmanager
def _workplace(
    settings: RunSettings, registry: Registry, store: Store, say: Callable[[str], None]
) -> Iterator[Workplace | None]:
    """The workers of a cluster, from now on the machines that the registry speaks of; None: this machine."""
    if not settings.cluster:
        yield None
        return
    start_of_command()  # the run has begun: connecting to a cluster is no search time
    cluster = find_cluster(registry, settings.cluster)
    with cluster.connect(workplace_request(settings, registry, store, say)) as workplace:
        registry.look_elsewhere(workplace.seen)
        yield workplace


def workplace_request(
    settings: RunSettings, registry: Registry, store: Store, say: Callable[[str], None]
) -> WorkplaceRequest:
    """What a run asks of a cluster: plugins take part that have passes or backends for its targets, or its goal."""
    chosen = choose_targets(registry, settings.target, here=False)
    targets = tuple({one.name: one for one in (chosen.baseline, *chosen.targets)}.values())
    plugins = {offered.plugin.name for target in targets for offered in registry.offers(target)}
    plugins |= {registry.offered("backend")[target.backend].plugin.name for target in targets}
    goals = (settings.goal,) if settings.goal_is_said else (settings.goal, GENERATE)  # a decoder is found out later
    plugins |= {offer.plugin.name for name, offer in registry.offered("goal").items() if name in goals}
    required = () if chosen.compete else (targets[0].name,)
    return WorkplaceRequest(
        settings.cluster, settings.store_url, targets, required, frozenset(plugins), store.root, say
    )


def _trace(settings: RunSettings, store: Store) -> AbstractContextManager[Recorder | None]:
    """What notes the run, where the user wants that."""
    if not settings.trace:
        return nullcontext()
    source = settings.source.absolute()
    told = replace(settings, source=Path(source.name), trace="", cluster="", store_url="")
    asked = {**to_wire(told), "data": settings.data and Path(settings.data).name}
    machine, start = asdict(this_machine()), asdict(start_of_command())
    costs = to_wire(PassCosts.known(store))  # what earlier runs learned decides too
    header = {"asked": asked, "optim": version_of("optim-core"), "machine": machine, "start": start, "costs": costs}
    names = {str(Path.cwd()): ".", str(source.parent): "<source>", str(store.root): STORE}
    if settings.data is not None and Path(settings.data).exists():
        names.setdefault(str(Path(settings.data).absolute().parent), "<data>")
    return Recorder(Path(settings.trace), header, names)


def run_asked(settings: RunSettings, output: Path, say: Callable[[str], None], deliver: ToDeliver) -> dict[str, Report]:
    """Run a model file, a folder that an export wrote, or a source, which is exported first.

    A source with several components gives a run folder for each, by its name, and an ``export.json`` beside them that
    says how they work together.

    Returns:
        Reports by component; a model file has one, without a name.
    """
    if deliver.layouts is not None:  # refused before anybody waits for the run
        registry, files = load_registry(), files_of(settings.source, settings.export)
        find_deliverer(registry).require(registry, deliver.layouts, files, output)
    if settings.export is not None:
        return run_source(settings, output, say, deliver)
    if settings.source.is_dir():
        return _run_exported(settings, output, say, deliver)
    return {"": run_settings(settings, output, say, deliver)}


def run_source(
    settings: RunSettings, output: Path, say: Callable[[str], None], deliver: ToDeliver | None = None
) -> dict[str, Report]:
    """Export a source, and run what came of it."""
    from optim._engine.runs.found_goal import require_foretold
    from optim._engine.search.preparation import export_source
    from optim._engine.search.targets.entrants import Plans

    start_of_command()  # exporting comes before the run, and is no part of its time
    registry, store = load_registry(), Store()
    require_foretold(settings, registry)
    chosen = choose_targets(registry, settings.target, here=not settings.cluster)
    Plans(settings, registry, chosen)  # a request that makes no sense is refused before anything is exported
    with store.in_use():
        made = {one.known.component: one for one in export_source(settings, registry, store, say, chosen.baseline)}
    name, first = next(iter(made.items()))
    if len(made) == 1:
        return {name: run_settings(settings, output, say, deliver, first)}
    parts = {name: replace(settings, component=name) for name in made}
    return _run_each(parts, first.known, output, say, deliver or ToDeliver(), made)


def _run_exported(
    settings: RunSettings, output: Path, say: Callable[[str], None], deliver: ToDeliver
) -> dict[str, Report]:
    """Every component of a folder that an export wrote; what it knows of them goes into the new folder."""
    folder = settings.source
    content = read_export_file(folder)
    assert content is not None
    parts = {name: replace(settings, source=folder / one.file) for name, one in content.components.items()}
    name, first = next(iter(parts.items()))
    if len(parts) == 1:
        return {"": run_settings(first, output, say, deliver)}
    return _run_each(parts, KnownExport(content, name, KeptFiles(folder, links=False)), output, say, deliver, {})


def _run_each(
    parts: Mapping[str, RunSettings],
    known: KnownExport,
    output: Path,
    say: Callable[[str], None],
    deliver: ToDeliver,
    exported: Mapping[str, ExportedGraph],
) -> dict[str, Report]:
    """Run the components of one source, each into a folder by its name, with the ``export.json`` of them all."""
    if deliver.lock is not None:
        raise OptimError.usage(
            "other-source",
            "a lock repeats one model, and the source has several",
            f"its components are {', '.join(parts)}",
            "run it without --recipe",
        )
    if deliver.layouts is not None:
        raise of_several(deliver.layouts.texts[0].partition(":")[0], parts)
    _require_ours(output, list(parts))
    reports = {}
    for name, part in parts.items():
        say(f"{name}, of {', '.join(parts)}")
        settings = replace(part, trace=trace_of(part.trace, name))
        reports[name] = run_settings(settings, output / name, say, ToDeliver(pick=deliver.pick), exported.get(name))
    if all(report.result is not None for report in reports.values()):
        made = {
            name: (f"{name}/{MODEL_FILE}", _drift(report, replace(known, component=name)))
            for name, report in reports.items()
        }
        write_export_file(output, known.content.with_results(made))
        if known.files is not None:
            carry_files(known.files.folder, output, links=known.files.links)
    return reports


def _drift(report: Report, known: KnownExport) -> float:
    """How far a result is from its source."""
    from_graph = report.result.drift.relative_error if report.result is not None else None
    found = report.export.result_drift if report.export is not None else None
    return known.drift_of(from_graph, found.drift.relative_error if found is not None and found.samples else None)


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
