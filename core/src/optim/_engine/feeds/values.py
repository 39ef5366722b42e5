"""Values for the inputs of one sample: plausible for what each is for, and consistent with each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim._engine.feeds.dimensions import PlannedInput, Setting, first_position, shape_of, symbol_sizes
from optim._engine.feeds.roles import InputRole
from optim.arrays import Array, Feeds, dtype_of

_HIDDEN_SCORE = -1e4
_SAMPLE_RATE_HZ = 16000
_FIRST_COMMON_ID = 1000
"""Tables of tokenizers begin with special and unused tokens."""


def make_sample(plans: Sequence[PlannedInput], setting: Setting, rng: np.random.Generator) -> Feeds:
    """Feeds of one sample with the sizes of ``setting``."""
    sizes = symbol_sizes(plans, setting)
    sample = _Sample(plans, setting, rng, first_position(plans, setting))
    return {plan.info.name: sample.make(plan, shape_of(plan, sizes)) for plan in plans}


def describe_values(plan: PlannedInput, *, past: bool) -> str:
    """What :func:`make_sample` assumes about an input, in plain words; ``past`` says whether the model has a cache."""
    if plan.role is InputRole.TOKENS:
        if plan.rows is None:
            return "random small token ids: no table tells how many there are"
        ids = f"random token ids from {_lowest_id(plan.rows)} to {plan.rows - 1}"
        return f"{ids}: the table they index has {plan.rows} rows"
    if plan.role is InputRole.INTEGER and plan.rows is not None:
        return f"random numbers from 0 to {plan.rows - 1}: the table they index has {plan.rows} rows"
    if plan.role is InputRole.MASK and len(plan.symbols) > 2:
        return "it hides padding" + (" and what comes later" if past else "") + ": -10000 for a float mask, else zero"
    return {
        InputRole.HIDDEN: "normal noise, mean 0, sd 1",
        InputRole.IMAGE: "normal noise, mean 0, sd 1, as of a normalized image; 0 to 255 for integers",
        InputRole.FEATURES: "normal noise, mean 0, sd 1, as of normalized features",
        InputRole.WAVEFORM: "normal noise, sd 0.1",
        InputRole.PAST: "normal noise, mean 0, sd 0.5",
        InputRole.STATE: "normal noise, sd 0.1",
        InputRole.POSITIONS: "counted along the positions that the mask shows" + (", after the past" if past else ""),
        InputRole.TYPES: "zeros; in every other sample ones in the second half, if the table has two rows or more",
        InputRole.MASK: "ones; zeros where a sample is padded, at the " + ("beginning of the past" if past else "end"),
        InputRole.HEAD_MASK: "ones: no head is masked",
        InputRole.CACHE_BRANCH: "true if there is a past",
        InputRole.FLAG: "random",
        InputRole.LENGTH: "the length of the sequence",
        InputRole.RATE: f"{_SAMPLE_RATE_HZ} Hz",
        InputRole.TIMESTEP: "random from 1 to 999",
        InputRole.INTEGER: "ones for a single number, else random zeros and ones",
        InputRole.FLOAT: _describe_numbers(plan),
    }[plan.role]


def is_guessed(plan: PlannedInput) -> bool:
    """Whether nothing in the graph tells which whole numbers an input takes: zeros and ones may stand for bytes."""
    if plan.rows is not None or plan.role not in (InputRole.TOKENS, InputRole.INTEGER, InputRole.FLOAT):
        return False
    is_one = all(one == 1 for one in plan.info.shape or (0,))
    return dtype_of(plan.info.dtype).kind in "iu" and not is_one


def _describe_numbers(plan: PlannedInput) -> str:
    dtype = dtype_of(plan.info.dtype)
    if dtype.kind not in "iu":
        return "one for a single number, else normal noise, mean 0, sd 1"
    return "random whole numbers from {} to {}".format(*_span(dtype, plan.role))


def _span(dtype: np.dtype[Any], role: InputRole) -> tuple[int, int]:
    """Lowest and highest of random whole numbers: bytes take all that there are."""
    if dtype == np.uint8 or role is InputRole.IMAGE:
        low, high = 0, 255
    else:
        low, high = -50, 50
    bounds = np.iinfo(dtype)
    return max(low, int(bounds.min)), min(high, int(bounds.max))


def _lowest_id(rows: int) -> int:
    """Returns where random ids begin in a table of that many rows."""
    return min(_FIRST_COMMON_ID, rows // 10)


@dataclass
class _Sample:
    """The values that inputs of one sample share: which positions are padding."""

    plans: Sequence[PlannedInput]
    setting: Setting
    rng: np.random.Generator
    start: int
    visible: dict[tuple[int, int, int], NDArray[np.bool_]] = field(default_factory=dict)

    def make(self, plan: PlannedInput, shape: tuple[int, ...]) -> Array:
        makers: Mapping[InputRole, Callable[[PlannedInput, tuple[int, ...]], Array]] = {
            InputRole.TOKENS: self.tokens,
            InputRole.POSITIONS: self.positions,
            InputRole.TYPES: self.types,
            InputRole.MASK: self.mask,
            InputRole.HEAD_MASK: lambda _, shape: np.ones(shape),
            InputRole.CACHE_BRANCH: lambda _, shape: np.full(shape, self.setting.past > 0),
            InputRole.FLAG: lambda _, shape: self.rng.integers(0, 2, shape),
            InputRole.LENGTH: self.lengths,
            InputRole.RATE: lambda _, shape: np.full(shape, _SAMPLE_RATE_HZ),
            InputRole.TIMESTEP: lambda _, shape: self.rng.integers(1, 1000, shape),
            InputRole.INTEGER: self.integers,
        }
        values = makers.get(plan.role, self.noise)(plan, shape)
        return np.asarray(values, dtype=dtype_of(plan.info.dtype), order="C")

    def shown(self, batch: int, length: int, past: int) -> NDArray[np.bool_]:
        """Returns which positions are no padding, (batch, length); all inputs of one length agree.

        Up to half of the positions of each row are padding if the user names the side, else of the last row.
        """
        if (batch, length, past) in self.visible:
            return self.visible[batch, length, past]
        shown = np.ones((batch, length), dtype=bool)
        room = (past or length) - 1
        rows, side = shown, self.setting.mask
        if not side and self.setting.padded and (not past or length > past):
            rows, side = shown[-1:], "start" if past else "end"
        for row in rows if side in ("start", "end") and room > 0 else ():
            count = int(self.rng.integers(max(1, room // 4), max(2, room // 2 + 1)))
            row[slice(0, count) if side == "start" else slice(length - count, None)] = False
        if past and past + self.setting.length < length:
            shown[:, past + self.setting.length :] = False
        self.visible[batch, length, past] = shown
        return shown

    def tokens(self, plan: PlannedInput, shape: tuple[int, ...]) -> Array:
        high = plan.rows if plan.rows is not None else self.setting.known_ids
        low = _lowest_id(plan.rows) if plan.rows is not None else 0
        ids: Array = self.rng.integers(low, max(high, low + 1), shape)
        if len(shape) == 2 and not self.start and any(plan.role is InputRole.MASK for plan in self.plans):
            ids = np.where(self.shown(*shape, past=0), ids, 0)
        return ids

    def positions(self, plan: PlannedInput, shape: tuple[int, ...]) -> Array:
        batch, length = (shape[-2] if len(shape) > 1 else 1), shape[-1]
        total = self.start + length
        counted = np.maximum(np.cumsum(self.shown(batch, total, self.start), axis=1) - 1, 0)[:, self.start :]
        if len(shape) == 1:
            counted = np.arange(self.start, total)
        limit = plan.rows if plan.rows is not None else np.iinfo(np.int64).max
        return np.broadcast_to(np.minimum(counted, limit - 1), shape)

    def types(self, plan: PlannedInput, shape: tuple[int, ...]) -> Array:
        types = np.zeros(shape, dtype=np.int64)
        if plan.rows is not None and plan.rows >= 2 and self.rng.integers(0, 2):
            types[..., shape[-1] // 2 :] = 1
        return types

    def mask(self, plan: PlannedInput, shape: tuple[int, ...]) -> Array:
        if "pixel" in plan.info.name.lower() or len(shape) < 2:
            return np.ones(shape)
        if "global" in plan.info.name.lower():
            return np.broadcast_to(np.arange(shape[-1]) == 0, shape)
        shown = self.shown(shape[0], shape[-1], 0 if plan.source else self.start)
        if len(shape) == 2:
            return shown
        total, new = shape[-1], shape[-2]
        allowed = np.broadcast_to(shown[:, None, :], (shape[0], new, total))
        if self.start or "causal" in plan.info.name.lower() or self.setting.past:
            last_seen = np.arange(new)[:, None] + self.start
            allowed = allowed & (np.arange(total)[None, :] <= last_seen)
        allowed = np.broadcast_to(allowed.reshape(shape[0], *[1] * (len(shape) - 3), new, total), shape)
        if dtype_of(plan.info.dtype).kind in "biu":
            return allowed
        return np.where(allowed, 0.0, _HIDDEN_SCORE)

    def lengths(self, plan: PlannedInput, shape: tuple[int, ...]) -> Array:
        roles = {other.role for other in self.plans}
        length = self.setting.length
        if InputRole.FEATURES in roles:
            length = self.setting.frames
        elif InputRole.WAVEFORM in roles:
            length = self.setting.samples
        return np.full(shape, length)

    def integers(self, plan: PlannedInput, shape: tuple[int, ...]) -> Array:
        if plan.rows is not None:
            return self.rng.integers(0, plan.rows, shape)
        return np.ones(shape) if np.prod(shape) == 1 else self.rng.integers(0, 2, shape)

    def noise(self, plan: PlannedInput, shape: tuple[int, ...]) -> Array:
        dtype = dtype_of(plan.info.dtype)
        if dtype.kind in "iu":
            low, high = _span(dtype, plan.role)
            return self.rng.integers(low, high + 1, shape)
        if plan.role is InputRole.FLOAT and np.prod(shape) == 1:
            return np.ones(shape)
        spread = {InputRole.PAST: 0.5, InputRole.STATE: 0.1, InputRole.WAVEFORM: 0.1}.get(plan.role, 1.0)
        return self.rng.standard_normal(shape, dtype=np.float32) * np.float32(spread)
