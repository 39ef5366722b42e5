"""Backend ``torch``: the source itself, as a yardstick beside what was made of it (``optim bench --beside``)."""

from __future__ import annotations

import importlib.metadata
import json
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optim import Backend, BackendLimits, ExitStatus, Model, OptimError, Session, SourceRequest, Target
from optim.arrays import Array, Feeds, Outputs
from optim_plugins.torch.available import torch_available

if TYPE_CHECKING:
    from optim import Component


def _unavailable() -> str | None:
    available = torch_available()
    return None if available else available.reason


TARGETS = tuple(
    Target(
        name=f"torch-{mode}",
        backend="torch",
        provider=mode,
        device="CPU, by torch itself",
        runs_sources=True,
        probe=_unavailable,
    )
    for mode in ("eager", "compile", "script")
)
"""How torch runs a module: as it is, through torch.compile, or traced by TorchScript."""


class TorchBackend(Backend):
    """Runs the module that a model was exported from; the target's options say which."""

    name = "torch"

    def open(self, model: Model, target: Target) -> Session:
        """Load the source again, in the way that the target names.

        Raises:
            OptimError[not-a-source]: nothing says what the model was exported from.
        """
        del model
        if "source" not in target.provider_options:
            raise OptimError(
                "not-a-source",
                f"target {target.name} runs sources only",
                "an ONNX model is no module of torch",
                f"optim bench FOLDER --beside {target.name}",
                status=ExitStatus.USAGE,
            )
        from optim.jobs import from_wire

        request = from_wire(SourceRequest, json.loads(target.provider_options["source"]))
        component = _load(request, target.provider_options.get("component", ""))
        return TorchSession(component, target.provider)

    def limits(self) -> BackendLimits:
        """Of ONNX: nothing."""
        return BackendLimits(0, {})

    def versions(self) -> Mapping[str, str]:
        """Of torch; imports it, and what traces it, so that neither counts as memory of the model."""
        import torch  # noqa: F401 - imported for its memory

        return {"torch": importlib.metadata.version("torch")}


class TorchSession(Session):
    """A module fed with arrays; nothing is copied on the way in or out."""

    def __init__(self, component: Component, mode: str) -> None:
        self._component = component
        self._mode = mode
        self._calls: dict[tuple[tuple[int, ...], ...], Any] = {}

    def run(self, feeds: Feeds) -> Outputs:
        """One run; the first traces or compiles the module, TorchScript anew for every shape, whose sizes it keeps."""
        import torch

        tensors = [_tensor(feeds[name]) for name in self._component.module.names]
        with torch.inference_mode():
            shapes = tuple(tuple(tensor.shape) for tensor in tensors) if self._mode == "script" else ()
            if shapes not in self._calls:
                self._calls[shapes] = _prepared(self._component.module, self._mode, tensors)
            outputs = self._calls[shapes](tensors)
        names = self._component.module.output_names
        return {name: tensor.detach().numpy() for name, tensor in zip(names, outputs, strict=True)}

    @property
    def executed_on(self) -> Mapping[str, float]:
        """Everything runs in torch, in the way that the target names."""
        return {self._mode: 1.0}


def _prepared(module: Any, mode: str, tensors: list[Any]) -> Any:
    import torch

    if mode == "eager":
        return module
    if mode == "compile":
        return torch.compile(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is deprecated is why somebody compares with it
        return torch.jit.freeze(torch.jit.trace(module, (tensors,), check_trace=False))


def _tensor(array: Array) -> Any:
    import torch

    if array.flags.writeable and array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    from optim_plugins.torch.arguments.flat_module import to_tensor

    return to_tensor(array)


def _load(request: SourceRequest, name: str) -> Component:
    """The component of that name, as the loaders give it."""
    if request.folder is not None:
        from optim_plugins.torch.sources.huggingface.model_folder import load_folder
        from optim_plugins.torch.sources.huggingface.task_sources import huggingface_source

        source = huggingface_source(load_folder(request.folder, request).model, request)
    else:
        from optim_plugins.torch.sources.call_factory import call_factory
        from optim_plugins.torch.sources.module_source import module_source

        source = module_source(call_factory(request), request)
    return next(component for component in source.components if component.name == name or not name)
