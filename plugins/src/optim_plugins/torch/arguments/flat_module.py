"""A module with named tensors in a row, whatever its own arguments look like.

    module(input_ids, attention_mask=..., past=[(key, value), ...])   ->   flat([input_ids, attention_mask, key, ...])

Exporters take a list of tensors without patches to torch or registrations of classes; inputs are called by name.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch

from optim import Component, TensorInfo, Trial
from optim.arrays import Array, Feeds, Outputs


class FlatModule(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """Wraps a module as ``self.module``; a subclass says how it is called.

    Attributes:
        module: the user's own; its parameters keep their names below ``module.``.
        names: of the tensors, in order.
        output_names: of what comes back, in order.
    """

    names: tuple[str, ...]
    output_names: tuple[str, ...]

    def __init__(self, module: torch.nn.Module, names: Sequence[str], output_names: Sequence[str] = ()) -> None:
        super().__init__()
        self.module = module
        self.names = tuple(names)
        self.output_names = tuple(output_names)

    @property
    def is_scripted(self) -> bool:
        """Whether a part of the user's module was made by ``torch.jit.script`` or ``torch.jit.trace``."""
        return any(isinstance(module, torch.jit.ScriptModule) for module in self.module.modules())

    def train(self, mode: bool = True) -> FlatModule:
        """Set the mode, also around what torch.export made, which has none."""
        try:
            super().train(mode)
        except NotImplementedError:
            self.training = mode
        return self

    def forward(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Call the module; by default with every tensor as a keyword, and take its outputs by name."""
        found = self.module(**dict(zip(self.names, tensors, strict=True)), return_dict=True)
        return tuple(found[name] for name in self.output_names)


def in_a_row(module: FlatModule) -> torch.nn.Module:
    """The same module with an argument for each tensor: ``torch.jit.trace`` makes no inputs of a list."""

    class InARow(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return module(list(tensors))  # type: ignore[no-any-return]

    return InARow()


def run_flat(module: FlatModule, feeds: Feeds) -> dict[str, Array]:
    """One run on arrays, without gradients."""
    with torch.inference_mode():
        outputs = module(tensors_for(module, feeds))
    return {name: to_array(tensor) for name, tensor in zip(module.output_names, outputs, strict=True)}


def without_computing(call: Callable[[], Any]) -> Any:
    """What a call of a module returns, as tensors without values: no weight is read from its file.

    A module that looks at values cannot be run so; it is run as it is.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with torch.no_grad():
        try:
            with _silent("torch._subclasses.fake_tensor"), FakeTensorMode(allow_non_fake_inputs=True):
                return call()
        except Exception:  # whatever it stumbled over, the real run tells
            return call()


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    """Nothing of a logger: torch prints a traceback before it raises what is caught."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def shapes_of(module: FlatModule, feeds: Feeds) -> dict[str, Array]:
    """Outputs of a module with their shapes and types, all zeros and without memory of their own."""
    outputs = without_computing(lambda: module(tensors_for(module, feeds)))
    return {
        name: np.broadcast_to(np.zeros((), _numpy_dtype(tensor)), tuple(tensor.shape))
        for name, tensor in zip(module.output_names, outputs, strict=True)
    }


def component_of(
    name: str,
    module: FlatModule,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    example: Feeds,
    trials: Callable[[], Iterable[Trial]],
    state: Mapping[str, str] | None = None,
) -> Component:
    """A component whose module is flat."""

    def run(feeds: Feeds) -> Outputs:
        return run_flat(module, feeds)

    return Component(name, module.eval(), tuple(inputs), tuple(outputs), example, trials, run, dict(state or {}))


def tensors_for(module: FlatModule, feeds: Feeds) -> list[torch.Tensor]:
    """Copies of what a module takes, on the device that it lies on: a factory may give a module of a GPU."""
    device = _device_of(module)
    return [to_tensor(feeds[name]).to(device) for name in module.names]


def _device_of(module: torch.nn.Module) -> torch.device:
    """Where the first parameter of a module lies; the CPU where it has none."""
    first = next(itertools.chain(module.parameters(), module.buffers()), None)
    return torch.device("cpu") if first is None else first.device


def to_tensor(array: Array) -> torch.Tensor:
    """A copy of an array, bfloat16 too."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(np.array(array.view(np.int16))).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def to_array(tensor: torch.Tensor) -> Array:
    """The array of a tensor, bfloat16 as that of ml_dtypes."""
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        raw: Array = tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return raw
    array: Array = tensor.numpy()
    return array


def _numpy_dtype(tensor: torch.Tensor) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16) if tensor.dtype == torch.bfloat16 else np.dtype(dtype_name(tensor))


def dtype_name(tensor: torch.Tensor) -> str:
    """Numpy's name of a tensor's type."""
    return str(tensor.dtype).removeprefix("torch.")
