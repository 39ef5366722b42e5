"""``optim.record``: a Python pipeline recorded while it runs, and its modules optimized in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Protocol, Self


class PipelineRecorder(Protocol):
    """Records a pipeline inside a ``with`` block. Its class is made without arguments."""

    def watch(
        self,
        pipe: Any,
        modules: Mapping[str, Any] | None,
        outputs: Callable[[Any], Any] | None,
        room: tuple[int, int, int],
    ) -> Self:
        """Finds the modules of a pipeline. The arguments are those of ``record``."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the pipeline: for one that is a function, whose calls nobody else sees."""

    @property
    def recorded(self) -> Any:
        """Times of the pipeline, module by module."""

    def optimize(
        self,
        output: str | PathLike[str],
        *,
        max_drift: float = 0.1,
        least_share: float = 0.05,
        say: Callable[[str], None] | None = None,
        **run: Any,
    ) -> Any:
        """Optimizes the modules that are worth it, replaces them in the pipeline, and compares its results."""

    def restore(self) -> None:
        """Puts the original modules back."""


def record(
    pipe: Any,
    *,
    modules: Mapping[str, Any] | None = None,
    outputs: Callable[[Any], Any] | None = None,
    limit: int = 64,
    max_bytes: int = 1 << 30,
    seed: int = 0,
) -> PipelineRecorder:
    """Records the calls of a pipeline and of its modules: torch modules, and sessions of onnxruntime.

    Args:
        pipe: any object or function. optim sees its calls inside the ``with`` block; call a function through the
            recorder.
        modules: modules to record, by name; by default the outermost ones in the pipeline.
        outputs: selects the values to compare from the result of the pipeline; by default all arrays, numbers and
            texts.
        limit: calls to keep for each module and for the pipeline; if there are more, a fair sample of them.
        max_bytes: largest memory of all calls together.
        seed: random seed for the sample of calls.

    Returns:
        The recorder. After the block, ``optimize`` optimizes the modules.

    Raises:
        OptimError[no-module]: the pipeline has no module.
        OptimError[plugin-missing]: plugin ``record`` is not installed.

    Examples:
        >>> with optim.record(pipe) as recorder:
        ...     pipe("a text")
        >>> found = recorder.optimize("optimized")
        >>> found.swapped, found.latency_ratio
        (('encoder',), 0.52)
    """
    from optim._engine.plugins.registry import load_registry

    made: PipelineRecorder = load_registry().part("recorder", "record", "a pipeline cannot be recorded")
    return made.watch(pipe, modules, outputs, (limit, max_bytes, seed))
