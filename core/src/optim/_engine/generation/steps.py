"""Runs of a decoder one after another: what a run returns as its state stays with the runtime and is fed to the next.

The state grows with every token and is never looked at, so it is bound, not copied through Python (IO binding).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from optim._engine.generation.interface import DecoderInterface
from optim.arrays import Array

if TYPE_CHECKING:
    import onnxruntime


class Steps:
    """The state of one generation."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        interface: DecoderInterface,
        batch: int,
        constants: Mapping[str, Array],
    ) -> None:
        import onnxruntime

        self._session = session
        self._interface = interface
        self._make = onnxruntime.OrtValue.ortvalue_from_numpy
        self._constants = {name: self._make(np.ascontiguousarray(array)) for name, array in constants.items()}
        self._state = {name: self._make(array) for name, array in interface.empty_state(batch).items()}

    def advance(self, ids: Array, mask: Array) -> Array:
        """Feed new tokens; their logits, shape (batch, new tokens, vocabulary).

        Args:
            ids: int64, shape (batch, new tokens).
            mask: of past and new tokens, shape (batch, total).
        """
        binding = self._session.io_binding()
        for name, value in {**self._constants, **self._state}.items():
            binding.bind_ortvalue_input(name, value)
        for name, array in self._fresh(ids, mask).items():
            binding.bind_cpu_input(name, np.ascontiguousarray(array))
        for name in self._interface.outputs:
            binding.bind_output(name)
        self._session.run_with_iobinding(binding)
        outputs = dict(zip(self._interface.outputs, binding.get_outputs(), strict=True))
        self._state = {taker: outputs[giver] for giver, taker in self._interface.state.items()}
        logits: Array = outputs[self._interface.logits].numpy()
        return logits if logits.ndim == 3 else logits[:, None]

    def _fresh(self, ids: Array, mask: Array) -> dict[str, Array]:
        positions = np.maximum(np.cumsum(mask, -1) - 1, 0)[:, -ids.shape[1] :]
        known = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        return {name: array.astype(np.int64) for name, array in known.items() if name in self._interface.inputs}
