"""``optim deliver`` and ``--deliver``: a run folder's result in other layouts, each whole or not there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from optim._engine.plugins.registry import Registry
from optim._engine.recipes.lock import Lock, load_recipe_or_lock
from optim._engine.reports.parts.laid_out import DELIVERY_FILE, LayoutReport
from optim._engine.runs.compare.conditions import Conditions, workbench_for
from optim._engine.runs.compare.run_feeds import LOCK_FILE, OF_ANOTHER_GRAPH, samples_of
from optim._engine.runs.layouts.asked import AskedLayout, Deliveries, of_several, require_files
from optim._engine.runs.layouts.lay_out import Bench, lay_out
from optim._engine.runs.layouts.not_carried import without_packing
from optim._engine.runs.session_file import MODEL_FILE
from optim._engine.runs.session_trust import read_session_file
from optim._engine.sources.export_file import read_export_file
from optim._engine.store import Store
from optim.errors import OptimError, disk_error
from optim.layout import Result
from optim.onnx.files import describe_model
from optim.target import Target

Say = Callable[[str], None]
Against = tuple[Target, Bench | str]


@dataclass(frozen=True, slots=True)
class _Feeds:
    """Feeds to compare on.

    Attributes:
        data: as a user names them; None: made up.
        named: whether the user named them for this very graph.
    """

    data: str | None
    named: bool = False


def deliver(
    folder: Path, asked: Deliveries, output: Path, registry: Registry, say: Say, data: str | None = None
) -> LayoutReport:
    """Lay the result of a finished run out in a folder of its own.

    Args:
        folder: of the run.
        asked: one layout.
        output: absent, or an empty folder.
        registry: of the plugins.
        say: told what is going on.
        data: feeds to compare on; None: those of the run, where they are there, else made up.

    Raises:
        OptimError[not-a-run-folder]: it is none, or delivered no model.
        OptimError[layout-of-several]: it has a run folder for each component.
        OptimError[folder-taken]: something lies at ``output``.
        OptimError: the layout refuses it, or its consumer computes something else; nothing is left then.
    """
    _require_free(output)
    (one,) = asked.layouts
    exported = read_export_file(folder)
    if exported is not None and len(exported.components) > 1:
        raise of_several(one, exported.components)
    lock = _lock_of(folder)
    require_files(asked, asked.files or folder)
    feeds = _Feeds(data, named=True) if data else _Feeds(samples_of(lock, folder / LOCK_FILE))
    with _against(folder, lock, registry, say, feeds) as (target, against):
        result = _result_of(folder, target, asked.files or folder)
        return _whole(one, result, output, against, asked.python)


def _require_free(output: Path) -> None:
    """Refuse to write where something lies.

    Raises:
        OptimError[folder-taken]: names it.
    """
    if output.is_dir() and not any(output.iterdir()):
        return
    if output.exists() or output.is_symlink():
        what = "a folder that is not empty" if output.is_dir() else "a file"
        raise OptimError.usage(
            "folder-taken",
            f"nothing is written to {output}",
            f"it is {what}, and nothing of yours is overwritten",
            "name a new folder: -o DIR",
        )


def deliver_in_run(
    folder: Path, asked: Deliveries, registry: Registry, say: Say, data: str | None
) -> tuple[LayoutReport, ...]:
    """Lay the result out in folders of the run folder that is being filled.

    A layout that fails is not there, and its row says why: the result itself stands.

    Args:
        folder: of the run; has the graph, its settings, its lock and the files of its source.
        asked: the layouts.
        registry: of the plugins.
        say: told what is going on.
        data: feeds of the run.
    """
    found = []
    with _against(folder, _lock_of(folder), registry, say, _Feeds(data)) as (target, against):
        result = _result_of(folder, target, asked.files or folder)
        for one in asked.layouts:
            output = folder if one.layout.in_place else folder / one.layout.name
            before = set(folder.iterdir())
            try:
                if one.layout.in_place:
                    row = lay_out(one, result, folder, against, asked.python)
                else:
                    row = _whole(one, result, output, against, asked.python)
                row = row.model_copy(update={"folder": "." if output == folder else output.name})
            except OptimError as error:
                if error.reference == "disk-full":
                    raise
                for left in set(folder.iterdir()) - before:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
                row = LayoutReport(
                    layout=one.text,
                    plugin=one.plugin,
                    folder="",
                    graph="",
                    status="failed",
                    text=f"{error.what}: {error.cause}" if error.cause else error.what,
                )
            found.append(row)
    return tuple(found)


def _result_of(folder: Path, target: Target, files: Path | None) -> Result:
    """The result that lies in a run folder."""
    saved, exported = read_session_file(folder), read_export_file(folder)
    state = next(iter(exported.components.values())).state if exported else {}
    path = folder / MODEL_FILE
    model = describe_model(path, session=without_packing(saved.config), digest=path.name)
    return Result(folder, model, target, files, exported.facts if exported else {}, state)


@contextmanager
def _against(folder: Path, lock: Lock, registry: Registry, say: Say, feeds: _Feeds) -> Iterator[Against]:
    """The target of a run, and its result prepared on it; or why it cannot be run here."""
    target = registry.target(lock.target.name)
    reason = registry.unavailable(target)
    if reason is not None:
        yield target, f"target {target.name} cannot be used on this machine: {reason}"
        return
    conditions = Conditions(registry, Store(), say, data=feeds.data, target=target.name, seed=lock.feeds.seed)
    with ExitStack() as stack:
        try:
            bench, own = stack.enter_context(workbench_for(folder, conditions))
        except OptimError as error:
            if feeds.named or error.reference not in OF_ANOTHER_GRAPH:
                raise
            bench, own = stack.enter_context(workbench_for(folder, replace(conditions, data=None)))
        yield target, Bench(bench, own)


def _whole(one: AskedLayout, result: Result, output: Path, against: Bench | str, python: Path) -> LayoutReport:
    """A layout at its place, or nothing: it is written beside, opened there, and takes its name when it is right.

    Raises:
        OptimError[disk-full]: or whatever else the file system refused.
    """
    output = output.absolute()
    stage = output.with_name(f".{output.name}.optim-new")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir()
        report = lay_out(one, result, stage, against, python)
        text = report.model_copy(update={"folder": "."}).model_dump_json(indent=2) + "\n"
        (stage / DELIVERY_FILE).write_text(text, encoding="utf-8")
        if output.is_dir():
            output.rmdir()  # empty: Windows renames nothing onto it
        stage.rename(output)
    except OSError as error:
        refused = disk_error(error, f"the result cannot be delivered in {output}")
        refused.fix = "free some space, or name another folder: -o DIR"
        raise refused from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return report.model_copy(update={"folder": str(output)})


def _lock_of(folder: Path) -> Lock:
    """The lock of a run that delivered a model.

    Raises:
        OptimError[not-a-run-folder]: there is none.
    """
    there = (folder / MODEL_FILE).is_file() and (folder / LOCK_FILE).is_file()
    found = load_recipe_or_lock(folder / LOCK_FILE) if there else None
    if isinstance(found, Lock):
        return found
    why = "it is a file" if folder.is_file() else "there is no such folder"
    raise OptimError.usage(
        "not-a-run-folder",
        f"{folder} is not a folder that optim run filled with a model",
        f"it has no {MODEL_FILE} with a {LOCK_FILE}" if folder.is_dir() else why,
        "optim run MODEL -o DIR",
    )
