"""``optim.record``: a Python pipeline recorded while it runs, and its modules optimized in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Protocol, Self


class PipelineRecorder(Protocol):
    """Records a pipeline inside a ``with`` block. A class of it is made without arguments."""

    def watch(
        self,
        pipe: Any,
        modules: Mapping[str, Any] | None,
        outputs: Callable[[Any], Any] | None,
        room: tuple[int, int, int],
    ) -> Self:
        """Find the modules of a pipeline; arguments as those of :func:`record`."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the pipeline: for one that is a function, whose calls nobody else sees."""

    @property
    def recorded(self) -> Any:
        """The time of the pipeline, module by module."""

    def optimize(
        self,
        output: str | PathLike[str],
        *,
        max_drift: float = 0.1,
        least_share: float = 0.05,
        say: Callable[[str], None] | None = None,
        **run: Any,
    ) -> Any:
        """Optimize the modules that pay, replace them in the pipeline, and prove what the pipeline returns."""

    def restore(self) -> None:
        """Put the original modules back."""


def record(
    pipe: Any,
    *,
    modules: Mapping[str, Any] | None = None,
    outputs: Callable[[Any], Any] | None = None,
    limit: int = 64,
    max_bytes: int = 1 << 30,
    seed: int = 0,
) -> PipelineRecorder:
    """Record the calls of a pipeline and of its modules: torch modules, and sessions of onnxruntime.

    Args:
        pipe: any object or function; its calls are seen inside the ``with`` block, those of a function if they go
            through the recorder.
        modules: by name, the modules to record; by default the outermost that are found in the pipeline.
        outputs: makes what is compared of what the pipeline returns; by default all arrays, numbers and texts in it.
        limit: calls of each module, and of the pipeline, that are kept; of more a fair sample is kept.
        max_bytes: that all of them may take in memory.
        seed: of the choice among more calls.

    Returns:
        What records. ``optimize`` optimizes the modules after the block.

    Raises:
        OptimError[no-module]: no module was found in the pipeline.
        OptimError[plugin-missing]: plugin ``record`` is not installed.

    Example:
        >>> with optim.record(pipe) as recorder:
        ...     pipe("a text")
        >>> found = recorder.optimize("optimized")
        >>> found.swapped, found.latency_ratio
        (('encoder',), 0.52)
    """
    from optim._engine.plugins.registry import load_registry

    made: PipelineRecorder = load_registry().part("recorder", "record", "a pipeline cannot be recorded")
    return made.watch(pipe, modules, outputs, (limit, max_bytes, seed))
