"""The calls of a pipeline itself: what it was given, copied, and what it returned, as arrays."""

from __future__ import annotations

import copy
import functools
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optim.arrays import Array
from optim_plugins.record.kept import KeptCalls, Room
from optim_plugins.record.modules import Call, ModuleListener
from optim_plugins.record.values import take_apart


@dataclass(frozen=True, slots=True)
class PipelineCall:
    """One call of the pipeline.

    Attributes:
        method: that was called; empty: the pipeline itself.
        args: copied before the call.
        kwargs: copied too.
        returned: arrays in what the pipeline returned, by their place.
    """

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    returned: Mapping[str, Array]


class Entrances:
    """Sees calls of a pipeline: of the object itself and of its public methods.

    For the time of the block the object has functions under the names of its methods, and a class of its own, since
    Python looks up ``__call__`` there. A function cannot be seen: it is called through the recorder.

    Args:
        pipe: the pipeline.
        listener: to its modules.
        read: makes what is compared of what the pipeline returned.
        room: for calls.
    """

    def __init__(self, pipe: Any, listener: ModuleListener, read: Callable[[Any], Any] | None, room: Room) -> None:
        self.pipe, self.listener, self.read = pipe, listener, read
        self.calls: KeptCalls[PipelineCall] = KeptCalls(room)
        self.notes: list[str] = []
        self.strange: list[str] = []
        self._local = threading.local()
        self._class: type | None = None
        self._own: dict[str, Any] = {}

    def install(self) -> None:
        """See the calls from now on."""
        if isinstance(self.pipe, types.FunctionType | types.MethodType | functools.partial):
            return
        own = getattr(self.pipe, "__dict__", None)
        if isinstance(own, dict):
            for name in dict.fromkeys(_methods(type(self.pipe))):
                self._own[name] = own.get(name)
                own[name] = functools.partial(self.call, name, getattr(self.pipe, name))
        if callable(self.pipe):
            self._class = type(self.pipe)
            self._take_class(self._class)

    def _take_class(self, own: type) -> None:
        def called(pipe: Any, *args: Any, **kwargs: Any) -> Any:
            return self.call("", functools.partial(own.__call__, pipe), *args, **kwargs)

        try:
            self.pipe.__class__ = types.new_class(
                own.__name__,
                (own,),
                exec_body=lambda names: names.update(__call__=called, __module__=own.__module__, __slots__=()),
            )
        except Exception:  # its class takes no subclass, or no other one: it is called through the recorder
            self._class = None

    def restore(self) -> None:
        """Leave the pipeline as it was."""
        for name, value in self._own.items():
            if value is None:
                self.pipe.__dict__.pop(name, None)
            else:
                self.pipe.__dict__[name] = value
        self._own = {}
        if self._class is not None:
            self.pipe.__class__, self._class = self._class, None

    def call(self, method: str, function: Call, *args: Any, **kwargs: Any) -> Any:
        """Call something of the pipeline, and keep the call if it is the outermost one and a module ran in it."""
        if getattr(self._local, "inside", False):
            return function(*args, **kwargs)
        self._local.inside = True
        try:
            copied, reason = _copied(args, kwargs)
            seen, own = self.listener.seen, self.listener.own_seconds
            started = time.perf_counter()
            returned = function(*args, **kwargs)
            seconds = time.perf_counter() - started - (self.listener.own_seconds - own)
        finally:
            self._local.inside = False
        if self.listener.seen > seen:
            place = self.calls.place()
            self.calls.spent(seconds)
            if reason:
                self._note(f"an argument cannot be copied, so its call cannot be repeated: {reason}")
            elif place is not None:
                self._keep(place, method, copied, (args, kwargs), returned)
        return returned

    def _keep(self, place: int, method: str, copied: Any, given: Any, returned: Any) -> None:
        try:
            arrays = self.outputs_of(returned)
        except Exception as error:  # of the user's function: it must not stop the pipeline
            self._note(f"outputs= raised {type(error).__name__}: {error}")
            return
        args, kwargs = copied
        before, now = take_apart(copied)[0], take_apart(given)[0]
        if before.keys() != now.keys() or any(not _same(before[name], now[name]) for name in before):
            self._note("the pipeline changes its arguments; optim repeats calls on copies")
        size = sum(array.nbytes for array in (*before.values(), *arrays.values()))
        self.calls.put(place, PipelineCall(method, args, kwargs, arrays), size)

    def outputs_of(self, returned: Any) -> dict[str, Array]:
        """The parts of a result that are compared."""
        arrays, strange = take_apart(returned if self.read is None else self.read(returned))
        self.strange += [one for one in strange if one not in self.strange]
        return arrays

    def repeat(self, call: PipelineCall) -> tuple[dict[str, Array], float]:
        """Call the pipeline again with the same arguments.

        Returns:
            The parts of the result that are compared, and the seconds of the call.
        """
        args, kwargs = copy.deepcopy((call.args, dict(call.kwargs)))
        function = getattr(self.pipe, call.method) if call.method else self.pipe
        started = time.perf_counter()
        returned = function(*args, **kwargs)
        seconds = time.perf_counter() - started
        return self.outputs_of(returned), seconds

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _methods(own: type) -> Iterator[str]:
    """Names of the public methods of a class."""
    for kind in own.__mro__:
        yield from (
            name
            for name, value in vars(kind).items()
            if isinstance(value, types.FunctionType) and not name.startswith("_")
        )


def _copied(args: Any, kwargs: Any) -> tuple[Any, str]:
    try:
        return copy.deepcopy((args, kwargs)), ""
    except Exception as error:  # an iterator, a file: anything may refuse
        return None, f"{type(error).__name__}: {error}"


def _same(one: Array, other: Array) -> bool:
    return bool(one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
