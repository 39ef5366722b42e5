"""What a plugin contributes before there is a graph: passes over a source, and exporters that make the graph of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from optim.passes import Applicable, Pass, Role
from optim.target import Target

if TYPE_CHECKING:
    import onnx_ir

    from optim.options import PassOptions
    from optim.source import Component, Source, SourceContext


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What a pass over a source did.

    Attributes:
        source: afterwards; modules may have been changed in place.
        changed: False needs a reason in ``notes``.
        notes: sentences for the report.
        counts: what happened: ``{"BatchNorm folded": 53}``.
    """

    source: Source
    changed: bool
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A silent no-op is a defect of the pass."""
        if not self.changed and not self.notes:
            raise ValueError("SourceResult(changed=False) needs a reason in notes")


class SourcePass(ABC):
    """One step over a source before its export: it loads it, or changes its modules. Stateless.

    Every applicable one runs, in order; nothing is timed. What a loader gave is what the exported graphs are verified
    against, in a process that runs no other pass: a pass that changes what a module computes is found out.

    Attributes:
        name: ``plugin.kebab-case``, e.g. ``torch.fold-batch-norm``.
        summary: one line for ``optim passes list``.
        options: as of :class:`Pass`.
        role: ENABLE runs wherever it applies, REQUESTED only when named.
        loads: it turns the request into components.
        lossy: it changes more than rounding explains, and the user named it knowing that.
        yields_to: passes of any stage before which this one steps back, where the user names them.
        before: passes (or ``plugin:*``) of the same stage that must come after this one.
        after: passes (or ``plugin:*``) of the same stage that must come before this one.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[str | type[PassOptions]] = "optim.options:NoOptions"
    role: ClassVar[Role] = Role.ENABLE
    loads: ClassVar[bool] = False
    lossy: ClassVar[bool] = False
    yields_to: ClassVar[tuple[str, ...]] = ()
    before: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def applicable(self, source: Source, target: Target) -> Applicable:
        """Yes, or no with the reason. Cheap."""

    @abstractmethod
    def apply(self, source: Source, options: Any, context: SourceContext) -> SourceResult:
        """Load or change the source.

        Args:
            source: as passes before this one left it; without components where none has loaded it.
            options: an instance of the pass's own options class.
            context: the target, an empty folder, a logger, progress.
        """


@dataclass(frozen=True, slots=True)
class Exported:
    """A graph as an exporter made it.

    Attributes:
        graph: inputs and outputs called as the component's; large weights may stay mapped into memory.
        notes: sentences for the report.
        counts: nodes by operator, or whatever tells what happened.
    """

    graph: onnx_ir.Model
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Exporter(ABC):
    """Turns a component into a graph. Stateless.

    Exporters are tried in order; the first that gives a graph which holds what the component declares is taken, and
    the report says why those before it were not.

    Attributes:
        name: ``plugin.kebab-case``, e.g. ``torch.dynamo``.
        summary: one line for ``optim passes list``.
        options: as of :class:`Pass`.
        before: exporters that are tried after this one.
        after: exporters that are tried before this one.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[str | type[PassOptions]] = "optim.options:NoOptions"
    before: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def applicable(self, component: Component, target: Target) -> Applicable:
        """Yes, or no with the reason. Cheap."""

    @abstractmethod
    def export(self, component: Component, options: Any, context: SourceContext) -> Exported:
        """Make the graph.

        Args:
            component: the module with its declared inputs and outputs, and examples of them.
            options: an instance of the exporter's own options class.
            context: the target, an empty folder, a logger, progress.

        Raises:
            OptimError: the module cannot be exported; where it is the user's own, the cause names the line.
        """


AnyPass = type[Pass] | type[SourcePass] | type[Exporter]
