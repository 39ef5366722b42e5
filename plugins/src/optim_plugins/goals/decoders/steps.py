"""Steps of one generation: what is fed from one run of the graph to the next.

Where the graph says so (:mod:`optim.decoders.conventions`), the past lies in buffers that are bound once, as inputs and
as outputs, and a step adds its tokens to them. Else each step returns a longer past, which is fed to the next as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from optim.arrays import Array, dtype_of
from optim.decoders import KEPT_LOGITS
from optim.engine.goals import OwnSession, free_memory_bytes, one_kept, shares_past
from optim.errors import OptimError
from optim_plugins.adapted.tensor_memory import TensorMemory
from optim_plugins.goals.decoders.interface import DecoderInterface
from optim_plugins.goals.decoders.tensors import AnySession, as_array, tensors_of

if TYPE_CHECKING:
    import onnxruntime

MADE = ("attention_mask", "position_ids", "use_cache_branch")
"""Inputs that a step makes itself; the last one says, in merged decoders of optimum, whether there is a past."""


class Steps(Protocol):
    """The state of one generation."""

    def advance(self, ids: Array, mask: Array) -> Array:
        """Feed new tokens; their logits, or those of the last, shape (batch, 1 or new tokens, vocabulary).

        Args:
            ids: int64, shape (batch, new tokens).
            mask: of past and new tokens, shape (batch, total).
        """


def steps_of(
    session: AnySession, interface: DecoderInterface, batch: int, capacity: int, constants: Mapping[str, Any]
) -> Steps:
    """The steps of a generation.

    Args:
        session: of the decoder.
        interface: of its graph.
        batch: rows.
        capacity: tokens of the past and new ones at the end.
        constants: inputs that are the same in every step.

    Raises:
        OptimError[past-too-large]: the machine has not the memory for a past of this capacity.
    """
    if isinstance(session, OwnSession) or not shares_past(session.get_modelmeta().custom_metadata_map):
        if isinstance(session, OwnSession) or TensorMemory.of(session).kind == "cpu":
            _require_memory(interface, interface.buffers(batch, 2 * capacity - 1))  # of the last step: old and new
        return GrowingSteps(session, interface, batch, constants)
    return BufferSteps(session, interface, batch, capacity, constants)


class GrowingSteps:
    """A past that each step returns anew; on a GPU it stays there, and a step brings only its logits to the machine.

    Attributes:
        state: the past, by the inputs that take it.
    """

    def __init__(
        self, session: AnySession, interface: DecoderInterface, batch: int, constants: Mapping[str, Any]
    ) -> None:
        self._interface = interface
        self._tensors = tensors_of(session)
        self._batch = batch
        given = {**constants, **_asking_for_one(session)}
        self._constants = {name: self._tensors.put(tensor) for name, tensor in given.items()}
        self.fill(0)

    def fill(self, tokens: int) -> None:
        """A past of so many tokens, all zeros.

        Raises:
            OptimError[past-too-large]: the machine has not the memory for it.
        """
        _require_memory(self._interface, self._interface.buffers(self._batch, tokens))
        zeros = self._interface.zeros(self._batch, tokens)
        self.state: dict[str, Any] = {name: self._tensors.put(array) for name, array in zeros.items()}

    def advance(self, ids: Array, mask: Array) -> Array:
        """As :meth:`Steps.advance`."""
        fresh = {name: self._tensors.put(array) for name, array in _fresh(self._interface, ids, mask).items()}
        given = {**self._constants, **self.state, **fresh}
        outputs = self._tensors.run(given, (self._interface.logits,))
        self.state = {taker: outputs[giver] for giver, taker in self._interface.state.items()}
        return _by_token(as_array(outputs[self._interface.logits]))


class BufferSteps:
    """A past in buffers that a step adds to: nothing but ids, a mask and logits is bound anew."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        interface: DecoderInterface,
        batch: int,
        capacity: int,
        constants: Mapping[str, Any],
    ) -> None:
        self._interface, self._session, self._capacity = interface, session, capacity
        self._memory = TensorMemory.of(session)
        self._binding = session.io_binding()
        tensors = tensors_of(session)
        shapes = interface.buffers(batch, capacity)
        if self._memory.kind == "cpu":
            _require_memory(interface, shapes)
        self._held: list[Any] = []
        self._binding.bind_output(interface.logits)  # first, so that it is the first of the outputs
        for name, tensor in {**constants, **_asking_for_one(session)}.items():
            self._bind_input(name, tensors.put(tensor))
        for giver, taker in interface.state.items():
            buffer = self._memory.put(np.zeros(shapes[taker], dtype_of(interface.inputs[taker].dtype)))
            self._bind_input(taker, buffer)
            self._binding.bind_ortvalue_output(giver, buffer)

    def advance(self, ids: Array, mask: Array) -> Array:
        """As :meth:`Steps.advance`."""
        if mask.shape[1] > self._capacity:
            raise ValueError(f"{mask.shape[1]} tokens do not fit into buffers for {self._capacity}")
        fresh = {name: self._memory.put(array) for name, array in _fresh(self._interface, ids, mask).items()}
        for name, value in fresh.items():
            self._binding.bind_ortvalue_input(name, value)
        self._binding.bind_output(self._interface.logits)
        self._session.run_with_iobinding(self._binding)
        return _by_token(as_array(self._binding.get_outputs()[0]))

    def _bind_input(self, name: str, value: Any) -> None:
        self._binding.bind_ortvalue_input(name, value)
        self._held.append(value)


def _fresh(interface: DecoderInterface, ids: Array, mask: Array) -> dict[str, Array]:
    """What is new in a step, by the names of inputs that the graph has."""
    positions = np.maximum(np.cumsum(mask, -1) - 1, 0)[:, -ids.shape[1] :]
    has_past = np.array([mask.shape[1] > ids.shape[1]])
    known = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "use_cache_branch": has_past}
    return {
        name: array.astype(dtype_of(interface.inputs[name].dtype))
        for name, array in known.items()
        if name in interface.inputs
    }


def _asking_for_one(session: AnySession) -> dict[str, Array]:
    """What has a graph that can leave out logits compute those of the last token alone."""
    optional = [] if isinstance(session, OwnSession) else session.get_overridable_initializers()
    return {KEPT_LOGITS: one_kept()} if any(value.name == KEPT_LOGITS for value in optional) else {}


def _by_token(logits: Array) -> Array:
    return logits if logits.ndim == 3 else logits[:, None]


def _require_memory(interface: DecoderInterface, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a past that the machine has no room for: many tokens later it would swap, or end the program."""
    needed = sum(math.prod(shape) * dtype_of(interface.inputs[name].dtype).itemsize for name, shape in shapes.items())
    free = free_memory_bytes() if needed else 0  # a past of no tokens is begun within what is timed
    if needed > free:
        raise OptimError(
            "past-too-large",
            "there is no memory for the past of this generation",
            f"it takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free",
            "ask for fewer new tokens (max_new_tokens), or for fewer prompts at once",
        )
