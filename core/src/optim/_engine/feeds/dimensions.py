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
    """What each input of a model is for, and what its dimensions measure; a name means the same wherever it stands."""
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
        shape = info.shape if info.shape is not None else _usual_shape(role)
        symbols = tuple(
            size if isinstance(size, int) and size >= 0 else size if isinstance(size, str) else f"{info.name}[{axis}]"
            for axis, size in enumerate(shape)
        )
        measures = []
        for axis, symbol in enumerate(symbols):
            guess = _measure(info.name.lower(), role, shape, axis, past=past)
            if isinstance(symbol, str):
                guess = known.setdefault(symbol, _hinted(symbol, role, guess))
            measures.append(guess)
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


def _measure(name: str, role: InputRole, shape: Sequence[Dimension], axis: int, *, past: bool) -> Measure:
    """Returns what a dimension measures by the input's role and the place of the dimension."""
    rank, last = len(shape), len(shape) - 1
    source = "encoder" in name
    sequence = Measure.SOURCE if source else Measure.LENGTH
    if role in (InputRole.PAST, InputRole.STATE):
        return _measure_of_state(role, shape, axis, source=source)
    if role in (InputRole.TOKENS, InputRole.POSITIONS, InputRole.TYPES) and axis == last:
        return sequence
    if role is InputRole.POSITIONS and rank == 3:
        return Measure.BATCH if axis == 1 else Measure.OTHER
    if role is InputRole.HEAD_MASK:
        return Measure.OTHER
    if role is InputRole.IMAGE:
        return _measure_of_image(shape, axis)
    if axis == 0:
        return (
            Measure.OTHER if role is InputRole.FLOAT and rank == 1 and not isinstance(shape[0], str) else Measure.BATCH
        )
    if role is InputRole.MASK:
        if "pixel" in name and rank == 3:
            return (Measure.BATCH, Measure.HEIGHT, Measure.WIDTH)[axis]
        if axis == last:
            return Measure.TOTAL if past and not source else sequence
        return Measure.LENGTH if axis == last - 1 else Measure.ONE
    if role is InputRole.FEATURES:
        return Measure.FRAMES
    if role is InputRole.WAVEFORM:
        return Measure.SAMPLES if axis == last else Measure.ONE
    return sequence if axis == 1 and rank >= 3 and role in (InputRole.HIDDEN, InputRole.FLOAT) else Measure.OTHER


def _measure_of_state(role: InputRole, shape: Sequence[Dimension], axis: int, *, source: bool) -> Measure:
    open_axes = [index for index, size in enumerate(shape) if not isinstance(size, int)]
    batch = open_axes[0] if open_axes else 0
    if len(shape) >= 4 and batch > 1:
        batch = 0
    if axis == batch:
        return Measure.BATCH
    if role is InputRole.STATE:
        return Measure.OTHER
    usual = len(shape) - 2
    rest = [index for index in open_axes if index != batch]
    growing = usual if usual in rest or not rest else rest[0]
    if axis != growing:
        return Measure.OTHER
    return Measure.SOURCE if source else Measure.PAST


def _measure_of_image(shape: Sequence[Dimension], axis: int) -> Measure:
    channels_last = isinstance(shape[-1], int) and shape[-1] in (1, 3, 4) and shape[-3] not in (1, 3, 4)
    names = (
        (Measure.HEIGHT, Measure.WIDTH, Measure.CHANNELS)
        if channels_last
        else (Measure.CHANNELS, Measure.HEIGHT, Measure.WIDTH)
    )
    place = axis - (len(shape) - 3)
    if place >= 0:
        return names[place]
    return Measure.BATCH if axis == 0 else Measure.ONE


def _usual_shape(role: InputRole) -> tuple[Dimension, ...]:
    return (None, None) if role is not InputRole.IMAGE else (None, 3, None, None)


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
