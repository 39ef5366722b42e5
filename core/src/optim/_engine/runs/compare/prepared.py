"""Models prepared to be looked at without a search: the first with its samples, others beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from optim._engine.jobs.runner import thread_executor
from optim._engine.jobs.start_up import Ready
from optim._engine.plugins.registry import Registry, load_registry, require_target
from optim._engine.recipes.lock import LOCK_FILE, Lock, load_recipe_or_lock
from optim._engine.runs.found_goal import require_foretold
from optim._engine.runs.session_file import MODEL_FILE
from optim._engine.runs.session_trust import read_session_file
from optim._engine.search.preparation import export_source
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Candidate, LaneResult
from optim._engine.search.workbench import Workbench
from optim._engine.sources.exported import ExportedGraph
from optim._engine.sources.naming import needs_export
from optim._engine.store import Store, names_in_messages
from optim.errors import OptimError
from optim.jobs.owner import ending_workers
from optim.model import Model, SessionConfig
from optim.source import SourceRequest
from optim.target import Target

Say = Callable[[str], None]


@contextmanager
def workbench_for(
    model: Path, asked: RunSettings, say: Say, beside: Sequence[Path] = ()
) -> Iterator[tuple[Workbench, Candidate]]:
    """Prepares a workbench on the samples of the first model, and returns that model with its own settings too.

    If the user gives no samples, optim takes those of a run folder that fit, or synthesizes some.
    """
    own = samples_of_runs((model, *beside)) if asked.data is None else None
    with ExitStack() as stack:
        try:
            found = stack.enter_context(_opened(model, replace(asked, data=asked.data or own), say))
        except OptimError as error:
            if own is None or error.reference not in OF_ANOTHER_GRAPH:
                raise
            found = stack.enter_context(_opened(model, asked, say))
        yield found


@contextmanager
def _opened(model: Path, asked: RunSettings, say: Say) -> Iterator[tuple[Workbench, Candidate]]:
    registry, store = load_registry(), Store()
    device = require_target(registry, asked.target, beside=True)  # stored outputs are held against a model here
    if needs_export(str(model)):
        require_foretold(replace(asked, export=SourceRequest(str(model))), registry)
    with store.in_use(), ending_workers(), thread_executor() as executor:
        exported = _exported(model, asked.component, device, registry, store, say)
        path, session = (model, SessionConfig()) if exported else resolve(model)
        settings = replace(
            asked,
            source=path,
            fresh=True,
            export=SourceRequest(str(model)) if exported else None,
            component=exported.known.component if exported else "",
        )
        bench = Workbench(settings, registry, store, executor, say, exported)
        found = bench.ingest()
        bench.goal.require(settings.goal_request, bench.facts, found.model)
        bench.prepare()
        original = replace(bench.original, model=found.model.with_session(session))
        yield bench, original if exported else _where_it_was_made_for(bench, model, original)


def require_timed(target: Target) -> None:
    """Refuse a target on which time means nothing."""
    if not target.timed:
        raise OptimError.usage(
            "not-timed",
            f"nothing can be timed on target {target.name}",
            target.remark,
            "optim targets; on a device the same target is timed",
        )


def resolve(path: Path) -> tuple[Path, SessionConfig]:
    """The graph and the settings of an ``.onnx`` file (the runtime's defaults) or of a run folder."""
    if path.is_dir():
        return path / MODEL_FILE, read_session_file(path).config
    return path, SessionConfig()


def _exported(
    model: Path, component: str, target: Target, registry: Registry, store: Store, say: Say
) -> ExportedGraph | None:
    """A component of a source; None if the model is an ONNX model."""
    if not needs_export(str(model)):
        return None
    asked = RunSettings(model, export=SourceRequest(str(model)))
    made = {one.known.component: one for one in export_source(asked, registry, store, say, target)}
    name = component or next(iter(made))
    if name in made and (component or len(made) == 1):
        return made[name]
    raise OptimError.usage(
        "which-component",
        f"{model} has several components",
        f"they are {', '.join(made)}",
        f"--component {list(made)[-1]}",
    )


def other_model(bench: Workbench, path: Path, component: str = "", *, renamed: bool = False) -> Candidate:
    """A further model, brought into the store, with its own settings; a source is exported.

    Its inputs may be ``renamed`` for whoever knows the names.
    """
    exported = _exported(path, component, bench.target, bench.registry, bench.store, bench.say)
    if exported is not None:
        other = Candidate(exported.model, exported.size_bytes)
    else:
        graph, session = resolve(path)
        found = bench.ingest_file(graph)
        other = Candidate(found.model.with_session(session), found.size_bytes)
    fed = sorted(f"'{info.name}'" for info in bench.original.model.inputs)
    lacking = [name for info in other.model.inputs if (name := f"'{info.name}'") not in fed]
    if lacking and not renamed:  # a model that takes less is fed less
        raise OptimError.usage(
            "other-inputs",
            f"{path} takes other inputs than {bench.settings.source}",
            f"the samples lack {', '.join(lacking)}; they have {', '.join(fed)}",
            f"give them the same names; optim inspect {path} shows its inputs",
        )
    return other if exported is not None else _where_it_was_made_for(bench, path, other)


def require_ready(result: LaneResult, model: Model, path: Path) -> Ready:
    """Returns what opening a model and running it gave."""
    if result.ready is None or result.failure:
        raise OptimError(
            "other-failed",
            f"{path} does not run on the same samples",
            result.failure,
            "optim inspect shows its inputs and operators",
        ).naming(names_in_messages(model.path, path))
    return result.ready


def _where_it_was_made_for(bench: Workbench, path: Path, candidate: Candidate) -> Candidate:
    """The model of a run folder on the runtime that the folder is for, where that is not onnxruntime."""
    made_for = read_session_file(path).target if path.is_dir() else ""
    if made_for in ("", bench.settings.target):
        return candidate
    bench.places[made_for] = bench.place_of(require_target(bench.registry, made_for))
    return replace(candidate, target=made_for)


OF_ANOTHER_GRAPH = frozenset({"feeds-missing-input", "feeds-unknown-input", "feeds-shape", "feeds-dtype"})
"""A pass may have changed what goes in: the samples of the original do not fit then, and others are made up."""


def samples_of_runs(paths: Iterable[Path]) -> str | None:
    """The samples of the first run folder among ``paths`` that knows them, if they still lie as files; else None.

    A lock of somebody else may name a function, which is code.
    """
    for path, lock in _locks(paths):
        found = lock.data_beside(path / LOCK_FILE)
        if found is not None and Path(found).exists():
            return found
    return None


def about_made_up(paths: Iterable[Path]) -> str:
    """What synthesized samples leave open of the run folders among ``paths`` that were judged on others; else empty."""
    for path, lock in _locks(paths):
        if lock.feeds.data is not None:
            return f"compared on synthesized inputs; the run of {path} had {lock.feeds.data}: give it with --data"
    return ""


def _locks(paths: Iterable[Path]) -> Iterator[tuple[Path, Lock]]:
    """Finds the run folders among ``paths`` whose lock can be read, each with the lock."""
    for path in paths:
        if (path / LOCK_FILE).is_file():
            with suppress(OptimError):  # it is of another optim, or was changed: the model is looked at all the same
                found = load_recipe_or_lock(path / LOCK_FILE)
                if isinstance(found, Lock):
                    yield path, found
