"""``optim.capture``: feeds out of a running program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

from optim.errors import OptimError, disk_error

_DEFAULT_LIMIT = 64
"""Calls: as many as a run compares on; more only wait to be left out."""

_DEFAULT_MAX_BYTES = 256 << 20
"""What a sample of feeds may take on disk without being asked about."""


@contextmanager
def capture(
    folder: str | PathLike[str],
    *,
    limit: int = _DEFAULT_LIMIT,
    max_bytes: int = _DEFAULT_MAX_BYTES,
    module: Any = None,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> Iterator[Path]:
    """Keep what goes into a model while a program runs, for ``data=`` and ``--data``.

    Inside the block every call of ``InferenceSession.run`` is seen, or of ``module`` where one is given. Where several
    sessions ran, each has a folder of its own in ``folder``.

    Args:
        folder: a new or an empty one; gets an ``.npz`` file for each call that is kept.
        limit: calls of each session; of more a fair sample is kept.
        max_bytes: that all of it may take, as arrays; a call that does not fit any more is left out.
        module: a torch module, whose inputs are called as the arguments of its ``forward``.
        seed: of the choice among more calls.
        say: told at the end what was kept.

    Yields:
        The folder.

    Raises:
        OptimError[bad-limit]: ``limit`` or ``max_bytes`` is below 1.
        OptimError[capture-folder-taken]: there is something in the folder.
        OptimError[nothing-captured]: no call was seen, or none that could be kept; a new folder is removed.

    Example:
        >>> with optim.capture("feeds", limit=64):
        ...     pipeline("a text")
        captured 1 of 1 calls of model
        >>> optim.run("model.onnx", "out", data="feeds")
    """
    from optim._engine.feeds.capture import FeedRecorder

    path = Path(folder)
    is_new = not path.exists()
    if limit < 1 or max_bytes < 1:
        raise OptimError.usage(
            "bad-limit",
            "nothing could be captured",
            f"limit is {limit} and max_bytes {max_bytes}",
            "give both at least 1",
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise OptimError.usage(
                "capture-folder-taken",
                f"input samples cannot be captured into {path}",
                "there is something in it",
                "name a new or an empty folder",
            )
    except OSError as error:
        raise disk_error(error, f"input samples cannot be captured into {path}") from error
    recorder = FeedRecorder(path, limit, max_bytes, seed)
    try:
        with _sessions(recorder) if module is None else _module(recorder, module):
            yield path
        said = recorder.finish()
    finally:
        if is_new:
            with suppress(OSError):  # something was captured
                path.rmdir()
    say(said)


@contextmanager
def _sessions(recorder: Any) -> Iterator[None]:
    """Listen to every session of onnxruntime in this process."""
    import onnxruntime as ort

    run = ort.InferenceSession.run

    @functools.wraps(run)
    def seen(session: Any, outputs: Any, feeds: Any, *others: Any, **named: Any) -> Any:
        recorder.keep(session, _name_of(session), feeds)
        return run(session, outputs, feeds, *others, **named)

    ort.InferenceSession.run = seen
    try:
        yield
    finally:
        ort.InferenceSession.run = run


@contextmanager
def _module(recorder: Any, module: Any) -> Iterator[None]:
    """Listen to one module of torch."""
    from optim._engine.feeds.capture import named_arguments

    def seen(called: Any, given: Any, named: Any) -> None:
        recorder.keep(called, type(called).__name__, named_arguments(called, given, named))

    handle = module.register_forward_pre_hook(seen, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def _name_of(session: Any) -> str:
    """The name of the file that a session was made of; ``model`` where it was made of bytes."""
    path = getattr(session, "_model_path", None)
    return Path(path).stem if isinstance(path, str) and path else "model"
