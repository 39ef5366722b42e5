"""Layouts of a result: what the user asks for, and the plugin that writes them before the run folder is published."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from optim._engine.plugins.registry import Registry
from optim.errors import OptimError

if TYPE_CHECKING:
    from optim._engine.reports.parts.laid_out import LayoutReport
    from optim._engine.search.settings import RunSettings

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

        Args:
            registry: of the plugins.
            asked: the layouts.
            files: what the source has, where the user named no other folder.
            output: the run folder.

        Raises:
            OptimError: says why.
        """

    def add(
        self, registry: Registry, asked: LayoutRequest, folder: Path, say: Say, data: str | None
    ) -> tuple[LayoutReport, ...]:
        """Lay the result out in the run folder that is being filled; one that fails is not there, and its row says why.

        Args:
            registry: of the plugins.
            asked: the layouts.
            folder: has the graph, its settings, its lock and the files of its source.
            say: told what is going on.
            data: samples of the run.
        """

    def deliver(
        self, registry: Registry, asked: LayoutRequest, folder: Path, output: Path, say: Say, data: str | None
    ) -> LayoutReport:
        """Lay the result of a run folder out in one layout, in a folder of its own.

        Args:
            registry: of the plugins.
            asked: one layout.
            folder: of the finished run.
            output: absent, or an empty folder.
            say: told what is going on.
            data: samples to compare on; None: those of the run, if they are there, else made up.

        Raises:
            OptimError: the layout refuses it, or its consumer computes something else; nothing is left then.
        """


def find_deliverer(registry: Registry) -> Deliverer:
    """The deliverer of the installed plugins.

    Raises:
        OptimError[plugin-missing]: there is none; says what to install.
        OptimError[plugin-failed]: its plugin cannot be used.
    """
    made: Deliverer = registry.part("deliverer", "layouts", "a result cannot be delivered for another program")
    return made


def require_layouts(registry: Registry, asked: LayoutRequest, settings: RunSettings, output: Path) -> None:
    """Refuse layouts that a run cannot write, before it begins."""
    from optim._engine.sources.kept_files import files_of

    find_deliverer(registry).require(registry, asked, files_of(settings.source, settings.export), output)


def of_several(layout: str, components: Iterable[str]) -> OptimError:
    """The error for a source of several components, which no layout takes as one."""
    return OptimError.usage(
        "layout-of-several",
        f"a source of several components cannot be delivered as {layout}",
        f"its components are {', '.join(components)}, and a layout is made of one graph",
        "deliver each component's run folder: optim deliver RUN_FOLDER/COMPONENT --layout LAYOUT -o DIR",
    )
