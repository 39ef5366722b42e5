"""``optim deliver`` and ``--deliver``: a run folder's result in other layouts, each whole or not there."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import optim
from optim import Lab
from optim.engine.layouts import (
    DELIVERY_FILE,
    LOCK_FILE,
    MODEL_FILE,
    OF_ANOTHER_GRAPH,
    LayoutReport,
    LayoutRequest,
    Lock,
    Registry,
    Say,
    load_recipe_or_lock,
    of_several,
    read_export_file,
    read_session_file,
)
from optim.errors import OptimError, disk_error
from optim.layout import Result
from optim.model import SessionConfig
from optim.onnx import describe_model
from optim.target import Target
from optim_plugins.layouts.carried_settings import without_packing
from optim_plugins.layouts.deliver.asked import AskedLayout, ask, require_files, require_places
from optim_plugins.layouts.deliver.lay_out import lay_out

_HERE = Path(sys.executable)


class OpenedAndCompared:
    """Keeps the contract :class:`optim._engine.runs.delivering.Deliverer`."""

    def require(self, registry: Registry, asked: LayoutRequest, files: Path | None, output: Path) -> None:
        """Refuse what a run cannot lay out into its folder, before anybody waits for it.

        Raises:
            OptimError[layout-refused]: says what is missing.
            OptimError[folder-taken]: the user has something of that name there.
        """
        layouts = ask(registry, asked)
        require_files(layouts, asked.files or files)
        require_places(layouts, output)

    def add(
        self, registry: Registry, asked: LayoutRequest, folder: Path, say: Say, data: str | None
    ) -> tuple[LayoutReport, ...]:
        """Lay the result out in folders of the run folder that is being filled.

        A layout that fails is not there, and its row says why: the result itself stands.
        """
        found = []
        with _against(_run_of(folder), registry, say, data, named=False) as (target, against):
            result = _result_of(folder, target, asked.files or folder)
            for one in ask(registry, asked):
                name, before = "." if one.layout.in_place else one.layout.name, set(folder.iterdir())
                write = lay_out if one.layout.in_place else _whole
                try:
                    row = write(one, result, folder / name, against, asked.python or _HERE)
                    row = row.model_copy(update={"folder": name})
                except OptimError as error:
                    if error.reference == "disk-full":
                        raise
                    for left in set(folder.iterdir()) - before:
                        shutil.rmtree(left) if left.is_dir() else left.unlink()
                    text = f"{error.what}: {error.cause}" if error.cause else error.what
                    row = LayoutReport(
                        layout=one.text, plugin=one.plugin, folder="", graph="", status="failed", text=text
                    )
                found.append(row)
        return tuple(found)

    def deliver(
        self, registry: Registry, asked: LayoutRequest, folder: Path, output: Path, say: Say, data: str | None
    ) -> LayoutReport:
        """Lay the result of a finished run, or what was exported, out in a folder of its own.

        Raises:
            OptimError[not-a-run-folder]: it is neither, or delivered no model.
            OptimError[layout-of-several]: it has a run folder for each component.
            OptimError[folder-taken]: something lies at ``output``.
            OptimError: the layout refuses it, or its consumer computes something else; nothing is left then.
        """
        (one,) = ask(registry, asked)
        _require_free(output)
        exported = read_export_file(folder)
        if exported is not None and len(exported.components) > 1:
            raise of_several(one.layout.name, exported.components)
        run = _run_of(folder)
        require_files([one], asked.files or folder)
        with _against(run, registry, say, data, named=data is not None) as (target, against):
            result = _result_of(folder, target, asked.files or folder)
            return _whole(one, result, output, against, asked.python or _HERE)


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


def _result_of(folder: Path, target: Target, files: Path | None) -> Result:
    """The result that lies in a run folder, or the graph of an export."""
    exported = read_export_file(folder)
    component = next(iter(exported.components.values())) if exported else None
    is_run = (folder / LOCK_FILE).is_file()
    session = read_session_file(folder).config if is_run else SessionConfig()
    path = folder / (component.file if component is not None else MODEL_FILE)
    model = describe_model(path, session=without_packing(session), digest=path.name)
    state = component.state if component is not None else {}
    return Result(folder, model, target, files, exported.facts if exported else {}, state)


@contextmanager
def _against(
    run: _Run, registry: Registry, say: Say, data: str | None, *, named: bool
) -> Iterator[tuple[Target, Lab | str]]:
    """The target of a run, and its result prepared on it; or why it cannot be run here.

    Args:
        run: that filled the folder.
        registry: of the plugins.
        say: told what is going on.
        data: samples to compare on; None: those of the run, if they are there, else made up.
        named: whether the user named them for this very graph: what does not fit is an error then.
    """
    target = registry.target(run.target)
    reason = registry.unavailable(target)
    if reason is not None:
        yield target, f"target {target.name} cannot be used on this machine: {reason}"
        return
    with ExitStack() as stack:
        try:
            lab = optim.lab(run.opened, data=data, target=target.name, seed=run.seed, say=say)
        except OptimError as error:
            if named or error.reference not in OF_ANOTHER_GRAPH:
                raise
            lab = optim.lab(run.opened, target=target.name, seed=run.seed, say=say)
        yield target, stack.enter_context(lab)


def _whole(one: AskedLayout, result: Result, output: Path, against: Lab | str, python: Path) -> LayoutReport:
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


@dataclass(frozen=True, slots=True)
class _Run:
    """What filled a folder: a run for its target with its seed, or an export; and what a lab opens of it."""

    opened: Path
    target: str = "cpu"
    seed: int = 0


def _run_of(folder: Path) -> _Run:
    """What filled a folder with a model.

    Raises:
        OptimError[not-a-run-folder]: it is neither of a run nor of an export.
    """
    there = (folder / MODEL_FILE).is_file() and (folder / LOCK_FILE).is_file()
    found = load_recipe_or_lock(folder / LOCK_FILE) if there else None
    if isinstance(found, Lock):
        return _Run(folder, found.target.name, found.feeds.seed)
    exported = read_export_file(folder)
    if exported is not None and all((folder / one.file).is_file() for one in exported.components.values()):
        return _Run(folder / next(iter(exported.components.values())).file)
    why = "it is a file" if folder.is_file() else "there is no such folder"
    raise OptimError.usage(
        "not-a-run-folder",
        f"{folder} is not a folder that optim run or optim export filled with a model",
        f"it has no {MODEL_FILE} with a {LOCK_FILE}" if folder.is_dir() else why,
        "optim run MODEL -o DIR",
    )
