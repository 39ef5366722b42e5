"""Layouts of a result: what the user asks for, and the plugin that writes them before the run folder is published."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from optim._engine.plugins.plugin import EnginePart
from optim._engine.plugins.registry import Registry
from optim.errors import OptimError

if TYPE_CHECKING:
    from optim._engine.reports.schema import LayoutReport

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LayoutRequest:
    """The layouts that a user asks for.

    Attributes:
        texts: ``NAME`` or ``NAME:key=value,...`` each, with TOML values.
        files: folder with config, tokenizer and whatever else belongs to the model; None: what the source has.
        python: the Python that has the consumers; None: this one.
    """

    texts: tuple[str, ...]
    files: Path | None = None
    python: Path | None = None


class Deliverer(Protocol):
    """Lays results out for other programs. A class of it is made without arguments."""

    def require(self, registry: Registry, asked: LayoutRequest, files: Path | None, output: Path) -> None:
        """Refuse what a run cannot lay out into its folder, before anybody waits for it.

        Raises:
            OptimError: says why.
        """

    def add(
        self, registry: Registry, asked: LayoutRequest, folder: Path, say: Say, data: str | None
    ) -> tuple[LayoutReport, ...]:
        """Lay the result out in the run folder that is being filled; one that fails is not there, and its row says why.

        The folder has the graph, its settings, its lock and the files of its source.
        """

    def deliver(
        self, registry: Registry, asked: LayoutRequest, folder: Path, output: Path, say: Say, data: str | None
    ) -> LayoutReport:
        """Lay the result of a run out in one layout, in a new or empty folder, by default on the samples of the run.

        Raises:
            OptimError: the layout refuses it, or its consumer computes something else; nothing is left then.
        """


_DELIVERER: EnginePart[Deliverer] = EnginePart("deliverer", "layouts")


def find_deliverer(registry: Registry) -> Deliverer:
    """Finds the deliverer of the installed plugins; raises as :meth:`Registry.part`."""
    return registry.part(_DELIVERER, "a result cannot be delivered for another program")


def of_several(layout: str, components: Iterable[str]) -> OptimError:
    """The error for a source of several components, which no layout takes as one."""
    return OptimError.usage(
        "layout-of-several",
        f"a source of several components cannot be delivered as {layout}",
        f"its components are {', '.join(components)}, and a layout is made of one graph",
        "deliver each component's run folder: optim deliver RUN_FOLDER/COMPONENT --layout LAYOUT -o DIR",
    )
