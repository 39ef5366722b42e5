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
    """What a run delivers, as a layout is given it.

    Attributes:
        folder: the run folder; has ``model.onnx`` and ``session.json``.
        model: ``model.onnx`` there, with its tuned settings in ``session``.
        target: where it runs; its provider is one of ONNX Runtime's.
        files: folder with what belongs to the model and is no graph: ``config.json``, tokenizer, pooling. None where
            nobody named one.
        facts: of the source that it was exported from: its kind, task, architecture; empty where it came as ONNX.
        state: by output the input that takes it in the next step; empty for what is no decoder.
    """

    folder: Path
    model: Model
    target: Target
    files: Path | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Laid:
    """What a layout wrote.

    Attributes:
        graph: the file that the consumer opens, relative to the layout's folder.
        session: the settings that the consumer opens it with, as far as the layout's files carry them. Where they are
            not the result's own, the graph is timed as the consumer opens it.
        told: what :attr:`Layout.opener` is told, JSON values.
        notes: for the report, a sentence each.
        tied_to: runtime and processor that the graph is made for alone; empty for one that every machine takes.
    """

    graph: str
    session: SessionConfig = field(default_factory=SessionConfig)
    told: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tied_to: str = ""


class Layout(ABC):
    """A way to lay a result out, contributed by ``optim_layouts``. Instantiated without arguments.

    The consumer is the program that opens it. It is not needed to write. Where it is installed, what was written is
    opened by it, run on the run's feeds, and compared with the result.
    """

    name: ClassVar[str]
    """What users call it by, in lower case, e.g. ``optimum``."""
    summary: ClassVar[str]
    """One line: who opens it."""
    consumer: ClassVar[str]
    """How its consumer is installed, e.g. ``pip install mlflow``."""
    opener: ClassVar[Path]
    """A Python file that opens the layout by its consumer, in whatever Python has that, without optim.

    It has ``missing() -> str``, which says what is not installed, or nothing; and ``open_and_run(folder, samples,
    told)``, which opens ``folder``, runs each of the ``samples`` (arrays by name) and returns ``(consumer, outputs)``:
    the consumer's name and version, and for each sample its outputs by name."""
    options: ClassVar[type[PassOptions] | str] = "optim.options:NoOptions"
    """What a user may set behind a colon: ``triton:instances=2``; a class or ``package.module:Class``."""
    in_place: ClassVar[bool] = False
    """Whether the run folder itself can be such a layout: ``write`` is then given that folder, and adds to it."""

    def refuse(self, files: Path | None, options: Any) -> str:
        """Returns why a result cannot be laid out so, e.g. that there is no tokenizer; empty where it can.

        Asked before a run begins, so that nobody waits for it in vain. By default it needs nothing beside the graph.

        Args:
            files: as :attr:`Result.files`.
            options: an instance of :attr:`options`.
        """
        return ""

    @abstractmethod
    def write(self, result: Result, folder: Path, options: Any) -> Laid:
        """Write the layout into ``folder``, which is there and empty, or the run folder where :attr:`in_place` is set.

        Args:
            result: what is laid out; nothing of it may be changed.
            folder: to write into. What is written elsewhere is not removed if something fails.
            options: an instance of :attr:`options`.

        Raises:
            OptimError: the result does not fit the layout.
        """

    def samples(self, result: Result, feeds: Sequence[Feeds]) -> Sequence[Feeds]:
        """Returns what the consumer runs: for each sample one, another where it cannot be fed these.

        Args:
            result: that was laid out.
            feeds: some samples of the run.
        """
        return feeds

    def expected(self, result: Result, sample: Feeds, outputs: Outputs) -> Outputs | None:
        """Returns what the result itself gives for a sample of :meth:`samples`; None where that is one of the run's.

        Args:
            result: that was laid out.
            sample: which one.
            outputs: what the consumer gave for it.

        Raises:
            OptimError[layout-differs]: the consumer did something else than the result would.
        """
        return None
