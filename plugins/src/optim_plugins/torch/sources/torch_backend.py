"""Backend ``torch``: the source itself, as a yardstick beside what was made of it (``optim bench --beside``)."""

from __future__ import annotations

import importlib.metadata
import json
import time
import warnings
from collections.abc import Mapping
from typing import Any

from optim import Backend, BackendLimits, Component, ExitStatus, Model, OptimError, Session, SourceRequest, Target
from optim.arrays import Array, Feeds, Outputs


class TorchBackend(Backend):
    """Runs the module that a model was exported from; the target's options say which, where and in which type."""

    name = "torch"

    def open(self, model: Model, target: Target) -> Session:
        """Load the source again, in the way that the target names.

        Raises:
            OptimError[not-a-source]: nothing says what the model was exported from.
            OptimError[target-unavailable]: torch finds no GPU.
        """
        if "source" not in target.provider_options:
            raise OptimError.usage(
                "not-a-source",
                f"target {target.name} runs sources only",
                "an ONNX model is not a module of torch",
                f"optim bench FOLDER --beside {target.name}",
            )
        from optim.jobs import from_wire

        if target.threads:
            _keep_to(target.threads)
        device = target.provider_options.get("device", "cpu")
        if device == "cuda":
            _require_cuda(target.name)
        request = from_wire(SourceRequest, json.loads(target.provider_options["source"]))
        component = _load(request, target.provider_options.get("component", ""))
        return TorchSession(component, target.provider, device, target.provider_options.get("dtype", ""))

    def limits(self) -> BackendLimits:
        """Of ONNX: nothing."""
        return BackendLimits(0, {})

    def versions(self) -> Mapping[str, str]:
        """Of torch; imports it, and what traces it, so that neither counts as memory of the model."""
        import torch  # noqa: F401 - imported for its memory

        return {"torch": importlib.metadata.version("torch")}


class TorchSession(Session):
    """A module fed with arrays. On the CPU nothing is copied; copies to a GPU and back are left out of its times.

    Args:
        component: with the module, which is moved and cast in place.
        mode: one of :data:`optim_plugins.torch.sources.torch_targets.MODES`.
        device: where it runs.
        dtype: of its floats, and of the floats that it is given; empty: as it was loaded. Outputs keep the types that
            the module itself gives.
    """

    def __init__(self, component: Component, mode: str, device: str = "cpu", dtype: str = "") -> None:
        import torch

        self._module, self._mode, self._device = component.module, mode, torch.device(device)
        self._dtype = getattr(torch, dtype) if dtype else None
        self._module.to(device=self._device, dtype=self._dtype)
        self._declared = {info.name: info.dtype for info in component.outputs}
        self._calls: dict[tuple[tuple[int, ...], ...], Any] = {}

    def run(self, feeds: Feeds) -> Outputs:
        """One run; the first traces or compiles the module, TorchScript anew for every shape, whose sizes it keeps."""
        outputs = self._called(self._tensors(feeds))
        return {
            name: self._array(name, tensor) for name, tensor in zip(self._module.output_names, outputs, strict=True)
        }

    def time_runs(self, feeds: Feeds, count: int) -> list[float]:
        """Seconds of each run until the device is done; inputs lie there before."""
        tensors, times = self._tensors(feeds), []
        for _ in range(count):
            started = time.perf_counter()
            self._called(tensors)
            times.append(time.perf_counter() - started)
        return times

    @property
    def executed_on(self) -> Mapping[str, float]:
        """Everything runs in torch, in the way that the target names."""
        return {self._mode: 1.0}

    def peak_memory_bytes(self) -> int | None:
        """Of the GPU, as torch counts it; None on the CPU, whose process is measured."""
        if self._device.type != "cuda":
            return None
        import torch

        return int(torch.cuda.max_memory_allocated(self._device))

    def _called(self, tensors: list[Any]) -> tuple[Any, ...]:
        import torch

        with torch.inference_mode():
            shapes = tuple(tuple(tensor.shape) for tensor in tensors) if self._mode == "script" else ()
            if shapes not in self._calls:
                self._calls[shapes] = _prepared(self._module, self._mode, tensors)
            outputs: tuple[Any, ...] = self._calls[shapes](tensors)
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
        return outputs

    def _tensors(self, feeds: Feeds) -> list[Any]:
        tensors = [_tensor(feeds[name]).to(self._device) for name in self._module.names]
        if self._dtype is None:
            return tensors
        return [tensor.to(self._dtype) if tensor.is_floating_point() else tensor for tensor in tensors]

    def _array(self, name: str, tensor: Any) -> Array:
        """An output in the type that the module has it in as it was loaded."""
        from optim.arrays import dtype_of
        from optim_plugins.torch.arguments.flat_module import to_array

        array = to_array(tensor)
        return array if self._dtype is None else array.astype(dtype_of(self._declared[name]))


def _keep_to(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def _require_cuda(target: str) -> None:
    import torch

    if not torch.cuda.is_available():
        raise OptimError(
            "target-unavailable",
            f"target {target} cannot be used here",
            f"torch {torch.__version__} finds no GPU",
            "leave out device=cuda, or install NVIDIA's driver and a torch for its CUDA",
            "optim-plugins",
            ExitStatus.TARGET_UNAVAILABLE,
        )


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
