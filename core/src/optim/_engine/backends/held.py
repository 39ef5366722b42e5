"""A backend of a plugin and its sessions, as jobs use them: held to their contract, and named where they fail.

Processes take turns at a device that takes one session at a time, and in one process sessions make way. Whoever needs
the device again gets it: a session that made way is opened anew when it is next run.
"""

from __future__ import annotations

import math
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from filelock import FileLock

from optim._engine.backends.session_contract import (
    executed_defect,
    inferred_outputs,
    outputs_defect,
    ran_elsewhere,
    times_defect,
)
from optim._engine.locks import LockBusyError, acquire
from optim._engine.plugins.registry import Registry
from optim.arrays import Feeds, Outputs
from optim.backend import Backend, BackendLimits, Delivery, KernelCount, Session
from optim.errors import ExitStatus, OptimError, describe_exception
from optim.jobs.doing import NO_LIMIT, Limit, PluginCall, calling, current_call, say_call, within
from optim.model import PACKED_WEIGHTS, Model
from optim.onnx.backend import HARNESS, OnnxRuntimeBackend, OnnxRuntimeSession
from optim.onnx.data_files import file_digest
from optim.providers.names import CPU
from optim.target import Target

if TYPE_CHECKING:
    import onnxruntime

P = ParamSpec("P")
T = TypeVar("T")

_PAUSES_S = (0.2, 1.0, 3.0)
"""Before something that the backend calls passing is tried again: a device that another program holds for longer than
four seconds is not waited for, and a run that meets one at every opening does not take minutes more."""

_OPENED_BY = "onnxruntime"
"""Exceptions of ONNX Runtime itself say what is wrong with a sample or a model: they pass as they are."""

_VENDORS = "its plugin's own limit"

_ORIGINALS = "many times what the original takes"

_LEAST_S, _TIMES = 5.0, 20.0
"""Seconds that any call may take, and how many times longer than with the original. Beside sixteen programs, two
processors were ten times slower from one minute to the next, and stood still for seconds."""


MOST_WAIT_S = 900.0
"""For one turn. A job that waits has its own limit, which ends it long before; this ends what has none."""

_ON_DISK = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a backend may take to open a model, and for a run."""

    open: Limit = NO_LIMIT
    run: Limit = NO_LIMIT


def of_original(open_s: float, run_s: float, left_s: float) -> Bounds:
    """Limits that tell a call that hangs from one that is slow.

    Args:
        open_s: that the original took to open.
        run_s: that one run of it took on average.
        left_s: of the run, for a call: it may take as long, however little the original takes.
    """
    if math.isinf(left_s):
        return Bounds()
    opens, runs = (max(_LEAST_S + _TIMES * seconds, left_s) for seconds in (open_s, run_s))
    return Bounds(Limit(opens, _ORIGINALS), Limit(runs, _ORIGINALS))


def held_backend(registry: Registry, name: str, bounds: Bounds | None = None) -> HeldBackend:
    """The backend of that name.

    Raises:
        OptimError[unknown-backend]: no usable plugin adds it.
        OptimError[backend-failed]: it cannot be made.
    """
    kind = registry.backend(name)
    plugin = registry.offered("backend")[name].plugin
    return HeldBackend(kind, plugin.release, plugin.package, bounds)


def needs_device_check(kind: type[Backend], target: Target) -> bool:
    """Whether a plugin's code computes the outputs that count as right; else core's own session of onnxruntime does.

    Only core's own ``open`` with the CPU provider needs no check. A backend cannot declare itself checked.
    """
    by_core = kind.open is OnnxRuntimeBackend.open and kind.open_reference is Backend.open_reference
    return not kind.reference_only and not (by_core and target.provider == CPU)


def _asked(
    method: Callable[Concatenate[Backend, P], T],
    what: str,
    read: Callable[[Any], T] = lambda found: found,
    exclusive: T | None = None,
) -> Callable[Concatenate[HeldBackend, P], T]:
    """A method of the contract that the plugin's own backend answers, within :meth:`HeldBackend.ask`.

    Args:
        method: of the contract.
        what: it is asked to do.
        read: reads all of the answer, which may be a generator of the plugin.
        exclusive: answer where asking would take the device from another; None: it takes no device.
    """

    def answer(held: HeldBackend, /, *args: P.args, **keywords: P.kwargs) -> T:
        if exclusive is not None and held.kind.exclusive:
            return exclusive
        own = getattr(held.inner, method.__name__)
        return held.ask(what, lambda: read(own(*args, **keywords)))

    return answer


class HeldBackend(Backend):
    """What every job opens models with.

    Args:
        bounds: what its calls may take beside the limits that it has itself.

    Attributes:
        inner: the plugin's own backend.
        open_limit: the shortest one for opening a model.
        run_limit: the shortest one for a run.
        by_wall: whether all sessions are timed by the wall's clock alone, and not by what they say of their runs.
    """

    def __init__(self, kind: type[Backend], release: str, package: str = "", bounds: Bounds | None = None) -> None:
        own, bounds = kind.call_limits, bounds or Bounds()
        self.open_limit = _shortest(Limit(own.open_s, _VENDORS), bounds.open)
        self.run_limit = _shortest(Limit(own.run_s, _VENDORS, of_each=True), bounds.run)
        self._package = package
        self.release = release
        self.kind = kind
        self.name = kind.name  # type: ignore[misc]  # of this instance: it stands for the class that it wraps
        self.by_wall = False
        self.inner = self.ask("be made", kind)

    @property
    def owner(self) -> str | None:
        """The distribution that is needed to open what it delivers; None where onnxruntime alone does."""
        return None if self.kind.opened_by_onnxruntime else self._package

    @property
    def has_reference(self) -> bool:
        """Whether what counts as right is computed elsewhere than on the target."""
        return self.kind.open_reference is not Backend.open_reference

    @property
    def has_estimate(self) -> bool:
        """Whether what is quick is computed elsewhere than on the target."""
        return self.kind.open_estimate is not Backend.open_estimate

    def open(self, model: Model, target: Target) -> HeldSession:
        """Open on the target, in turn where its device takes one session at a time."""
        return self._held(self._opened, model, target, on_target=True)

    def _opened(self, model: Model, target: Target) -> Session:
        """By the plugin; packed weights are mapped in the same way whichever plugin has the runtime."""
        if PACKED_WEIGHTS in model.session.session_config and self.kind.opened_by_onnxruntime:
            from optim._engine.backends.packed import open_packed

            settings = target.within_threads(model.session)
            session = open_packed(model.path, settings, target.provider, extra_config=HARNESS)
            return OnnxRuntimeSession(session, target.provider)
        return self.inner.open(model, target)

    def open_reference(self, model: Model, target: Target) -> HeldSession:
        """Open what counts as right."""
        return self._held(self.inner.open_reference, model, target, on_target=not self.has_reference)

    def open_estimate(self, model: Model, target: Target) -> HeldSession:
        """Open what is quick."""
        return self._held(self.inner.open_estimate, model, target, on_target=not self.has_estimate)

    def _held(
        self, opens: Callable[[Model, Target], Session], model: Model, target: Target, *, on_target: bool
    ) -> HeldSession:
        turns = device(self.inner.device(target)) if self.kind.exclusive else None
        return HeldSession(self, lambda: opens(model, target), model, target, on_target=on_target, turns=turns)

    exact_settings = _asked(Backend.exact_settings, "say which settings are exact")
    equivalent_settings = _asked(Backend.equivalent_settings, "say its settings", tuple)
    session_digest = _asked(Backend.session_digest, "say what its sessions compute", exclusive="")
    assumptions = _asked(Backend.assumptions, "say what it assumes of processors", tuple)
    kernel_probes = _asked(Backend.kernel_probes, "offer its kernels", tuple, exclusive=())
    known_kernels = _asked(Backend.known_kernels, "say its kernels", tuple)
    profile = _asked(Backend.profile, "profile")  # takes no turn at the device: nothing else runs beside a profile
    deliver = _asked(Backend.deliver, "add its files to the result", tuple)
    requirements = _asked(Backend.requirements, "say what its results need", tuple)
    versions = _asked(Backend.versions, "say its versions", dict)

    def limits(self) -> BackendLimits:
        """Returns what it accepts."""
        found = self.ask("say what it accepts", self.inner.limits)
        if not isinstance(found, BackendLimits):
            raise self.broken(f"limits() returned {type(found).__name__}, not BackendLimits")
        return found

    def load_script(self, delivery: Delivery) -> str:
        """Returns what ``load.py`` is to say."""
        text = self.ask("say how its results are loaded", lambda: self.inner.load_script(delivery))
        if not isinstance(text, str):
            raise self.broken(f"load_script() returned {type(text).__name__}, not a text")
        return text

    def is_passing(self, error: Exception) -> bool:
        """Returns whether trying again may help; a backend that breaks over the question says no."""
        try:
            return bool(self.inner.is_passing(error))
        except Exception:
            return False

    def call(self, doing: str, limit: Limit = NO_LIMIT, *, first: bool = False) -> PluginCall:
        """The message to the parent of this process while code of the backend runs."""
        return PluginCall(f"backend {self.name} ({self.release}) was {doing}", self.release, first, limit)

    def ask(self, what: str, work: Callable[[], T]) -> T:
        """Do something of the plugin's once: while it runs, the parent of this process is told that it is about to.

        Args:
            what: it is about to do, as of :meth:`blame`.
            work: of the plugin.
        """
        before = current_call()
        say_call(self.call(f"about to {what}", first=True))
        try:
            return self.blame(what, work)
        finally:
            say_call(before)

    def blame(self, what: str, work: Callable[[], T]) -> T:
        """Do something of the plugin's; what it raises names the plugin, and what it could not do.

        Raises:
            OptimError[backend-failed]: it raised what is no diagnosis.
        """
        try:
            return work()
        except OptimError as error:
            if error.package or _is_of_core(error):
                raise
            raise replace(error, package=self.release) from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] == _OPENED_BY:
                raise
            raise OptimError(
                "backend-failed",
                f"backend {self.name} could not {what}",
                describe_exception(error),
                "optim --debug shows where; report it to the package below, which brings the backend",
                self.release,
                ExitStatus.TARGET_UNAVAILABLE,
            ) from error

    def patient(self, what: str, work: Callable[[], T], before_again: Callable[[], None] = lambda: None) -> T:
        """Do something of the plugin's, again where it failed in a way that passes; else as :meth:`blame`."""

        def tried() -> T:
            for pause in _PAUSES_S:
                try:
                    return work()
                except Exception as error:
                    if not self.is_passing(error):
                        raise
                    before_again()
                    time.sleep(pause)
            return work()

        return self.blame(what, tried)

    def broken(self, cause: str) -> OptimError:
        """The diagnosis for what is against the contract of backends."""
        return OptimError(
            "backend-contract",
            f"backend {self.name} breaks the contract of backends",
            cause,
            "report it to the package below; its author finds it with optim_testing.BackendConformance",
            self.release,
            ExitStatus.TARGET_UNAVAILABLE,
        )


class HeldSession(Session):
    """A session of a plugin's backend.

    Args:
        opening: opens it; called again when it had to make way on its device.
        target: where it should run.
        on_target: whether it is opened there, and not where the reference is computed.
        turns: the device that it takes, where that takes one session at a time.

    Raises:
        OptimError: it does not open.
    """

    def __init__(
        self,
        backend: HeldBackend,
        opening: Callable[[], Session],
        model: Model,
        target: Target,
        *,
        on_target: bool,
        turns: Device | None,
    ) -> None:
        self._backend = backend
        self._opening = opening
        self._model = model
        self._target = target
        self._on_target = on_target
        self._subject = f"{called(model)} on {target.name}"
        self._before = current_call()
        self._times = False
        self._call = backend.call(f"running {self._subject}", backend.run_limit, first=True)
        self._turns = turns
        self._session: Session | None = None
        self._used_s = 0.0
        self._mark_s = 0.0
        self.least_run_s = 0.0
        """The fastest run so far, in seconds of processor time, since other jobs run meanwhile; 0 before the first.

        For a device, the figure has the host's share alone. The order of a search goes by it, and no verdict.
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
        limit_s = None if self._times else self._backend.run_limit.seconds  # clocks measure this very call
        started = time.process_time()
        outputs = self._patient("run", lambda session: session.run(feeds), limit_s)
        took_s = time.process_time() - started
        self.least_run_s = min(took_s, self.least_run_s or took_s)
        if self._call.first:
            self._call = replace(self._call, first=False)
        if defect := self._defect(outputs):
            raise self._backend.broken(defect)
        return {info.name: outputs[info.name] for info in self._model.outputs}

    def _defect(self, outputs: Outputs) -> str:
        """Returns why outputs are not those of the model, or nothing; what it declares of their shapes may be wrong."""
        if isinstance(self._session, OnnxRuntimeSession):
            return outputs_defect(outputs, self._model.outputs, shapes=False)
        defect = outputs_defect(outputs, self._model.outputs)
        if defect and not outputs_defect(outputs, self._model.outputs, shapes=False):
            return outputs_defect(outputs, inferred_outputs(self._model.path) or self._model.outputs)
        return defect

    @property
    def executed_on(self) -> Mapping[str, float]:
        """The shares of nodes by provider, as the backend reports them.

        Raises:
            OptimError[backend-contract]: it says nothing that can be.
            OptimError[ran-elsewhere]: nodes ran elsewhere than on the target, and nobody admitted that.
        """
        found = self._backend.ask(f"say where {self._subject} ran", lambda: self._live().executed_on)
        if defect := executed_defect(found):
            raise self._backend.broken(defect)
        if self._on_target and (elsewhere := ran_elsewhere(found, self._target)):
            raise OptimError(
                "ran-elsewhere",
                f"{self._subject} did not run on its target",
                elsewhere,
                "optim targets lists the targets; "
                "allow the CPU if the target has the setting: --target NAME:fallback=cpu",
                self._backend.release,
                ExitStatus.TARGET_UNAVAILABLE,
            )
        return dict(found)

    def kernels(self) -> Sequence[KernelCount]:
        """Returns which kernels compute it."""
        return self._backend.ask("say its kernels", lambda: tuple(self._live().kernels()))

    def onnxruntime_session(self) -> onnxruntime.InferenceSession | None:
        """Returns what onnxruntime opened, to bind memory to; None of another runtime or where sessions take turns."""
        live = self._live()
        return live.inference_session if isinstance(live, OnnxRuntimeSession) and self._turns is None else None

    def time_runs(self, feeds: Feeds, count: int) -> list[float]:
        """Seconds of runs, all of one opening."""
        self._live()
        limit = self._backend.run_limit.times(count)
        if self._call.limit != limit or current_call() is not self._call or not self._times:
            self._call = self._backend.call(f"timing {self._subject}", limit, first=not self._times)
            say_call(self._call)
        started = time.perf_counter()
        times = self._patient("time", lambda session: session.time_runs(feeds, count), limit.seconds)
        passed_s, self._times = time.perf_counter() - started, True
        if defect := times_defect(times, count):
            raise self._backend.broken(defect)
        return [passed_s / count] * count if self._backend.by_wall else times

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
            self._backend.ask(f"close {self._subject}", session.close)

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

        return self._backend.patient(f"{doing} {self._subject}", once, before_again=self.make_way)

    def _live(self) -> Session:
        """The plugin's session, opened where it is not."""
        if self._turns is not None:
            self._turns.take(self)
        if self._session is None:
            started, before = time.process_time(), _seen(self._model.path)
            with calling(self._backend.call(f"opening {self._subject}", self._backend.open_limit, first=True)):
                self._session = self._backend.patient(f"open {self._subject}", self._opening)
            if not isinstance(self._session, Session):
                kind, self._session = type(self._session).__name__, None
                raise self._backend.broken(f"opening {self._subject} returned {kind}, not a Session")
            path, after = self._model.path, _seen(self._model.path)
            # another run may have written a file of the store anew, which is called by its digest
            if after != before and (after is None or file_digest(path) != path.stem):
                raise self._backend.broken(f"opening {self._subject} wrote into the model's file")
            self._used_s += time.process_time() - started
            self._mark_s = self._session.processor_s()
        return self._session


@dataclass(eq=False)
class Device:
    """One exclusive device, as this process sees it."""

    name: str
    _lock: FileLock | None = None
    _holder: HeldSession | None = None

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
                name = _ON_DISK.sub("-", self.name).strip("-")
                self._lock = acquire(f"device-{name}", f"a model open on {self.name}", wait_s=MOST_WAIT_S)
            except LockBusyError as error:
                raise OptimError(
                    "device-in-use",
                    f"device {self.name} runs one model at a time, and another process uses it",
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


def _is_of_core(error: OptimError) -> bool:
    """Returns whether a library of the core raised it, such as the one that opens sessions, and no plugin."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and str(frames[-1][0].f_globals.get("__name__", "")).startswith("optim.")


def _shortest(*limits: Limit) -> Limit:
    return min((limit for limit in limits if limit.seconds is not None), default=NO_LIMIT)


_DIGEST = re.compile(r"[0-9a-f]{64}")


def _seen(path: Path) -> tuple[int, int] | None:
    """Size and time of a file; None if it is not there, which its backend says."""
    with suppress(OSError):
        status = path.stat()
        return status.st_size, status.st_mtime_ns
    return None


def called(model: Model) -> str:
    """The name of a model for a person: the passes that made it, else its file, unless that is named by a digest."""
    if model.provenance:
        return f"the model after {', '.join(model.provenance)}"
    return "the original" if _DIGEST.fullmatch(model.path.stem) else model.path.name
