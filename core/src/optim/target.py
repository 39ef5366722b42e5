"""Where a model will run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Target:
    """An execution provider on a device, with what it supports.

    Attributes:
        name: what the user writes after ``--target``.
        backend: name of the :class:`optim.Backend` that runs models for it.
        provider: execution provider, e.g. ``CPUExecutionProvider``.
        provider_options: options of the provider.
        device: what a person calls it, e.g. ``CPU``.
        timed: False where time means nothing, as on a simulator.
        requires: passes of role ``requested`` that every model for this target needs.
        probe: cheap check that returns None where the target is available, else the reason it is not.
            It looks for a library file or a device node and never imports the runtime.
    """

    name: str
    backend: str
    provider: str = ""
    provider_options: Mapping[str, str] = field(default_factory=dict)
    device: str = ""
    timed: bool = True
    requires: tuple[str, ...] = ()
    probe: Callable[[], str | None] | None = field(default=None, compare=False)

    def unavailable(self) -> str | None:
        """The reason why it cannot be used here, or None."""
        return self.probe() if self.probe else None
