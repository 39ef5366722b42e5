"""What a command of a plugin needs to look at a model as a run would: a target, the model in a store, and feeds.

Each function does what ``optim run`` does in that place, with the same errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

    from optim.arrays import Feeds, Outputs
    from optim.context import Context
    from optim.model import Model
    from optim.target import Target


def require_target(name: str) -> Target:
    """The target of that name, settings included, if it can be used on this machine.

    Raises:
        OptimError: unknown-target, target-unavailable.
    """
    from optim._engine.plugins.registry import load_registry
    from optim._engine.plugins.registry import require_target as require

    return require(load_registry(), name)


def read_model(path: Path, store: Path) -> Model:
    """Check an ``.onnx`` file and bring it into a folder of models.

    Raises:
        OptimError: it is missing, malformed, or refers to data that is not there.
    """
    from optim._engine.graphs.ingest import ingest

    return ingest(path, store)


def read_unchecked(path: Path) -> ir.Model:
    """The graph of a file that can be read, though optim or onnx may refuse it."""
    from optim._engine.graphs.ingest import read_unchecked as read

    return read(path)


def look_at(path: Path) -> Model:
    """What a model file says of itself; no weight is read, and nothing is written.

    Raises:
        OptimError: it is missing, or malformed.
    """
    from optim._engine.graphs.file_there import check_file
    from optim.onnx.checker import malformed_is_invalid
    from optim.onnx.files import describe_model
    from optim.onnx.skeleton import read_skeleton

    check_file(path)
    read_skeleton(path)
    with malformed_is_invalid(path):
        return describe_model(path, digest=path.name)


def write_model(model: Model, folder: Path, target: Target) -> None:
    """Write a model of a store, and beside it what :func:`optim.load` and ``load.py`` open it with.

    Args:
        model: in a store; onnxruntime runs it.
        folder: absent or empty.
        target: that it is opened on.
    """
    from optim._engine.goals.generating import loading_script
    from optim._engine.load_script import LOAD_TEXT
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.session_file import Opening, write_session_files
    from optim.onnx.files import deliver_model
    from optim.onnx.libraries import operator_libraries

    deliver_model(model, folder)
    opening = Opening(adapters=model.adapters)
    script = loading_script(load_registry(), LOAD_TEXT, model)
    libraries = operator_libraries(model.opset)
    write_session_files(folder, model.session, target, libraries, script=script, opening=opening)


def read_feeds(data: str, model: Model, folder: Path, *, seed: int = 0) -> None:
    """Read what ``--data`` names, as inputs of a model, into a folder that :func:`context_for` takes.

    Args:
        data: a file, a folder, or ``package.module:function``.
        model: whose inputs they are.
        folder: an empty one.
        seed: handed to a function that takes one.

    Raises:
        OptimError: it does not fit the model.
    """
    from optim._engine.feeds.load import load_feeds

    load_feeds(data, model, folder, seed)


def made_up_feeds(
    model: Model, folder: Path, *, seed: int = 0, run: Callable[[Feeds], Outputs] | None = None
) -> list[Feeds]:
    """Samples made up from a graph, as a run without ``--data`` makes them.

    Args:
        model: whose inputs they are.
        folder: an empty one, where they are kept.
        seed: the same seed gives the same samples.
        run: the model's, so that what it refuses is not taken.

    Raises:
        OptimError[feeds-not-found]: nothing could be made up that it runs on.
    """
    from optim._engine.feeds.synthesize import synthesize_feeds

    return list(synthesize_feeds(model, folder, seed, check=run).iterate())


def context_for(target: Target, store: Path, feeds: Path | None, *, seed: int = 0) -> AbstractContextManager[Context]:
    """Returns what a pass is given beside its model, outside of a run.

    Args:
        target: where the model will run.
        store: folder that graphs are saved in.
        feeds: folder that :func:`read_feeds` filled; None: the context has no samples.
        seed: of the context's generator.
    """
    if feeds is None:
        return _without_samples(target, store, seed)
    from optim._engine.jobs.calibration import Calibration
    from optim._engine.jobs.offer import context_for as make

    return make(target, store, Calibration(feeds), seed)


@contextmanager
def _without_samples(target: Target, store: Path, seed: int) -> Iterator[Context]:
    import logging
    from tempfile import TemporaryDirectory

    from optim.context import Context

    with TemporaryDirectory(dir=store.parent, prefix="scratch-") as scratch:
        yield Context(
            target=target,
            scratch=Path(scratch),
            store=store,
            seed=seed,
            samples=lambda: iter(()),
            log=logging.getLogger("optim.pass"),
            report_progress=lambda share, text: None,
            feeds_given=False,
        )
