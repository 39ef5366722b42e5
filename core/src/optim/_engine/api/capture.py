"""``optim.capture``: what goes into sessions of onnxruntime and modules of torch, out of a running program, as files.

The calls kept are a fair sample of all calls (Vitter's algorithm R): the first ``limit`` are written, and after these
call n takes the place of one of them with probability limit / n. An error here must not stop the program that is
listened to: a call that cannot be kept is counted, and told at the end.
"""

from __future__ import annotations

import functools
import inspect
import random
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from optim._engine.feeds.archives import write_archive
from optim._engine.feeds.sources import without_torch
from optim.errors import ExitStatus, OptimError, disk_error

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
    """Keeps the inputs of a model while a program runs, for ``data=`` and ``--data``.

    Inside the block, optim sees every call of ``InferenceSession.run``, or of ``module``. If several sessions run, each
    has a folder of its own in ``folder``.

    Args:
        folder: a new or an empty folder. It gets an ``.npz`` file for each call that optim keeps.
        limit: calls to keep for each session; if there are more, a fair sample of them.
        max_bytes: largest size of all arrays together. optim leaves out a call that does not fit any more.
        module: a torch module. Its inputs have the names of the arguments of its ``forward``.
        seed: random seed for the sample of calls.
        say: function that gets a line at the end: the calls kept.

    Yields:
        The folder.

    Raises:
        OptimError[bad-limit]: ``limit`` or ``max_bytes`` is below 1.
        OptimError[capture-folder-taken]: the folder is not empty.
        OptimError[nothing-captured]: there was no call, or none that optim could keep. optim removes a new folder.

    Examples:
        >>> with optim.capture("feeds", limit=64):
        ...     pipeline("a text")
        captured 1 of 1 calls of model
        >>> optim.run("model.onnx", "out", data="feeds")
    """
    from optim._engine.api.capture import FeedRecorder

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
    from optim._engine.api.capture import named_arguments

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


@dataclass(slots=True)
class _Caller:
    """A session or a module that is listened to.

    Attributes:
        name: of its model, for its folder.
        calls: that it was given.
        sizes: bytes of the calls that are kept, by place.
    """

    name: str
    calls: int = 0
    sizes: dict[int, int] = field(default_factory=dict)


class FeedRecorder:
    """Keeps calls of many callers in one folder; safe for threads.

    Args:
        folder: a new or an empty one.
        limit: calls of each caller that are kept.
        max_bytes: that everything kept may take, as arrays.
        seed: of the choice among more calls.
    """

    def __init__(self, folder: Path, limit: int, max_bytes: int, seed: int) -> None:
        self._folder, self._limit, self._max_bytes = folder, limit, max_bytes
        self._random = random.Random(seed)
        self._guard = threading.Lock()
        self._callers: dict[int, _Caller] = {}
        self._held: list[object] = []  # so that no id is used again
        self._too_large = 0
        self._largest = 0
        self._unreadable = ""

    def keep(self, caller: object, name: str, feeds: Mapping[str, Any]) -> None:
        """Keep a call, or leave it out; raises nothing."""
        try:
            with self._guard:
                self._keep(caller, name, feeds)
        except Exception as error:
            self._unreadable = f"{type(error).__name__}: {error}"

    def _keep(self, caller: object, name: str, feeds: Mapping[str, Any]) -> None:
        if id(caller) not in self._callers:
            self._callers[id(caller)] = _Caller(name)
            self._held.append(caller)
        known = self._callers[id(caller)]
        known.calls += 1
        place = known.calls - 1 if known.calls <= self._limit else self._random.randrange(known.calls)
        if place >= self._limit:
            return
        arrays = {input_name: _array(value) for input_name, value in feeds.items()}
        size = sum(array.nbytes for array in arrays.values())
        kept = sum(sum(one.sizes.values()) for one in self._callers.values()) - known.sizes.get(place, 0)
        if kept + size > self._max_bytes:
            self._too_large, self._largest = self._too_large + 1, max(self._largest, size)
            return
        part = self._folder / str(list(self._callers).index(id(caller)))
        part.mkdir(parents=True, exist_ok=True)
        file = part / f"{place:05}.npz"
        try:
            write_archive(file, arrays)
        except Exception:
            file.unlink(missing_ok=True)  # half of a call is none, and the one that lay there is gone
            known.sizes.pop(place, None)
            with suppress(OSError):  # other calls are there
                part.rmdir()
            raise
        known.sizes[place] = size

    def finish(self) -> str:
        """Put the files where they stay: in the folder itself, or in one for each caller where there are several.

        Returns:
            One sentence: the calls that were kept, and those that were not.

        Raises:
            OptimError[nothing-captured]: no call was kept.
        """
        kept = {place: one for place, one in enumerate(self._callers.values()) if one.sizes}
        if not kept:
            raise OptimError(
                "nothing-captured", f"nothing was captured into {self._folder}", *self._why(), status=ExitStatus.USAGE
            )
        for place, one in kept.items():
            part = self._folder / str(place)
            if len(kept) > 1:
                part.rename(self._folder / f"{place}-{one.name}")
                continue
            for file in sorted(part.iterdir()):
                shutil.move(file, self._folder / file.name)
            part.rmdir()
        said = ", ".join(f"{len(one.sizes)} of {one.calls} calls of {one.name}" for one in kept.values())
        left = f"; {self._too_large} more would have been above {self._max_bytes} bytes" if self._too_large else ""
        return f"captured {said}{left}"

    def _why(self) -> tuple[str, str]:
        """Why nothing was kept, and what to do."""
        if self._too_large:
            cause = f"each call was larger than {self._max_bytes} bytes, the largest {self._largest}"
            return cause, "give more max_bytes"
        if self._unreadable:
            return self._unreadable, "only arrays and tensors can be kept: capture the module that takes those"
        return (
            "no session of onnxruntime was run inside",
            "call the model inside the with block; a torch module is named: optim.capture(folder, module=module);"
            " optim does not record session.run_with_iobinding",
        )


def named_arguments(module: Any, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a module's call by the names of ``forward``; what is None or no tensor is no input of a model."""
    bound = inspect.signature(module.forward).bind(*given, **named).arguments
    flat = {**bound, **bound.pop("kwargs", {})} if isinstance(bound.get("kwargs"), dict) else dict(bound)
    return {name: value for name, value in flat.items() if hasattr(value, "detach") or isinstance(value, np.ndarray)}


def _array(value: Any) -> np.ndarray[Any, Any]:
    """An array of what onnxruntime or torch takes as an input."""
    value = without_torch(value)
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype == object:
        raise TypeError("an input is not an array of numbers or texts")
    return array
