"""A layout: how a delivered model lies on disk for a program that is not optim's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from optim.model import Model, SessionConfig
from optim.target import Target

if TYPE_CHECKING:
    from optim.arrays import Feeds, Outputs
    from optim.options import PassOptions


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run, for a layout.

    Attributes:
        folder: the run folder, with ``model.onnx`` and ``session.json``.
        model: its ``model.onnx``, with the tuned settings in ``session``.
        target: target of the run, with a provider of ONNX Runtime.
        files: folder with config, tokenizer, pooling and similar files; None: the user named none.
        facts: facts about the source: its kind, task, architecture; empty for an ONNX file.
        state: by output, the input that takes its value in the next step; empty if the model is no decoder.
    """

    folder: Path
    model: Model
    target: Target
    files: Path | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Laid:
    """Files that a layout wrote.

    Attributes:
        graph: file that the consumer opens, relative to the layout's folder.
        session: settings that the consumer uses, as far as the files of the layout contain them. If they differ from
            those of the result, optim times the graph as the consumer opens it.
        told: JSON values for ``Layout.opener``.
        notes: sentences for the report.
        tied_to: runtime and processor that the graph needs; empty: any machine.
    """

    graph: str
    session: SessionConfig = field(default_factory=SessionConfig)
    told: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tied_to: str = ""


class Layout(ABC):
    """A form of a result for another program. A plugin offers it by ``optim_layouts``; it is made without arguments.

    The consumer is the program that opens the layout. Writing does not need it. If it is installed, optim lets it open
    the files and run the samples, and compares its outputs with the result.
    """

    name: ClassVar[str]
    """Name in lower case, e.g. ``optimum``."""
    summary: ClassVar[str]
    """One line: the program that opens it."""
    consumer: ClassVar[str]
    """Command that installs its consumer, e.g. ``pip install mlflow``."""
    opener: ClassVar[Path]
    """A Python file that opens the layout by its consumer, in whatever Python has that, without optim.

    It has ``missing() -> str``, which says what is not installed, or nothing; and ``open_and_run(folder, samples,
    told)``, which opens ``folder``, runs each of the ``samples`` (arrays by name) and returns ``(consumer, outputs)``:
    the consumer's name and version, and for each sample its outputs by name."""
    options: ClassVar[type[PassOptions] | str] = "optim.options:NoOptions"
    """Options that a user may set after a colon: ``triton:instances=2``; a class or ``package.module:Class``."""
    in_place: ClassVar[bool] = False
    """Whether the run folder itself can be such a layout. ``write`` then gets that folder and adds files to it."""

    def refuse(self, files: Path | None, options: Any) -> str:
        """Returns the reason why a result cannot have this layout, e.g. no tokenizer; empty if it can.

        optim asks before a run begins. By default a layout only needs the graph.

        Args:
            files: folder, as in ``Result.files``.
            options: an instance of ``options``.
        """
        return ""

    @abstractmethod
    def write(self, result: Result, folder: Path, options: Any) -> Laid:
        """Writes the layout into ``folder``: an empty folder, or the run folder if ``in_place`` is set.

        Args:
            result: the result, which must not change.
            folder: folder to write into. If something fails, optim does not remove files elsewhere.
            options: an instance of ``options``.

        Raises:
            OptimError: the result does not fit the layout.
        """

    def samples(self, result: Result, feeds: Sequence[Feeds]) -> Sequence[Feeds]:
        """Returns the samples for the consumer. Replaces a sample that the consumer cannot take.

        Args:
            result: the result that was written.
            feeds: some samples of the run.
        """
        return feeds

    def expected(self, result: Result, sample: Feeds, outputs: Outputs) -> Outputs | None:
        """Returns the outputs of the result for a sample of ``samples``; None for a sample of the run.

        Args:
            result: the result that was written.
            sample: number of the sample.
            outputs: outputs of the consumer for it.

        Raises:
            OptimError[layout-differs]: the consumer did something else than the result would.
        """
        return None
