"""A backend of a plugin, as jobs use it: what it does wrong is named with its plugin, and its device taken in turns."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from optim._engine.backends.device import Device, device
from optim._engine.backends.session_contract import executed_defect, outputs_defect, ran_elsewhere, times_defect
from optim._engine.plugins.registry import Registry
from optim.arrays import Feeds, Outputs
from optim.backend import Backend, BackendLimits, Check, Delivery, KernelCount, KernelProbe, KernelRatio, Session
from optim.errors import ExitStatus, OptimError, describe_exception
from optim.model import Model, SessionConfig
from optim.onnx.backend import OnnxRuntimeSession
from optim.target import Target

T = TypeVar("T")

_PAUSES_S = (0.2, 1.0, 3.0)
"""Before something that the backend calls passing is tried again: a device that another program holds for longer than
four seconds is not waited for, and a run that meets one at every opening does not take minutes more."""

_OPENED_BY = "onnxruntime"
"""Exceptions of ONNX Runtime itself say what is wrong with a sample or a model: they pass as they are."""


def held_backend(registry: Registry, name: str) -> HeldBackend:
    """The backend of that name.

    Raises:
        OptimError[unknown-backend]: no usable plugin adds it.
        OptimError[backend-failed]: it cannot be made.
    """
    kind = registry.backend(name)
    plugin = registry.offered("backend")[name].plugin
    return HeldBackend(kind, plugin.release, plugin.package)


class HeldBackend(Backend):
    """What every job opens models with.

    Args:
        kind: the class that a plugin offers.
        release: the distribution that brings it, with its version.
        package: that distribution.
    """

    def __init__(self, kind: type[Backend], release: str, package: str = "") -> None:
        self._release = release
        self._package = package
        self.kind = kind
        self.name = kind.name  # type: ignore[misc]  # of this instance: it stands for the class that it wraps
        self._inner = self.blame("could not be made", kind)

    @property
    def owner(self) -> str | None:
        """The distribution that is needed to open what it delivers; None where onnxruntime alone does."""
        return None if self.kind.opened_by_onnxruntime else self._package

    @property
    def has_reference(self) -> bool:
        """Whether what counts as right is computed elsewhere than on the target."""
        return self.kind.open_reference is not Backend.open_reference

    def open(self, model: Model, target: Target) -> HeldSession:
        """Open on the target, in turn where its device takes one session at a time."""
        return self._held(lambda: self._inner.open(model, target), model, target, on_target=True)

    def open_reference(self, model: Model, target: Target) -> HeldSession:
        """Open what counts as right."""
        return self._held(
            lambda: self._inner.open_reference(model, target), model, target, on_target=not self.has_reference
        )

    def open_estimate(self, model: Model, target: Target) -> HeldSession:
        """Open what is quick."""
        on_target = self.kind.open_estimate is Backend.open_estimate
        return self._held(lambda: self._inner.open_estimate(model, target), model, target, on_target=on_target)

    def limits(self) -> BackendLimits:
        """Returns what it accepts."""
        found = self.blame("could not say what it accepts", self._inner.limits)
        if not isinstance(found, BackendLimits):
            raise self.broken(f"limits() returned {type(found).__name__}, not BackendLimits")
        return found

    def equivalent_settings(self, target: Target) -> Sequence[SessionConfig]:
        """Settings that change no figure."""
        return self.blame("could not say its settings", lambda: self._inner.equivalent_settings(target))

    def session_digest(self, model: Model, target: Target, scratch: Path) -> str:
        """Returns what a session computes; not asked where that would take the device from another."""
        if self.kind.exclusive:
            return ""
        return self.blame(
            "could not say what its sessions compute", lambda: self._inner.session_digest(model, target, scratch)
        )

    def kernel_probes(self, target: Target) -> Sequence[KernelProbe]:
        """Kernels to be timed; none where that would take the device from another."""
        if self.kind.exclusive:
            return ()
        return self.blame("could not offer its kernels", lambda: self._inner.kernel_probes(target))

    def known_kernels(self, target: Target) -> Sequence[KernelRatio]:
        """What stands for them."""
        return self.blame("could not say its kernels", lambda: self._inner.known_kernels(target))

    def deliver(self, delivery: Delivery) -> Sequence[Check]:
        """Returns what it adds to a run folder."""
        return tuple(self.blame("could not add its files to the result", lambda: self._inner.deliver(delivery)))

    def load_script(self, delivery: Delivery) -> str:
        """Returns what ``load.py`` is to say."""
        text = self.blame("could not say how its results are loaded", lambda: self._inner.load_script(delivery))
        if not isinstance(text, str):
            raise self.broken(f"load_script() returned {type(text).__name__}, not a text")
        return text

    def requirements(self, target: Target) -> Sequence[str]:
        """Returns what its results need."""
        return self.blame("could not say what its results need", lambda: tuple(self._inner.requirements(target)))

    def versions(self) -> Mapping[str, str]:
        """Returns the versions of its libraries."""
        return self.blame("could not say its versions", lambda: dict(self._inner.versions()))

    def blame(self, what: str, work: Callable[[], T]) -> T:
        """Do something of the plugin's; what it raises names the plugin.

        Args:
            what: went wrong, to follow the backend's name.
            work: of the plugin.

        Raises:
            OptimError[backend-failed]: it raised what is no diagnosis.
        """
        try:
            return work()
        except OptimError as error:
            if error.package or _is_of_core(error):
                raise
            raise replace(error, package=self._release) from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] == _OPENED_BY:
                raise
            raise OptimError(
                "backend-failed",
                f"backend {self.name} {what}",
                describe_exception(error),
                "optim --debug shows where; report it to the package below, which brings the backend",
                self._release,
                ExitStatus.TARGET_UNAVAILABLE,
            ) from error

    def is_passing(self, error: Exception) -> bool:
        """Returns whether trying again may help; a backend that breaks over the question says no."""
        try:
            return bool(self._inner.is_passing(error))
        except Exception:
            return False

    def patient(self, work: Callable[[], T], before_again: Callable[[], None] = lambda: None) -> T:
        """Do something of the plugin's, again where it failed in a way that passes."""
        for pause in _PAUSES_S:
            try:
                return work()
            except Exception as error:
                if not self.is_passing(error):
                    raise
                before_again()
                time.sleep(pause)
        return work()

    def broken(self, cause: str) -> OptimError:
        """The diagnosis for what is against the contract of backends."""
        return OptimError(
            "backend-contract",
            f"backend {self.name} breaks the contract of backends",
            cause,
            "report it to the package below; its author finds it with optim.testing.BackendConformance",
            self._release,
            ExitStatus.TARGET_UNAVAILABLE,
        )

    def elsewhere(self, subject: str, cause: str) -> OptimError:
        """The diagnosis for a model that did not run where it should."""
        return OptimError(
            "ran-elsewhere",
            f"{subject} did not run on its target",
            cause,
            "optim targets; a target that admits it says so (fallback)",
            self._release,
            ExitStatus.TARGET_UNAVAILABLE,
        )

    def _held(self, opening: Callable[[], Session], model: Model, target: Target, *, on_target: bool) -> HeldSession:
        turns = device(self._inner.device(target)) if on_target and self.kind.exclusive else None
        return HeldSession(self, opening, model, target, on_target=on_target, turns=turns)


class HeldSession(Session):
    """A session of a plugin's backend.

    Args:
        backend: that opens it.
        opening: opens it; called again when it had to make way on its device.
        model: what is open.
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
        turns: Device | None = None,
    ) -> None:
        self._backend = backend
        self._opening = opening
        self._model = model
        self._target = target
        self._on_target = on_target
        self._subject = f"{model.path.name} on {target.name}"
        self._turns = turns
        self._session: Session | None = None
        self._used_s = 0.0
        self._mark_s = 0.0
        try:
            self._live()
        except BaseException:
            self.make_way()
            self.release()
            raise

    @property
    def is_exclusive(self) -> bool:
        """Whether no other session can be open beside it."""
        return self._turns is not None

    def run(self, feeds: Feeds) -> Outputs:
        """One run, again where it failed in a way that passes.

        Raises:
            OptimError[backend-contract]: the outputs are not those that the model declares.
            OptimError[backend-failed]: it raised what is no diagnosis.
        """
        outputs = self._patient("run", lambda session: session.run(feeds))
        shapes = not isinstance(self._session, OnnxRuntimeSession)
        if defect := outputs_defect(outputs, self._model.outputs, shapes=shapes):
            raise self._backend.broken(defect)
        return {info.name: outputs[info.name] for info in self._model.outputs}

    @property
    def executed_on(self) -> Mapping[str, float]:
        """Where it says that nodes ran.

        Raises:
            OptimError[backend-contract]: it says nothing that can be.
            OptimError[ran-elsewhere]: nodes ran elsewhere than on the target, and nobody admitted that.
        """
        found = self._backend.blame(f"could not say where {self._subject} ran", lambda: self._live().executed_on)
        if defect := executed_defect(found):
            raise self._backend.broken(defect)
        if self._on_target and (elsewhere := ran_elsewhere(found, self._target)):
            raise self._backend.elsewhere(self._subject, elsewhere)
        return dict(found)

    def kernels(self) -> Sequence[KernelCount]:
        """Returns which kernels compute it."""
        return self._backend.blame("could not say its kernels", lambda: tuple(self._live().kernels()))

    def time_runs(self, feeds: Feeds, count: int) -> list[float]:
        """Seconds of runs, all of one opening."""
        times = self._patient("time", lambda session: session.time_runs(feeds, count))
        if defect := times_defect(times, count):
            raise self._backend.broken(defect)
        return times

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
            self._backend.blame(f"could not close {self._subject}", session.close)

    def close(self) -> None:
        """Close what is open, and leave the device."""
        try:
            self.make_way()
        finally:
            self.release()

    def _patient(self, doing: str, work: Callable[[Session], T]) -> T:
        """Do something with the plugin's session; one whose failure passes is opened anew for the next attempt."""
        self._live()
        return self._backend.blame(
            f"could not {doing} {self._subject}",
            lambda: self._backend.patient(lambda: work(self._live()), before_again=self.make_way),
        )

    def _live(self) -> Session:
        """The plugin's session, opened where it is not."""
        if self._turns is not None:
            self._turns.take(self)
        if self._session is None:
            started = time.process_time()
            self._session = self._backend.blame(
                f"could not open {self._subject}", lambda: self._backend.patient(self._opening)
            )
            if not isinstance(self._session, Session):
                kind, self._session = type(self._session).__name__, None
                raise self._backend.broken(f"opening {self._subject} returned {kind}, not a Session")
            self._used_s += time.process_time() - started
            self._mark_s = self._session.processor_s()
        return self._session


def _is_of_core(error: OptimError) -> bool:
    """Returns whether a library of the core raised it, such as the one that opens sessions, and no plugin."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and str(frames[-1][0].f_globals.get("__name__", "")).startswith("optim.")
