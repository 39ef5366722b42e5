"""``optim.record``: the calls of a pipeline and of its modules, where its time goes, and its modules optimized."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any, Self

from optim import OptimError
from optim_plugins.record.answers import ModuleTimes, OptimizedPipeline, RecordedPipeline
from optim_plugins.record.entrances import Entrances
from optim_plugins.record.finding import find_modules, module_of
from optim_plugins.record.kept import Room
from optim_plugins.record.modules import ModuleListener, PipelineModule


class PipeRecorder:
    """Records a pipeline inside a ``with`` block, and optimizes its modules afterwards.

    :func:`optim.record` makes one. Calls of a function go through the recorder: ``recorder(text)``.
    """

    def watch(
        self,
        pipe: Any,
        modules: Mapping[str, Any] | None,
        outputs: Callable[[Any], Any] | None,
        room: tuple[int, int, int],
    ) -> Self:
        """Find the modules of a pipeline.

        Args:
            pipe: any object or function.
            modules: by name, those to record; None: the outermost that are found.
            outputs: makes what is compared of what the pipeline returns.
            room: calls kept of each module, bytes of all, and the seed of the choice.

        Raises:
            OptimError[no-module]: the pipeline has no module, or one that is named is none.
        """
        self.pipe, self._room = pipe, Room(*room)
        self._modules = _named(modules, self._room) if modules is not None else find_modules(pipe, self._room)
        if not self._modules:
            raise OptimError.usage(
                "no-module",
                f"no module was found in this {type(pipe).__name__}",
                "optim looks for torch modules and sessions of onnxruntime in its attributes, containers and closures",
                "name them: optim.record(pipe, modules={'encoder': pipe.engine.session}); if the pipeline makes them at"
                " its first call, call it once before",
            )
        self._listener = ModuleListener(self._modules)
        self._entrances = Entrances(pipe, self._listener, outputs, self._room)
        self._swapped: list[PipelineModule] = []
        return self

    def capture(
        self, folder: Path, module: Any, room: tuple[int, int, int], say: Callable[[str], None]
    ) -> AbstractContextManager[Path]:
        """Keep what goes into sessions, or into a module, as files.

        Args:
            folder: a new or an empty one.
            module: a torch module; None: every session of onnxruntime.
            room: as of :meth:`watch`.
            say: told at the end what was kept.
        """
        from optim_plugins.record.capture import captured

        return captured(folder, module, Room(*room), say)

    def __enter__(self) -> Self:
        self.restore()
        self._listener.__enter__()
        try:
            self._entrances.install()
        except BaseException:
            self.__exit__(RuntimeError, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._entrances.restore()
        self._listener.__exit__()
        if kind is None and not any(one.calls.count for one in self._modules):
            raise OptimError.usage(
                "nothing-recorded",
                "no module of the pipeline was called inside the with block",
                f"optim listens to {', '.join(one.name for one in self._modules)};"
                " it does not see session.run_with_iobinding",
                "call the pipeline inside the block, or name the modules that it calls: modules={'encoder': module}",
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the pipeline: for one that is a function, whose calls nobody else sees."""
        return self._entrances.call("", self.pipe, *args, **kwargs)

    @property
    def recorded(self) -> RecordedPipeline:
        """The time of the pipeline, module by module."""
        of_pipe = self._entrances.calls
        rows = [
            ModuleTimes(
                name=one.name,
                kind=one.kind,
                calls=one.calls.count,
                latency_ms=1000 * one.calls.seconds / one.calls.count if one.calls.count else None,
                share=one.calls.seconds / of_pipe.seconds if of_pipe.seconds else None,
                note=one.unreadable,
            )
            for one in sorted(self._modules, key=lambda one: -one.calls.seconds)
        ]
        too_large = sum(one.calls.too_large for one in self._modules) + of_pipe.too_large
        notes = [*self._entrances.notes, *([f"{too_large} calls did not fit into max_bytes"] if too_large else [])]
        return RecordedPipeline(
            calls=of_pipe.count,
            latency_ms=1000 * of_pipe.seconds / of_pipe.count if of_pipe.count else None,
            modules=tuple(rows),
            notes=tuple(notes),
        )

    def __str__(self) -> str:
        return str(self.recorded)

    def _repr_html_(self) -> str:
        return self.recorded._repr_html_()

    def optimize(
        self,
        output: str | PathLike[str],
        *,
        max_drift: float = 0.1,
        least_share: float = 0.05,
        say: Callable[[str], None] | None = None,
        **run: Any,
    ) -> OptimizedPipeline:
        """Optimize the modules that pay, replace them in the pipeline, and prove what the pipeline returns.

        Args:
            output: a folder; each module has its run folder in it.
            max_drift: largest drift of a module's outputs, and of what the pipeline returns.
            least_share: of the pipeline's time that a module must take.
            say: told what is going on, a line at a time.
            run: further arguments of :func:`optim.run`, such as ``target`` and ``search_seconds``.

        Returns:
            Each module with what became of it. If the pipeline is beyond ``max_drift`` as a whole, modules are put
            back one by one. :meth:`restore` puts all back.

        Raises:
            OptimError[nothing-to-repeat]: no call of the pipeline can be repeated.
            OptimError[result-not-arrays]: what the pipeline returns cannot be compared.
            OptimError[not-repeatable]: the pipeline returns other values for the same arguments.
            OptimError: the request cannot be used.
        """
        from optim_plugins.record.optimizing import Optimizing

        self.restore()
        asked = {**run, "max_drift": max_drift}
        work = Optimizing(self._modules, self._entrances, Path(output), least_share, say or (lambda text: None))
        found, self._swapped = work.run(asked)
        return found

    def restore(self) -> None:
        """Put the original modules back."""
        for module in self._swapped:
            module.restore()
        self._swapped = []


def _named(modules: Mapping[str, Any], room: Room) -> list[PipelineModule]:
    found = []
    for name, value in modules.items():
        module = module_of(value, name, room)
        if module is None:
            raise OptimError.usage(
                "no-module",
                f"'{name}' is not a module",
                f"it is a {type(value).__name__}",
                "name a torch.nn.Module or an onnxruntime.InferenceSession",
            )
        found.append(module)
    return found
