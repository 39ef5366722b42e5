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
    """Records a pipeline inside a ``with`` block. Its class is made without arguments."""

    def watch(
        self,
        pipe: Any,
        modules: Mapping[str, Any] | None,
        outputs: Callable[[Any], Any] | None,
        room: tuple[int, int, int],
    ) -> Self:
        """Finds the modules of a pipeline. The arguments are those of ``record``."""

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
    """Keep the inputs of a model while a program runs, for ``data=`` and ``--data``.

    Inside the block, optim sees every call of ``InferenceSession.run``, or of ``module``. If several sessions run, each
    has a folder of its own in ``folder``.

    Args:
        folder: a new or an empty folder. It gets an ``.npz`` file for each call that optim keeps.
        limit: calls to keep for each session; if there are more, a fair sample of them.
        max_bytes: largest size of all arrays together. optim leaves out a call that does not fit any more.
        module: a torch module. Its inputs have the names of the arguments of its ``forward``.
        seed: random seed for the sample of calls.
        say: function that gets a line at the end: the calls kept.

    Returns:
        A context manager that gives the folder.

    Raises:
        OptimError[bad-limit]: ``limit`` or ``max_bytes`` is below 1.
        OptimError[capture-folder-taken]: the folder is not empty.
        OptimError[nothing-captured]: there was no call, or none that optim could keep. optim removes a new folder.
        OptimError[plugin-missing]: plugin ``record`` is not installed.

    Examples:
        >>> with optim.capture("feeds", limit=64):
        ...     pipeline("a text")
        captured 1 of 1 calls of model
        >>> optim.run("model.onnx", "out", data="feeds")
    """
    recorder = _recorder("input samples cannot be captured")
    return recorder.capture(Path(folder), module, (limit, max_bytes, seed), say)


def _recorder(what: str) -> PipelineRecorder:
    from optim._engine.plugins.plugin import EnginePart
    from optim._engine.plugins.registry import load_registry

    part: EnginePart[PipelineRecorder] = EnginePart("recorder", "record")
    return load_registry().part(part, what)
