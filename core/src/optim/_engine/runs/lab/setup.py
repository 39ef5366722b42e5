"""What a plugin's job, in a process of its own, is told of a lab."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from optim.model import Model
from optim.target import Target

if TYPE_CHECKING:
    import onnx

    from optim._engine.compare.place import Place
    from optim.arrays import Feeds
    from optim.backend import Session
    from optim.laboratory import NodeTimes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LabSetup:
    """Facts about a lab for a job: where models run, and on which samples.

    Attributes:
        target: where models run.
        backend_plugin: plugin with the backend of the target.
        feeds: folder of the samples, with the input names of the original.
        samples: numbers of the samples to compare on.
        store: folder for graphs that are opened once.
        tolerance: drift of rounding alone, as measured on the original.
    """

    target: Target
    backend_plugin: str
    feeds: Path
    samples: tuple[int, ...]
    store: Path
    tolerance: float

    @property
    def _at(self) -> Place:
        from optim._engine.compare.place import Place

        return Place(self.target, self.backend_plugin)

    def sample(self, number: int) -> Feeds:
        """Returns the arrays of one sample, by the input names of the original."""
        from optim._engine.feeds.feedset import FeedSet

        return FeedSet.open(self.feeds).sample(number)

    def open_reference(self, model: Model) -> AbstractContextManager[Session]:
        """A session that says what a model computes: of the target, or of the runtime that its backend is held to."""
        return self._at.backend().open_reference(model, self.target)

    def executed_graph(self, model: Model) -> onnx.ModelProto | None:
        """Returns the graph that the runtime makes of a model, without its weights; None if it writes none."""
        from optim._engine.timing.profiled import executed_graph

        return executed_graph(self._at, model)

    def time_nodes(
        self,
        model: Model,
        feeds: Feeds,
        seconds: float,
        warm_up: Callable[[Session, float], T],
        graph: onnx.ModelProto | None = None,
    ) -> tuple[NodeTimes, T]:
        """Measures the times of a model's nodes, which add up to a run without the profiler.

        Args:
            model: the model with its session settings.
            feeds: inputs of every run.
            seconds: approximate time of the runs.
            warm_up: runs the session first without the profiler. It gets the milliseconds of opening the session, too.
            graph: the executed graph, for the weights that nodes read.

        Returns:
            The times, and the result of the warm-up.

        Raises:
            OptimError[not-profiled]: the runtime of the target does not tell the times of nodes.
        """
        from optim._engine.timing.nodes_job import Runs, timed
        from optim._engine.timing.profiled import largest_weights

        return timed(self._at, model, feeds, Runs(seconds), warm_up, largest_weights(graph) if graph else {})
