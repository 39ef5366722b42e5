"""Parts for commands of plugins that look at a model as a run does: a target, the model in a store, and samples.

Each function does the same as ``optim run``, with the same errors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.arrays import Feeds, Outputs
    from optim.context import Context
    from optim.model import Model
    from optim.target import Target


def require_target(name: str) -> Target:
    """Returns the target of that name, with its settings, if this machine can use it.

    Raises:
        OptimError[unknown-target]: there is no such target.
        OptimError[target-unavailable]: this machine cannot use it.
    """
    from optim._engine.plugins.registry import load_registry
    from optim._engine.plugins.registry import require_target as require

    return require(load_registry(), name)


def read_model(path: Path, store: Path) -> Model:
    """Checks an ``.onnx`` file and brings it into a folder of models.

    Raises:
        OptimError: the file is missing or malformed, or refers to missing data.
    """
    from optim._engine.graphs.ingest import ingest

    return ingest(path, store)


def look_at(path: Path) -> Model:
    """Returns the description of a model file. Reads no weight and writes nothing.

    Raises:
        OptimError: the file is missing or malformed.
    """
    from optim._engine.graphs.user_files import check_file
    from optim.onnx.checker import malformed_is_invalid
    from optim.onnx.files import describe_model
    from optim.onnx.skeleton import read_skeleton

    check_file(path)
    read_skeleton(path)
    with malformed_is_invalid(path):
        return describe_model(path, digest=path.name)


def write_model(model: Model, folder: Path, target: Target) -> None:
    """Writes a model of a store, with the files that ``optim.load`` and ``load.py`` open it with.

    Args:
        model: a model in a store, which onnxruntime runs.
        folder: a new or empty folder.
        target: target that it is opened on.
    """
    from optim._engine.goals.generating import loading_script
    from optim._engine.load_script import LOAD_TEXT
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.session_file import SessionFile, write_session_files
    from optim.onnx.files import deliver_model

    deliver_model(model, folder)
    script = loading_script(load_registry(), LOAD_TEXT, model)
    write_session_files(folder, SessionFile.of(model.session, target, model=model), script)


def read_feeds(data: str, model: Model, folder: Path, *, seed: int = 0) -> None:
    """Reads the samples of ``--data`` into a folder for ``context_for``.

    Args:
        data: a file, a folder, or ``package.module:function``.
        model: model that the samples are for.
        folder: an empty folder.
        seed: seed for a function that takes one.

    Raises:
        OptimError: the samples do not fit the model.
    """
    from optim._engine.feeds.sources import load_feeds

    load_feeds(data, model, folder, seed)


def made_up_feeds(
    model: Model, folder: Path, *, seed: int = 0, run: Callable[[Feeds], Outputs] | None = None
) -> list[Feeds]:
    """Synthesizes samples from a graph, as a run without ``--data`` does.

    Args:
        model: model that the samples are for.
        folder: an empty folder for them.
        seed: random seed.
        run: runs the model. Samples that it refuses are left out.

    Raises:
        OptimError[feeds-not-found]: the model runs on no synthesized sample.
    """
    from optim._engine.feeds.synthesize import synthesize_feeds

    return list(synthesize_feeds(model, folder, seed, check=run).iterate())


def context_for(target: Target, store: Path, feeds: Path | None, *, seed: int = 0) -> AbstractContextManager[Context]:
    """Makes the context of a pass outside of a run.

    Args:
        target: where the model will run.
        store: folder for graphs.
        feeds: folder of ``read_feeds``; None: the context has no samples.
        seed: seed of the context's generator.
    """
    from optim._engine.jobs.offer import Calibration
    from optim._engine.jobs.offer import context_for as make

    return make(target, store, None if feeds is None else Calibration(feeds), seed)
