"""What a decoder takes and returns, read from its graph: which outputs are fed to its next step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optim.arrays import Array, dtype_of
from optim.engine.goals import carried_by_name
from optim.model import Dimension, TensorInfo

_PAST_LIKE = re.compile(r"past|cache|(?<![a-z])kv", re.IGNORECASE)
_LEAST_RANK = 3
"""Of a past: tokens of each row, and their numbers."""
_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64"}


@dataclass(frozen=True, slots=True)
class DecoderInterface:
    """Inputs and outputs of a decoder.

    Attributes:
        inputs: by name.
        outputs: names, in order.
        state: by output, the input that takes it in the next step.
    """

    inputs: Mapping[str, TensorInfo]
    outputs: tuple[str, ...]
    state: Mapping[str, str]

    @property
    def is_decoder(self) -> bool:
        """Whether it takes token ids and carries a state."""
        return "input_ids" in self.inputs and bool(self.state)

    @property
    def past_like(self) -> list[str]:
        """Inputs that look like a past by name and rank, whether an output is known to carry them on or not."""
        return [info.name for info in self.inputs.values() if _may_be_past(info) and _PAST_LIKE.search(info.name)]

    @property
    def logits(self) -> str:
        """The output with the scores of the next token."""
        return "logits" if "logits" in self.outputs else next(name for name in self.outputs if name not in self.state)

    def zeros(self, batch: int, tokens: int) -> dict[str, Array]:
        """A state of so many tokens: every dimension with a name but the batch is theirs."""
        shapes = self.buffers(batch, tokens)
        return {name: np.zeros(shape, dtype_of(self.inputs[name].dtype)) for name, shape in shapes.items()}

    def buffers(self, batch: int, capacity: int) -> dict[str, tuple[int, ...]]:
        """Shapes of a state that has room for so many tokens: every dimension with a name but the batch is theirs."""
        return {name: _sizes(self.inputs[name], batch, capacity) for name in self.state.values()}


def interface_of(
    inputs: Sequence[TensorInfo], outputs: Sequence[str], state: Mapping[str, str] | None = None
) -> DecoderInterface:
    """The interface of a graph.

    Args:
        inputs: of the graph.
        outputs: names.
        state: as ``export.json`` tells it; None: by names, see :func:`carried_by_name`.
    """
    found = dict(state or carried_by_name([info.name for info in inputs], outputs))
    return DecoderInterface({info.name: info for info in inputs}, tuple(outputs), found)


def _may_be_past(info: TensorInfo) -> bool:
    return info.shape is None or len(info.shape) >= _LEAST_RANK


def session_inputs(values: Sequence[object]) -> list[TensorInfo]:
    """Inputs of an ``onnxruntime.InferenceSession`` as :class:`TensorInfo`."""
    return [TensorInfo(_name(value), _dtype(value), _shape(value)) for value in values]


def _sizes(info: TensorInfo, batch: int, tokens: int) -> tuple[int, ...]:
    shape = info.shape or ()
    first = next((axis for axis, size in enumerate(shape) if not isinstance(size, int)), 0)
    named = next((axis for axis, size in enumerate(shape) if isinstance(size, str) and "batch" in size), first)
    return tuple(
        size if isinstance(size, int) else batch if axis == named else tokens for axis, size in enumerate(shape)
    )


def _name(value: object) -> str:
    return str(getattr(value, "name", ""))


def _dtype(value: object) -> str:
    text = str(getattr(value, "type", ""))
    return _TYPES.get(text, text.removeprefix("tensor(").removesuffix(")"))


def _shape(value: object) -> tuple[Dimension, ...]:
    return tuple(getattr(value, "shape", ()) or ())
