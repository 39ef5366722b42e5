"""``optim.capture``: what goes into sessions of onnxruntime and modules of torch, out of a running program, as files.

An error here must not stop the program that is listened to: a call that cannot be kept is counted, and told at the end.
"""

from __future__ import annotations

import functools
import inspect
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from optim import ExitStatus, OptimError
from optim.engine.record import write_archive
from optim.errors import disk_error
from optim_plugins.record.kept import KeptCalls, Room
from optim_plugins.record.values import as_array


@contextmanager
def captured(path: Path, module: Any, room: Room, say: Callable[[str], None]) -> Iterator[Path]:
    """Keep what goes into every session, or into one module, while a program runs; see :func:`optim.capture`.

    Args:
        path: a new or an empty folder.
        module: a torch module; None: every session of onnxruntime.
        room: for calls.
        say: told at the end what was kept.
    """
    is_new = not path.exists()
    if room.limit < 1 or room.left < 1:
        raise OptimError.usage(
            "bad-limit",
            "nothing could be captured",
            f"limit is {room.limit} and max_bytes {room.left}",
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
    recorder = FeedRecorder(path, room)
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
def _sessions(recorder: FeedRecorder) -> Iterator[None]:
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
def _module(recorder: FeedRecorder, module: Any) -> Iterator[None]:
    """Listen to one module of torch."""

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


class _Caller(NamedTuple):
    """A session or a module that is listened to; it is held, so that no other gets its id."""

    caller: object
    name: str
    calls: KeptCalls[Path]


class FeedRecorder:
    """Keeps calls of many callers in one folder; safe for threads.

    Args:
        folder: a new or an empty one.
        room: for the calls of all.
    """

    def __init__(self, folder: Path, room: Room) -> None:
        self._folder, self._room, self._max_bytes = folder, room, room.left
        self._guard = threading.Lock()
        self._callers: dict[int, _Caller] = {}
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
        known = self._callers.setdefault(id(caller), _Caller(caller, name, KeptCalls(self._room)))
        place = known.calls.place()
        if place is None:
            return
        arrays = {input_name: as_array(value) for input_name, value in feeds.items()}
        if any(array.dtype == object for array in arrays.values()):
            raise TypeError("an input is not an array of numbers or texts")
        size = sum(array.nbytes for array in arrays.values())
        part = self._folder / str(list(self._callers).index(id(caller)))
        file = part / f"{place:05}.npz"
        if not known.calls.put(place, file, size):
            self._largest = max(self._largest, size)
            return
        try:
            part.mkdir(parents=True, exist_ok=True)
            write_archive(file, arrays)
        except Exception:
            file.unlink(missing_ok=True)  # half of a call is none, and the one that lay there is gone
            known.calls.drop(place)
            with suppress(OSError):  # other calls are there
                part.rmdir()
            raise

    def finish(self) -> str:
        """Put the files where they stay: in the folder itself, or in one for each caller where there are several.

        Returns:
            One sentence: the calls that were kept, and those that were not.

        Raises:
            OptimError[nothing-captured]: no call was kept.
        """
        kept = {place: one for place, one in enumerate(self._callers.values()) if one.calls.items}
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
        said = ", ".join(f"{len(one.calls.items)} of {one.calls.count} calls of {one.name}" for one in kept.values())
        left = f"; {self._too_large} more would have been above {self._max_bytes} bytes" if self._too_large else ""
        return f"captured {said}{left}"

    @property
    def _too_large(self) -> int:
        return sum(one.calls.too_large for one in self._callers.values())

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
