"""Passes over a source before its export, and exporters that turn a source into graphs."""

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
    """Result of a pass over a source.

    Attributes:
        source: the source after the pass. The pass may have changed its modules in place.
        changed: whether the pass changed the source. If not, give a reason in ``notes``.
        notes: sentences for the report.
        counts: number of changes by kind, e.g. ``{"BatchNorm folded": 53}``.
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
    """One step over a source before its export, without state: it loads the source or changes its modules.

    optim runs every applicable pass in order, and times nothing. It compares the exported graphs with the source as the
    loader made it, in a process that runs no other pass. So it finds a pass that changes the results of a module.

    Attributes:
        name: ``plugin.kebab-case``, e.g. ``torch.fold-batch-norm``.
        summary: one line for ``optim passes list``.
        options: class of the options, as in ``Pass``.
        role: ENABLE: the pass runs if it applies. REQUESTED: the pass only runs if the user names it.
        loads: whether the pass turns the request into components.
        lossy: whether the pass changes results by more than rounding. The user names such a pass on purpose.
        yields_to: passes of any stage. If the user names one of them, this pass does not run.
        before: passes of the same stage (or ``plugin:*``) that run after this one.
        after: passes of the same stage (or ``plugin:*``) that run before this one.
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
        """Decides whether the pass applies to the source, and says why not. Must be quick."""

    @abstractmethod
    def apply(self, source: Source, options: Any, context: SourceContext) -> SourceResult:
        """Loads or changes the source.

        Args:
            source: the source after earlier passes; without components if no pass has loaded it.
            options: an instance of the options class of the pass.
            context: the target, an empty folder, a logger, progress.
        """


@dataclass(frozen=True, slots=True)
class Exported:
    """A graph from an exporter.

    Attributes:
        graph: graph with the input and output names of the component. Large weights may stay mapped into memory.
        notes: sentences for the report.
        counts: number of nodes by operator, or other counts for the report.
    """

    graph: onnx_ir.Model
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Exporter(ABC):
    """Turns a component into a graph, without state.

    optim tries exporters in order and takes the first graph that has all that the component declares. The report says
    why earlier exporters failed.

    Attributes:
        name: ``plugin.kebab-case``, e.g. ``torch.dynamo``.
        summary: one line for ``optim passes list``.
        options: class of the options, as in ``Pass``.
        before: exporters that optim tries after this one.
        after: exporters that optim tries before this one.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[str | type[PassOptions]] = "optim.options:NoOptions"
    before: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def applicable(self, component: Component, target: Target) -> Applicable:
        """Decides whether the exporter applies to the component, and says why not. Must be quick."""

    @abstractmethod
    def export(self, component: Component, options: Any, context: SourceContext) -> Exported:
        """Makes the graph.

        Args:
            component: the module with its declared inputs and outputs, and examples of them.
            options: an instance of the options class of the exporter.
            context: the target, an empty folder, a logger, progress.

        Raises:
            OptimError: the module cannot be exported. If the module is the user's own, the cause names the line.
        """


AnyPass = type[Pass] | type[SourcePass] | type[Exporter]
