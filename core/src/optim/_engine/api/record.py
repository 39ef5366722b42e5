"""``optim.record`` and ``optim.capture``: what a plugin keeps of a running program.

A pipeline is recorded and its modules are optimized in place; or the inputs of a model are kept as files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
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

    def capture(
        self, folder: Path, module: Any, room: tuple[int, int, int], say: Callable[[str], None]
    ) -> AbstractContextManager[Path]:
        """Keep what goes into sessions, or into a module, as files; arguments as those of :func:`capture`."""

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
    recorder = _recorder("a pipeline cannot be recorded")
    return recorder.watch(pipe, modules, outputs, (limit, max_bytes, seed))


def capture(
    folder: str | PathLike[str],
    *,
    limit: int = 64,
    max_bytes: int = 256 << 20,
    module: Any = None,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> AbstractContextManager[Path]:
    """Keep what goes into a model while a program runs, for ``data=`` and ``--data``.

    Inside the block every call of ``InferenceSession.run`` is seen, or of ``module`` where one is given. Where several
    sessions ran, each has a folder of its own in ``folder``.

    Args:
        folder: a new or an empty one; gets an ``.npz`` file for each call that is kept.
        limit: calls of each session; of more a fair sample is kept.
        max_bytes: that all of it may take, as arrays; a call that does not fit any more is left out.
        module: a torch module, whose inputs are called as the arguments of its ``forward``.
        seed: of the choice among more calls.
        say: told at the end what was kept.

    Returns:
        A context manager that gives the folder.

    Raises:
        OptimError[bad-limit]: ``limit`` or ``max_bytes`` is below 1.
        OptimError[capture-folder-taken]: there is something in the folder.
        OptimError[nothing-captured]: no call was seen, or none that could be kept; a new folder is removed.
        OptimError[plugin-missing]: plugin ``record`` is not installed.

    Example:
        >>> with optim.capture("feeds", limit=64):
        ...     pipeline("a text")
        captured 1 of 1 calls of model
        >>> optim.run("model.onnx", "out", data="feeds")
    """
    recorder = _recorder("input samples cannot be captured")
    return recorder.capture(Path(folder), module, (limit, max_bytes, seed), say)


def _recorder(what: str) -> PipelineRecorder:
    from optim._engine.plugins.registry import load_registry

    made: PipelineRecorder = load_registry().part("recorder", "record", what)
    return made
