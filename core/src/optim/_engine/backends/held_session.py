"""A session of a plugin's backend, as jobs use it: held to its contract, in turn on a device that takes one at a time.

Processes take turns at such a device, and in one process sessions make way. Whoever needs the device again gets it: a
session that made way is opened anew when it is next run.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from filelock import FileLock

from optim._engine.backends.plugin_calls import Bounds, PluginCalls, tightest
from optim._engine.backends.session_contract import executed_defect, outputs_defect, ran_elsewhere, times_defect
from optim._engine.locks import LockBusyError, acquire
from optim.arrays import Feeds, Outputs
from optim.backend import KernelCount, Session
from optim.errors import ExitStatus, OptimError
from optim.jobs.doing import calling, current_call, say_call, within
from optim.model import Model, TensorInfo
from optim.onnx.backend import OnnxRuntimeSession
from optim.onnx.data_files import file_digest
from optim.target import Target

if TYPE_CHECKING:
    import onnxruntime


MOST_WAIT_S = 900.0
"""For one turn. A job that waits has its own limit, which ends it long before; this ends what has none."""

_ON_DISK = re.compile(r"[^A-Za-z0-9]+")


class Device:
    """One exclusive device, as this process sees it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock: FileLock | None = None
        self._holder: HeldSession | None = None

    def take(self, session: HeldSession) -> None:
        """Let ``session`` have the device: another one of this process makes way, other processes are waited for.

        Raises:
            OptimError[device-in-use]: others held it for too long.
        """
        if self._holder is session:
            return
        if self._holder is not None:
            self._holder.make_way()
            self._holder = None
        if self._lock is None:
            try:
                name = _ON_DISK.sub("-", self._name).strip("-")
                self._lock = acquire(f"device-{name}", f"a model open on {self._name}", wait_s=MOST_WAIT_S)
            except LockBusyError as error:
                raise OptimError(
                    "device-in-use",
                    f"device {self._name} runs one model at a time, and another process uses it",
                    f"{error.holder} has used it for {MOST_WAIT_S:.0f} s",
                    "run the same command when the other has ended: it continues from here",
                    status=ExitStatus.TARGET_UNAVAILABLE,
                ) from error
        self._holder = session

    def leave(self, session: HeldSession) -> None:
        """Let others have the device, where ``session`` has it."""
        if self._holder is not session:
            return
        self._holder = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


_devices: dict[str, Device] = {}


def device(name: str) -> Device:
    """The device of that name: one object in a process."""
    return _devices.setdefault(name, Device(name))


T = TypeVar("T")


class HeldSession(Session):
    """A session of a plugin's backend.

    Args:
        opening: opens it; called again when it had to make way on its device.
        target: where it should run.
        on_target: whether it is opened there, and not where the reference is computed.
        turns: the device that it takes, where that takes one session at a time.
        limits: what opening and a run may take.

    Raises:
        OptimError: it does not open.
    """

    def __init__(
        self,
        plugin: PluginCalls,
        opening: Callable[[], Session],
        model: Model,
        target: Target,
        *,
        on_target: bool,
        turns: Device | None = None,
        limits: Sequence[Bounds] = (),
    ) -> None:
        self._plugin = plugin
        self._opening = opening
        self._model = model
        self._target = target
        self._on_target = on_target
        self._subject = f"{called(model)} on {target.name}"
        self._open_limit, self._run_limit = tightest(limits)
        self._before = current_call()
        self._times = False
        self._call = plugin.call(f"running {self._subject}", self._run_limit, first=True)
        self._turns = turns
        self._session: Session | None = None
        self._used_s = 0.0
        self._mark_s = 0.0
        self.least_run_s = 0.0
        """The fastest run so far, in seconds of processor time, since other jobs run meanwhile; 0 before the first.

        Of a device it has the host's share alone. The order of a search goes by it, and no verdict.
        """
        try:
            self._live()
        except BaseException:
            self.make_way()
            self.release()
            raise

    def run(self, feeds: Feeds) -> Outputs:
        """One run, again where it failed in a way that passes.

        Raises:
            OptimError[backend-contract]: the outputs are not those that the model declares.
            OptimError[backend-failed]: it raised what is no diagnosis.
        """
        self._live()
        if current_call() is not self._call:  # most often it is, and nothing is sent that would show in a short run
            say_call(self._call)
        limit_s = None if self._times else self._run_limit.seconds  # clocks measure this very call
        started = time.process_time()
        outputs = self._patient("run", lambda session: session.run(feeds), limit_s)
        took_s = time.process_time() - started
        self.least_run_s = min(took_s, self.least_run_s or took_s)
        if self._call.first:
            self._call = replace(self._call, first=False)
        if defect := self._defect(outputs):
            raise self._plugin.broken(defect)
        return {info.name: outputs[info.name] for info in self._model.outputs}

    def _defect(self, outputs: Outputs) -> str:
        """Returns why outputs are not those of the model, or nothing; what it declares of their shapes may be wrong."""
        if isinstance(self._session, OnnxRuntimeSession):
            return outputs_defect(outputs, self._model.outputs, shapes=False)
        defect = outputs_defect(outputs, self._model.outputs)
        if defect and not outputs_defect(outputs, self._model.outputs, shapes=False):
            return outputs_defect(outputs, _inferred_outputs(self._model.path) or self._model.outputs)
        return defect

    @property
    def executed_on(self) -> Mapping[str, float]:
        """Where it says that nodes ran.

        Raises:
            OptimError[backend-contract]: it says nothing that can be.
            OptimError[ran-elsewhere]: nodes ran elsewhere than on the target, and nobody admitted that.
        """
        found = self._plugin.ask(f"could not say where {self._subject} ran", lambda: self._live().executed_on)
        if defect := executed_defect(found):
            raise self._plugin.broken(defect)
        if self._on_target and (elsewhere := ran_elsewhere(found, self._target)):
            raise self._plugin.elsewhere(self._subject, elsewhere)
        return dict(found)

    def kernels(self) -> Sequence[KernelCount]:
        """Returns which kernels compute it."""
        return self._plugin.ask("could not say its kernels", lambda: tuple(self._live().kernels()))

    def onnxruntime_session(self) -> onnxruntime.InferenceSession | None:
        """Returns what onnxruntime opened, to bind memory to; None of another runtime or where sessions take turns."""
        live = self._live()
        return live.inference_session if isinstance(live, OnnxRuntimeSession) and self._turns is None else None

    def time_runs(self, feeds: Feeds, count: int) -> list[float]:
        """Seconds of runs, all of one opening."""
        self._live()
        limit = self._run_limit.times(count)
        if self._call.limit != limit or current_call() is not self._call or not self._times:
            self._call = self._plugin.call(f"timing {self._subject}", limit, first=not self._times)
            say_call(self._call)
        started = time.perf_counter()
        times = self._patient("time", lambda session: session.time_runs(feeds, count), limit.seconds)
        passed_s, self._times = time.perf_counter() - started, True
        if defect := times_defect(times, count):
            raise self._plugin.broken(defect)
        return [passed_s / count] * count if self._plugin.by_wall else times

    def processor_s(self) -> float:
        """Returns the seconds of all openings, opening included."""
        return self._used_s + (self._session.processor_s() - self._mark_s if self._session else 0.0)

    def peak_memory_bytes(self) -> int | None:
        """Returns the peak of the opening that it has now."""
        return self._live().peak_memory_bytes()

    def release(self) -> None:
        """Leave the device to others until the next run; nothing where it need not be left."""
        if self._turns is not None:
            self.make_way()
            self._turns.leave(self)

    def make_way(self) -> None:
        """Close what is open; the next run opens it anew."""
        session, self._session = self._session, None
        if session is not None:
            self._used_s += session.processor_s() - self._mark_s
            self._plugin.ask(f"could not close {self._subject}", session.close)

    def close(self) -> None:
        """Close what is open, and leave the device."""
        try:
            self.make_way()
        finally:
            self.release()
            say_call(self._before)

    def _patient(self, doing: str, work: Callable[[Session], T], limit_s: float | None) -> T:
        """Do something with the plugin's session; one whose failure passes is opened anew for the next attempt."""

        def once() -> T:
            session = self._live()
            if limit_s is None:
                return work(session)
            with within(limit_s):
                return work(session)

        return self._plugin.blame(
            f"could not {doing} {self._subject}", lambda: self._plugin.patient(once, before_again=self.make_way)
        )

    def _live(self) -> Session:
        """The plugin's session, opened where it is not."""
        if self._turns is not None:
            self._turns.take(self)
        if self._session is None:
            started, before = time.process_time(), _seen(self._model.path)
            with calling(self._plugin.call(f"opening {self._subject}", self._open_limit, first=True)):
                self._session = self._plugin.blame(
                    f"could not open {self._subject}", lambda: self._plugin.patient(self._opening)
                )
            if not isinstance(self._session, Session):
                kind, self._session = type(self._session).__name__, None
                raise self._plugin.broken(f"opening {self._subject} returned {kind}, not a Session")
            path, after = self._model.path, _seen(self._model.path)
            # another run may have written a file of the store anew, which is called by its digest
            if after != before and (after is None or file_digest(path) != path.stem):
                raise self._plugin.broken(f"opening {self._subject} wrote into the model's file")
            self._used_s += time.process_time() - started
            self._mark_s = self._session.processor_s()
        return self._session


_DIGEST = re.compile(r"[0-9a-f]{64}")


def _seen(path: Path) -> tuple[int, int] | None:
    """Size and time of a file; None if it is not there, which its backend says."""
    with suppress(OSError):
        status = path.stat()
        return status.st_size, status.st_mtime_ns
    return None


def called(model: Model) -> str:
    """What a person calls a model: the passes that made it, else its file; the original is a digest in the cache."""
    if model.provenance:
        return f"the model after {', '.join(model.provenance)}"
    return "the original" if _DIGEST.fullmatch(model.path.stem) else model.path.name


_MOST_BYTES = 1 << 30
"""Shape inference copies the graph; weights beside it do not count."""


def _inferred_outputs(path: Path) -> tuple[TensorInfo, ...]:
    """The outputs with the shapes that onnx infers from the operators alone; None for what it cannot tell.

    Exporters write shapes that are wrong, and ONNX Runtime runs such models with a warning.
    """
    import onnx
    from google.protobuf.message import DecodeError

    if path.stat().st_size > _MOST_BYTES:
        return ()
    model = onnx.load(path, load_external_data=False)
    declared = tuple(TensorInfo.of(value) for value in model.graph.output)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        found = onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, DecodeError, ValueError):
        return tuple(replace(info, shape=None) for info in declared)
    return tuple(TensorInfo.of(value) for value in found.graph.output)
