"""A module of a pipeline: how it is listened to, what is kept of its calls, and how it is replaced in place.

A module is called through one attribute: ``forward`` of a torch module, ``run`` of a session. While it is recorded or
replaced, the object itself has a function under that name, which hides the method of its class; nothing else of the
object changes, and everybody who holds the object calls the function.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from optim.arrays import Array
from optim_plugins.record.kept import KeptCalls, Room

Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """One call of a module.

    Attributes:
        given: inputs by the names that the model has for them.
        returned: outputs by their names.
        key: calls with the same key can be run by one graph.
        whole: what the kind of module keeps beside that.
        problem: why no graph can do what it did; empty if one can.
    """

    given: Mapping[str, Array]
    returned: Mapping[str, Array]
    key: Any = None
    whole: Any = None
    problem: str = ""


class NoGraphError(Exception):
    """Why a module stays as it is; one sentence."""


class PipelineModule:
    """A module of a pipeline, by its name there.

    Attributes:
        kind: ``torch`` or ``onnxruntime``.
        attribute: through which it is called.
        subject: the object.
        gains_by_export: its graph may be faster than the module even if no pass makes the graph faster.
        calls: that were recorded.
    """

    kind: ClassVar[str]
    attribute: ClassVar[str]
    gains_by_export: ClassVar[bool] = False

    def __init__(self, name: str, subject: Any, room: Room) -> None:
        self.name, self.subject = name, subject
        self.original: Call = getattr(subject, self.attribute)
        self._own = vars(subject).get(self.attribute)
        self.calls: KeptCalls[ModuleCall] = KeptCalls(room)
        self.unreadable = ""

    def install(self, function: Call) -> None:
        """Have calls of the object go to a function."""
        vars(self.subject)[self.attribute] = function

    def restore(self) -> None:
        """Have calls go where they went before."""
        if self._own is not None:
            vars(self.subject)[self.attribute] = self._own
        else:
            vars(self.subject).pop(self.attribute, None)

    @property
    def device(self) -> str:
        """Where it runs, as ``cpu`` or the name of a device or provider."""
        return "cpu"

    def synchronize(self) -> None:
        """Wait for what the device still does."""

    @abstractmethod
    def before(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A copy of the arguments."""

    @abstractmethod
    def after(self, kept: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], returned: Any) -> ModuleCall:
        """The call, copied."""

    @abstractmethod
    def prepare(self, calls: Sequence[ModuleCall], folder: Path, say: Callable[[str], None]) -> Path:
        """Write what ``optim.run`` takes into a new folder.

        Raises:
            NoGraphError: there is no graph of it.
        """

    @abstractmethod
    def bind(self, session: Any, call: ModuleCall) -> Call:
        """The function that takes the place of :attr:`original` and runs a session on calls like one that was kept."""

    def inner(self, room: Room) -> list[PipelineModule]:
        """Modules inside, with the calls that they get in the recorded calls of this one."""
        return []


class ModuleListener:
    """Listens to modules; only the outermost of a nest of calls counts. Safe for threads."""

    def __init__(self, modules: Sequence[PipelineModule]) -> None:
        self.modules = modules
        self.local = threading.local()

    def __enter__(self) -> ModuleListener:
        for module in self.modules:
            module.install(self._recorded(module))
        return self

    def __exit__(self, *_: object) -> None:
        for module in self.modules:
            module.restore()

    @property
    def own_seconds(self) -> float:
        """Seconds that copying took in this thread."""
        return getattr(self.local, "own_seconds", 0.0)

    @property
    def seen(self) -> int:
        """Calls of modules, in all threads: a pipeline may call its modules in threads of its own."""
        return sum(one.calls.count for one in self.modules)

    def _recorded(self, module: PipelineModule) -> Call:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            if getattr(self.local, "inside", False):
                return module.original(*args, **kwargs)
            self.local.inside = True
            try:
                return self._call(module, args, kwargs)
            finally:
                self.local.inside = False

        return recorded

    def _call(self, module: PipelineModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        begin = time.perf_counter()
        place, kept = module.calls.place(), None
        if place is not None:
            try:
                kept = module.before(args, kwargs)
            except Exception as error:  # what listens must not stop the program that it listens to
                place, module.unreadable = None, str(error)
        module.synchronize()
        started = time.perf_counter()
        returned = module.original(*args, **kwargs)
        module.synchronize()
        ended = time.perf_counter()
        module.calls.spent(ended - started)
        if place is not None:
            try:
                call = module.after(kept, args, kwargs, returned)
                size = sum(array.nbytes for one in (call.given, call.returned) for array in one.values())
                module.calls.put(place, call, size)
            except Exception as error:
                module.unreadable = str(error)
        self.local.own_seconds = self.own_seconds + (time.perf_counter() - begin) - (ended - started)
        return returned


def timed(module: PipelineModule, function: Call, spent: list[float]) -> Call:
    """A function that adds its seconds to a list of one number."""

    def run(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        returned = function(*args, **kwargs)
        module.synchronize()
        spent[0] += time.perf_counter() - started
        return returned

    return run
