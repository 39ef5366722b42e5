"""What each dimension of the inputs measures, so that all inputs of a sample get sizes that fit together.

    input_ids          [batch, seq]            batch, length
    attention_mask     [batch, total]          batch, total = past + length
    past_key_values.0  [batch, 12, past, 64]   batch, fixed, past, fixed

A name means the same wherever it stands, and inputs of one length get one length.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from optim._engine.feeds.roles import InputRole, role_of
from optim._engine.feeds.traces import trace_inputs
from optim.model import Dimension, Model, TensorInfo


class Measure(StrEnum):
    """Kinds of dimensions, by the thing that they count. Sizes that a setting has are called as its field."""

    BATCH = "batch"
    LENGTH = "length"
    PAST = "past"
    TOTAL = "total"
    SOURCE = "source length"
    HEIGHT = "height"
    WIDTH = "width"
    CHANNELS = "channels"
    FRAMES = "frames"
    SAMPLES = "samples"
    ONE = "one"
    OTHER = "other"


HINTS = (
    (r"total|kv_len|past.*\+|\+.*past", Measure.TOTAL),
    (r"batch|^bsz?$", Measure.BATCH),
    (r"past|cache|mem", Measure.PAST),
    (r"^enc|encoder|source|src", Measure.SOURCE),
    (r"height|^h$", Measure.HEIGHT),
    (r"width|^w$", Measure.WIDTH),
    (r"channel", Measure.CHANNELS),
    (r"frame", Measure.FRAMES),
    (r"samples", Measure.SAMPLES),
    (r"seq|len|token|time|^[tsl]$", Measure.LENGTH),
)
"""What the name of a dimension says that it counts."""

_LENGTHS = (Measure.PAST, Measure.TOTAL, Measure.SOURCE, Measure.FRAMES, Measure.SAMPLES)
"""A name that says length may stand for any of these; the input's role tells which."""
_SOUND_AXES = 2
_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """The sizes that a sample is made with.

    Attributes:
        batch: samples fed at once.
        length: of a sequence of tokens or steps.
        past: tokens in the cache.
        padded: whether a mask hides part of the sequence (of the last row, in a batch).
        height: of images, pixels.
        width: of images, pixels.
        frames: of audio features.
        samples: of a waveform.
        other: every other dimension that is not fixed.
        known_ids: token ids run below this where no table tells.
        equal: if set, the size of every dimension but the batch.
        mask_without_past: the mask covers the new tokens only.
        mask: hides nothing (``full``), or a part at the ``end`` or ``start`` of each row; empty: as ``padded`` says.
    """

    batch: int = 1
    length: int = 128
    past: int = 0
    padded: bool = False
    height: int = 224
    width: int = 224
    frames: int = 3000
    samples: int = 16000
    other: int = 16
    known_ids: int = 100
    equal: int | None = None
    mask_without_past: bool = False
    mask: str = ""


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """An input with its role and what its dimensions measure.

    Attributes:
        symbols: a name for each dimension; unnamed ones are called ``input[axis]``.
        measures: what each dimension counts.
        widths: sizes the graph demands, by axis.
        rows: of the table that it indexes, if any.
    """

    info: TensorInfo
    role: InputRole
    symbols: tuple[int | str, ...]
    measures: tuple[Measure, ...]
    widths: Mapping[int, int]
    rows: int | None

    @property
    def source(self) -> bool:
        """Whether it belongs to the other sequence, which an encoder has read."""
        return "encoder" in self.info.name.lower()


def plan_model(model: Model) -> list[PlannedInput]:
    """The role of each input of a model, and the measure of its dimensions; a name has one meaning in all inputs."""
    traces = trace_inputs(model.path)
    roles = {info.name: role_of(info, traces.rows) for info in model.inputs}
    if InputRole.RATE in roles.values():  # numbers beside a sample rate are a sound
        sounds = [info.name for info in model.inputs if roles[info.name] is InputRole.FLOAT and _may_last(info)]
        roles |= dict.fromkeys(sounds, InputRole.WAVEFORM)
    known: dict[str, Measure] = {}
    past = InputRole.PAST in roles.values()
    ranks = list(InputRole)
    plans = {}
    for info in sorted(model.inputs, key=lambda info: ranks.index(roles[info.name])):
        role = roles[info.name]
        usual: tuple[Dimension, ...] = (None, 3, None, None) if role is InputRole.IMAGE else (None, None)
        shape = info.shape if info.shape is not None else usual
        symbols = tuple(
            size if isinstance(size, int) and size >= 0 else size if isinstance(size, str) else f"{info.name}[{axis}]"
            for axis, size in enumerate(shape)
        )
        measures = []
        for symbol, guess in zip(symbols, _measures(info.name.lower(), role, shape, past=past), strict=True):
            by_name = known.setdefault(symbol, _hinted(symbol, role, guess)) if isinstance(symbol, str) else guess
            measures.append(by_name)
        demanded = {
            axis: traces.widths[info.name, key]
            for axis in range(len(shape))
            for key in (axis, axis - len(shape))
            if (info.name, key) in traces.widths and not isinstance(symbols[axis], int)
        }
        plans[info.name] = PlannedInput(info, role, symbols, tuple(measures), demanded, traces.rows.get(info.name))
    return [plans[info.name] for info in model.inputs]


def _may_last(info: TensorInfo) -> bool:
    """Whether its last dimension may be the samples of a sound: any number of them, of one channel or a batch."""
    shape = info.shape or (1,)
    return len(shape) <= _SOUND_AXES and not isinstance(shape[-1], int)


def shape_of(plan: PlannedInput, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of one input in a sample; ``sizes`` as from :func:`symbol_sizes`."""
    return tuple(symbol if isinstance(symbol, int) else max(0, sizes[symbol]) for symbol in plan.symbols)


def symbol_sizes(plans: Sequence[PlannedInput], setting: Setting) -> dict[str, int]:
    """A size for every symbol."""
    sizes: dict[str, int] = {}
    for plan in plans:
        for axis, (symbol, measure) in enumerate(zip(plan.symbols, plan.measures, strict=True)):
            if isinstance(symbol, str) and symbol not in sizes:
                sizes[symbol] = _size(measure, setting)
            if isinstance(symbol, str) and axis in plan.widths:
                sizes[symbol] = plan.widths[axis]
    for symbol in sizes:
        computed = _evaluate(symbol, sizes)
        if computed is not None:
            sizes[symbol] = computed
    return sizes


def fit_setting(plans: Sequence[PlannedInput], setting: Setting) -> Setting:
    """The setting with what the model fixes put in.

    A sequence of fixed length, a cache of fixed length and a mask of fixed length tell each other.
    """
    fixed = _fixed_sizes(plans)
    batch = fixed.get(Measure.BATCH, setting.batch)
    if setting.equal is not None:
        return replace(setting, batch=batch)
    length, past = fixed.get(Measure.LENGTH, setting.length), fixed.get(Measure.PAST, setting.past)
    if Measure.PAST in fixed and setting.past == 0 and Measure.LENGTH not in fixed:
        length = 1
    if Measure.TOTAL in fixed and Measure.PAST not in fixed:
        past = max(0, fixed[Measure.TOTAL] - length)
    room = min((plan.rows for plan in plans if plan.role is InputRole.POSITIONS and plan.rows), default=None)
    if room is not None and past + length > room:
        length = length if Measure.LENGTH in fixed else min(length, room)
        past = past if Measure.PAST in fixed else max(0, room - length)
    return replace(setting, batch=batch, length=length, past=past)


def first_position(plans: Sequence[PlannedInput], setting: Setting) -> int:
    """Returns where the new tokens begin: after the past, or inside a cache of fixed size that the mask covers."""
    fixed = _fixed_sizes(plans)
    total = fixed.get(Measure.TOTAL)
    if total is not None and total < setting.past + setting.length:
        return max(0, min(127, total - setting.length))
    return setting.past


def _fixed_sizes(plans: Sequence[PlannedInput]) -> dict[Measure, int]:
    """Sizes that the model fixes, where all inputs agree."""
    found: dict[Measure, set[int]] = {}
    for plan in plans:
        for symbol, measure in zip(plan.symbols, plan.measures, strict=True):
            if not (measure is Measure.BATCH and plan.role in (InputRole.POSITIONS, InputRole.MASK)):
                found.setdefault(measure, set()).add(symbol if isinstance(symbol, int) else -1)
    return {measure: min(sizes) for measure, sizes in found.items() if len(sizes) == 1 and -1 not in sizes}


def _size(measure: Measure, setting: Setting) -> int:
    if measure is Measure.ONE:
        return 1
    if setting.equal is not None and measure is not Measure.BATCH:
        return setting.equal
    if measure is Measure.TOTAL:
        return setting.length if setting.mask_without_past else setting.past + setting.length
    if measure is Measure.SOURCE:
        return max(1, setting.past + setting.length - 1) if setting.length == 1 else setting.length
    return 3 if measure is Measure.CHANNELS else int(getattr(setting, measure))


def _hinted(symbol: str, role: InputRole, guess: Measure) -> Measure:
    """Returns what a dimension's own name says, where that is plausible for the role."""
    hint = next((measure for pattern, measure in HINTS if re.search(pattern, symbol.lower())), guess)
    if hint is Measure.LENGTH and guess in _LENGTHS:
        return guess
    if hint is Measure.PAST and role in (InputRole.TOKENS, InputRole.POSITIONS, InputRole.TYPES):
        return guess
    return guess if re.search(r"\[|dynamic_axes|_dim_\d", symbol) else hint


def _measures(name: str, role: InputRole, shape: Sequence[Dimension], *, past: bool) -> list[Measure]:
    """Returns what the dimensions measure by the input's role and their places; names may tell more."""
    rank = len(shape)
    sequence = Measure.SOURCE if "encoder" in name else Measure.LENGTH
    rest, known = Measure.OTHER, {0: Measure.BATCH}
    if role in (InputRole.PAST, InputRole.STATE):
        known = _measures_of_state(role, shape, Measure.SOURCE if "encoder" in name else Measure.PAST)
    elif role in (InputRole.TOKENS, InputRole.POSITIONS, InputRole.TYPES):
        batch = 1 if role is InputRole.POSITIONS and rank == 3 else 0
        known = {batch: Measure.BATCH, rank - 1: sequence}
    elif role is InputRole.IMAGE:
        channels_last = isinstance(shape[-1], int) and shape[-1] in (1, 3, 4) and shape[-3] not in (1, 3, 4)
        channels, height, width = (rank - 1, rank - 3, rank - 2) if channels_last else (rank - 3, rank - 2, rank - 1)
        rest, known = Measure.ONE, {0: Measure.BATCH, height: Measure.HEIGHT, width: Measure.WIDTH}
        known[channels] = Measure.CHANNELS
    elif role is InputRole.MASK and "pixel" in name and rank == 3:
        known |= {1: Measure.HEIGHT, 2: Measure.WIDTH}
    elif role is InputRole.MASK:
        whole = Measure.TOTAL if past and sequence is Measure.LENGTH else sequence
        rest, known = Measure.ONE, {rank - 2: Measure.LENGTH, rank - 1: whole, 0: Measure.BATCH}
    elif role is InputRole.FEATURES:
        rest = Measure.FRAMES
    elif role is InputRole.WAVEFORM:
        rest, known = Measure.ONE, {rank - 1: Measure.SAMPLES, 0: Measure.BATCH}
    elif role is InputRole.HEAD_MASK or (role is InputRole.FLOAT and rank == 1 and not isinstance(shape[0], str)):
        known = {}
    elif role in (InputRole.HIDDEN, InputRole.FLOAT) and rank >= 3:
        known[1] = sequence
    return [known.get(axis, rest) for axis in range(rank)]


def _measures_of_state(role: InputRole, shape: Sequence[Dimension], growing: Measure) -> dict[int, Measure]:
    """The batch, and the dimension that grows with each step: if it may, the last but one."""
    open_axes = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
    batch = open_axes[0] if open_axes else 0
    if len(shape) >= 4 and batch > 1:
        batch = 0
    if role is InputRole.STATE:
        return {batch: Measure.BATCH}
    usual, rest = len(shape) - 2, [axis for axis in open_axes if axis != batch]
    return {usual if usual in rest or not rest else rest[0]: growing, batch: Measure.BATCH}


def _evaluate(symbol: str, sizes: Mapping[str, int]) -> int | None:
    """The value of a dimension such as ``past + seq``, if it is an expression of known ones."""
    try:
        tree = ast.parse(symbol, mode="eval").body
    except SyntaxError:
        return None
    return _value(tree, sizes) if isinstance(tree, ast.BinOp) else None


def _value(tree: ast.expr, sizes: Mapping[str, int]) -> int | None:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.Name):
        return sizes.get(tree.id)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATIONS:
        left, right = _value(tree.left, sizes), _value(tree.right, sizes)
        by_zero = right == 0 and isinstance(tree.op, ast.FloorDiv)
        if left is not None and right is not None and not by_zero:
            return _OPERATIONS[type(tree.op)](left, right)
    return None
