"""A backend of a plugin, as jobs use it: what it does wrong is named with its plugin, and its device taken in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from optim._engine.backends.held_session import HeldSession, device
from optim._engine.backends.plugin_calls import Bounds, PluginCalls, of_vendor
from optim._engine.plugins.registry import Registry
from optim.arrays import Feeds
from optim.backend import Backend, BackendLimits, Check, Delivery, KernelProbe, KernelRatio, NodeProfile, Session
from optim.model import PACKED_WEIGHTS, Model, SessionConfig
from optim.onnx.backend import OnnxRuntimeBackend
from optim.processor import Assumption, ExactSettings
from optim.providers.names import CPU
from optim.target import Target


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


class HeldBackend(Backend):
    """What every job opens models with.

    Args:
        bounds: what calls of it may take beside the limits that it has itself.
    """

    def __init__(self, kind: type[Backend], release: str, package: str = "", bounds: Bounds | None = None) -> None:
        self._bounds = () if bounds is None else (bounds,)
        self._package = package
        self.release = release
        self.kind = kind
        self.name = kind.name  # type: ignore[misc]  # of this instance: it stands for the class that it wraps
        self._inner = PluginCalls(kind.name, release).ask("could not be made", kind)
        self._plugin = PluginCalls(kind.name, release, self._inner.is_passing)

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
        return self._held(lambda: self._opened(model, target), model, target, on_target=True)

    def _opened(self, model: Model, target: Target) -> Session:
        """By the plugin; packed weights are mapped in the same way whichever plugin has the runtime."""
        if PACKED_WEIGHTS in model.session.session_config and self.kind.opened_by_onnxruntime:
            from optim._engine.backends.packed import open_packed
            from optim.onnx.backend import HARNESS, OnnxRuntimeSession

            settings = target.within_threads(model.session)
            session = open_packed(model.path, settings, target.provider, extra_config=HARNESS)
            return OnnxRuntimeSession(session, target.provider)
        return self._inner.open(model, target)

    def open_reference(self, model: Model, target: Target) -> HeldSession:
        """Open what counts as right."""
        return self._held(
            lambda: self._inner.open_reference(model, target), model, target, on_target=not self.has_reference
        )

    def open_estimate(self, model: Model, target: Target) -> HeldSession:
        """Open what is quick."""
        on_target = not self.has_estimate
        return self._held(lambda: self._inner.open_estimate(model, target), model, target, on_target=on_target)

    def limits(self) -> BackendLimits:
        """Returns what it accepts."""
        found = self._plugin.ask("could not say what it accepts", self._inner.limits)
        if not isinstance(found, BackendLimits):
            raise self._plugin.broken(f"limits() returned {type(found).__name__}, not BackendLimits")
        return found

    def exact_settings(self, model: Model, target: Target) -> ExactSettings | None:
        """Settings that the model needs to be computed as it says."""
        return self._plugin.ask(
            "could not say which settings are exact", lambda: self._inner.exact_settings(model, target)
        )

    def equivalent_settings(self, target: Target) -> Sequence[SessionConfig]:
        """Settings that change no figure."""
        return self._plugin.ask("could not say its settings", lambda: self._inner.equivalent_settings(target))

    def session_digest(self, model: Model, target: Target, scratch: Path) -> str:
        """Returns what a session computes; not asked where that would take the device from another."""
        if self.kind.exclusive:
            return ""
        return self._plugin.ask(
            "could not say what its sessions compute", lambda: self._inner.session_digest(model, target, scratch)
        )

    def assumptions(self, target: Target) -> Sequence[Assumption]:
        """What its plugin takes for granted about processors."""
        return tuple(
            self._plugin.ask("could not say what it assumes of processors", lambda: self._inner.assumptions(target))
        )

    def kernel_probes(self, target: Target) -> Sequence[KernelProbe]:
        """Kernels to be timed; none where that would take the device from another."""
        if self.kind.exclusive:
            return ()
        return self._plugin.ask("could not offer its kernels", lambda: self._inner.kernel_probes(target))

    def known_kernels(self, target: Target) -> Sequence[KernelRatio]:
        """What stands for them."""
        return self._plugin.ask("could not say its kernels", lambda: self._inner.known_kernels(target))

    def profile(self, model: Model, target: Target, feeds: Feeds, seconds: float) -> NodeProfile | None:
        """Returns the times of nodes; the device is not taken in turn, as a profile is the only one that runs."""
        return self._plugin.ask("could not profile", lambda: self._inner.profile(model, target, feeds, seconds))

    def deliver(self, delivery: Delivery) -> Sequence[Check]:
        """Returns what it adds to a run folder."""
        return tuple(self._plugin.ask("could not add its files to the result", lambda: self._inner.deliver(delivery)))

    @property
    def by_wall(self) -> bool:
        """Whether all sessions are timed by the wall's clock alone, and not by what they say of their runs."""
        return self._plugin.by_wall

    @by_wall.setter
    def by_wall(self, value: bool) -> None:
        self._plugin.by_wall = value

    def load_script(self, delivery: Delivery) -> str:
        """Returns what ``load.py`` is to say."""
        text = self._plugin.ask("could not say how its results are loaded", lambda: self._inner.load_script(delivery))
        if not isinstance(text, str):
            raise self._plugin.broken(f"load_script() returned {type(text).__name__}, not a text")
        return text

    def requirements(self, target: Target) -> Sequence[str]:
        """Returns what its results need."""
        return self._plugin.ask("could not say what its results need", lambda: tuple(self._inner.requirements(target)))

    def versions(self) -> Mapping[str, str]:
        """Returns the versions of its libraries."""
        return self._plugin.ask("could not say its versions", lambda: dict(self._inner.versions()))

    def is_passing(self, error: Exception) -> bool:
        """Returns whether trying again may help."""
        return self._plugin.passes(error)

    def _held(self, opening: Callable[[], Session], model: Model, target: Target, *, on_target: bool) -> HeldSession:
        turns = device(self._inner.device(target)) if self.kind.exclusive else None
        limits = (of_vendor(self.kind.call_limits), *self._bounds)
        return HeldSession(self._plugin, opening, model, target, on_target=on_target, turns=turns, limits=limits)
