"""What is known about one plugin."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from optim.isolation.environments import Isolation

T = TypeVar("T")


class State(StrEnum):
    """How a plugin fared.

    OK: it can be used. FAILED: it did not load, or breaks the contract. INCOMPATIBLE: written for another hook API.
    UNAVAILABLE: it loaded, but none of the targets it adds can be used here. NOT_INSTALLED: it is isolated, and has no
    environment yet that fits its version. DISABLED: the user switched it off.
    """

    OK = "ok"
    FAILED = "failed"
    INCOMPATIBLE = "incompatible"
    UNAVAILABLE = "unavailable"
    NOT_INSTALLED = "not-installed"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """Where a plugin comes from.

    Attributes:
        name: of its entry point, e.g. ``ort``; prefix of its passes.
        entry_point: ``package.module`` or ``package.module:object``.
        location: the file that was loaded, or the folder it was expected in.
        editable: installed from a source folder, so that the version says little about the code.
    """

    name: str
    package: str
    version: str
    entry_point: str
    location: str = ""
    editable: bool = False

    def __str__(self) -> str:
        """As errors name it, e.g. ``ort (optim-plugins 0.1.0)``."""
        return f"{self.name} ({self.release})"

    @property
    def release(self) -> str:
        """The distribution with its version, e.g. ``optim-plugins 0.1.0``."""
        return f"{self.package} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin after loading was tried.

    Attributes:
        reason: one line, why it is not ``ok``.
        traceback: of the exception that loading ended with, for ``--debug``.
        implementation: the module or object with the hook implementations; None where it did not load.
        warnings: what it uses that a later optim will not have.
        missing_module: the top module whose absence ended loading.
        is_rivalled: another package brings a plugin of that name, and neither is used.
    """

    info: PluginInfo
    state: State = State.OK
    reason: str = ""
    traceback: str = ""
    hooks: tuple[str, ...] = ()
    implementation: Any = None
    warnings: tuple[str, ...] = ()
    missing_module: str = ""
    is_rivalled: bool = False

    @property
    def name(self) -> str:
        """Name of its entry point."""
        return self.info.name

    @property
    def isolation(self) -> Isolation | None:
        """The environment of its own that it needs; None where it runs in optim's."""
        found: Isolation | None = getattr(self.implementation, "OPTIM_ISOLATED", None)
        return found


@dataclass(frozen=True, slots=True)
class Problem:
    """Something a plugin offered that cannot be used; the rest of what it offers can.

    Attributes:
        subject: name of what was lost, e.g. of a pass; empty where the hook gave nothing at all.
    """

    plugin: PluginInfo
    hook: str
    reason: str
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.plugin}: {self.hook}: {self.reason}"


@dataclass(frozen=True, slots=True)
class EnginePart(Generic[T]):
    """What one of optim's own plugins does for core: the first class that a hook names, made without arguments.

    Attributes:
        kind: of what plugins offer: ``optim_KINDs`` is the hook.
        owner: the plugin that has it.
    """

    kind: str
    owner: str
