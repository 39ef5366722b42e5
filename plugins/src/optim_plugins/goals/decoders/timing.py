"""How long a decoder takes for an answer: its first token, and each one after it.

A round does not generate all tokens: it runs the prompt, and a few single tokens at three depths, on a past of these
lengths. What lies between is interpolated, for the time of a token grows evenly with its depth.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from optim.arrays import Array, dtype_of
from optim.errors import OptimError
from optim.goal import GenerationTimes, GoalRequest
from optim_plugins.goals.decoders.interface import DecoderInterface
from optim_plugins.goals.decoders.steps import MADE, BufferSteps, GrowingSteps, steps_of
from optim_plugins.goals.decoders.tensors import as_array

_TOKENS = 3
"""Single tokens at each depth of a round, whose median counts: one alone may meet another program."""


def depths_of(workload: GoalRequest) -> tuple[int, ...]:
    """Tokens of the past at which single tokens are timed: behind the prompt, half way and at the end."""
    last = workload.prompt + max(1, workload.new) - 1
    return tuple(sorted({workload.prompt, (workload.prompt + last) // 2, last}))


class WorkloadTimer:
    """Times a workload on a session.

    Args:
        session: of the decoder: what has ``run``, ``get_inputs`` and ``get_outputs``.
        interface: of its graph.
        workload: what it is used for.

    Raises:
        OptimError[past-too-large]: the machine has not the memory for the past.
    """

    def __init__(self, session: Any, interface: DecoderInterface, workload: GoalRequest) -> None:
        self._workload, self._depths = workload, depths_of(workload)
        self._interface = interface
        capacity = workload.prompt + workload.new
        random = np.random.default_rng(0)
        self._ids = random.integers(0, _vocabulary(session, interface), (1, workload.prompt))
        constants = _constants(interface)
        self._steps = steps_of(session, interface, 1, capacity, constants)
        self._deep: dict[int, GrowingSteps] = {}  # with a past of their own each
        if isinstance(self._steps, GrowingSteps):
            for depth in self._depths:
                self._deep[depth] = steps = GrowingSteps(session, interface, 1, constants)
                steps.fill(depth)

    def round(self) -> GenerationTimes:
        """The prompt, and a few tokens at each depth."""
        work = self._workload
        first_s = self._first_s()
        tokens = tuple(statistics.median(self._token_s(depth) for _ in range(_TOKENS)) for depth in self._depths)
        return GenerationTimes(work.prompt, work.new, first_s, self._depths, tokens, self._past_bytes())

    def _first_s(self) -> float:
        started = time.perf_counter()
        if isinstance(self._steps, GrowingSteps):
            self._steps.fill(0)
        self._steps.advance(self._ids, np.ones_like(self._ids)).argmax(-1)
        return time.perf_counter() - started

    def _token_s(self, depth: int) -> float:
        ids, mask = self._ids[:, :1], np.ones((1, depth + 1), np.int64)
        steps = self._deep.get(depth, self._steps)
        before = steps.state if isinstance(steps, GrowingSteps) else {}
        started = time.perf_counter()
        steps.advance(ids, mask).argmax(-1)
        took = time.perf_counter() - started
        if isinstance(steps, GrowingSteps):
            steps.state = before
        return took

    def _past_bytes(self) -> tuple[int, ...]:
        in_place = isinstance(self._steps, BufferSteps)
        return tuple(past_bytes(self._interface, depth, in_place=in_place) for depth in self._depths)


def run_at(session: Any, interface: DecoderInterface, depth: int) -> None:
    """Run one token behind a past of so many: whether a graph goes that far, and returns a past for the next step.

    Raises:
        OptimError[not-a-decoder]: what it returns is another past than the one given with the new token behind it.
    """
    steps = steps_of(session, interface, 1, depth + 1, _constants(interface))
    if isinstance(steps, GrowingSteps):
        steps.fill(depth)
    steps.advance(np.zeros((1, 1), np.int64), np.ones((1, depth + 1), np.int64))
    if isinstance(steps, GrowingSteps):
        _require_grown(steps.state, interface, depth)


def _require_grown(state: Mapping[str, Any], interface: DecoderInterface, depth: int) -> None:
    """Refuse outputs that hold the new token alone, or a buffer of another length: they are no past of a next step."""
    expected, wrong = interface.buffers(1, depth + 1), [interface.buffers(1, tokens) for tokens in (1, depth)]
    for giver, taker in interface.state.items():
        shape = tuple(as_array(state[taker]).shape)
        if shape != expected[taker] and any(shape == shapes[taker] for shapes in wrong):
            raise OptimError.usage(
                "not-a-decoder",
                "the model is not a decoder with a past",
                f"after {depth} tokens '{giver}' is {list(shape)}, and '{taker}' needs {list(expected[taker])}",
                "run its session yourself, or time single runs: --goal latency",
            )


def past_bytes(interface: DecoderInterface, depth: int, *, in_place: bool) -> int:
    """Memory of a past of so many tokens while one is added: where that makes a new past, both are there."""
    shapes = interface.buffers(1, depth + 1 if in_place else 2 * depth + 1)
    return sum(math.prod(shape) * dtype_of(interface.inputs[name].dtype).itemsize for name, shape in shapes.items())


def _constants(interface: DecoderInterface) -> dict[str, Array]:
    """Inputs that say nothing of tokens: zeros, of size 1 where they are free."""
    known = {*interface.state.values(), *MADE, "input_ids"}
    return {
        name: np.zeros([size if isinstance(size, int) else 1 for size in info.shape or ()], dtype_of(info.dtype))
        for name, info in interface.inputs.items()
        if name not in known
    }


def _vocabulary(session: Any, interface: DecoderInterface) -> int:
    """Tokens that there are, as far as the logits say; of a model that does not, few enough for any."""
    shape = next(value.shape for value in session.get_outputs() if value.name == interface.logits)
    return shape[-1] if shape and isinstance(shape[-1], int) else 32
