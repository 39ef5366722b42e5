"""The sizes that a model accepts: the usual ones first, then what models with hidden constraints may accept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from optim._engine.feeds.dimensions import PlannedInput, Setting, fit_setting, shape_of, symbol_sizes
from optim._engine.feeds.roles import InputRole
from optim._engine.feeds.values import make_sample
from optim.arrays import Feeds, Outputs, dtype_of
from optim.errors import OptimError
from optim.model import Model

Check = Callable[[Feeds], Outputs]
"""Runs the model; raises where it refuses the feeds. The outputs that it returns are searched for NaN."""

MOST_BYTES = 256 << 20
"""Bytes that the inputs of one sample may take: eight samples lie on disk, and 100 MB take a second to make up."""

NAN = "the outputs hold NaN"
"""The reason against samples that the model runs on, and that cannot be compared."""

_SCALES = (
    (1, 224, 3000, 16000),
    (2, 256, 1000, 48000),
    (4, 64, 300, 4000),
    (8, 32, 100, 512),
    (16, 28, 64, 400),
    (64, 16, 16, 160),
)
"""Divisors of lengths, pixels on a side, frames, and samples of a waveform."""
_LONGER = (4, 16, 125)
"""A sequence of floats may be a sound, of which filters take windows: 512, 2048 and 16,000 samples in place of 128."""

_TEXT = (
    Setting(),
    Setting(length=32),
    Setting(padded=True),
    Setting(length=17),
    Setting(batch=2, length=32, padded=True),
    Setting(),
    Setting(length=17, padded=True),
    Setting(length=64),
)
_DECODE = (
    Setting(length=1, past=127),
    Setting(length=1, past=31),
    Setting(length=1, past=127, padded=True),
    Setting(length=32, past=0),
    Setting(length=1, past=31, batch=2, padded=True),
    Setting(length=1, past=16),
    Setting(length=1, past=127),
    Setting(length=1, past=63, padded=True),
)
"""Decode steps are what matters; one prefill, with no past, is among them."""


def find_settings(
    model: Model, plans: Sequence[PlannedInput], seed: int, check: Check | None, end: float
) -> tuple[list[Setting], list[tuple[Setting, str]]]:
    """The settings of the first attempt whose leading sample the model accepts; else of the one that came furthest.

    Returns:
        Those that it accepts, a sample of batch 1 without padding first; and those that it refuses, each with a reason.

    Raises:
        OptimError[feeds-not-found]: every attempt was refused.
    """
    best: list[Setting] = []
    why_not: list[tuple[Setting, str]] = []
    first_refusal = ""
    tried: list[list[Setting]] = []
    for attempt in _attempts(plans, prefill=check is not None):
        settings = [fit_setting(plans, setting) for setting in attempt]
        if settings in tried:
            continue
        tried.append(settings)
        accepted: list[Setting] = []
        refused: list[tuple[Setting, str]] = []
        for index, setting in enumerate(settings):
            if accepted and time.monotonic() > end:
                break
            refusal = _too_large(plans, setting)
            if check is not None and not refusal:
                refusal = refusal_of(make_sample(plans, setting, np.random.default_rng([seed, index])), check)
            if refusal:
                refused.append((setting, refusal))
                first_refusal = first_refusal or refusal
            else:
                accepted.append(setting)
        if settings[0] in accepted:
            return _leading(accepted), refused
        accepted = _leading(accepted) or [setting for setting, refusal in refused if refusal == NAN]
        if len(accepted) > len(best):
            best, why_not = accepted, refused
    if not best:
        names = ", ".join(f"'{info.name}': ..." for info in model.inputs[:3])
        raise OptimError(
            "feeds-not-found",
            f"optim cannot synthesize inputs on which {model.path.name} runs",
            f"the usual sizes gave: {first_refusal or 'it has no inputs that could be sized'}",
            f"give samples of your own: --data samples.npz, written by numpy.savez('samples.npz', **{{{names}}})",
        )
    return best, why_not


def _attempts(plans: Sequence[PlannedInput], *, prefill: bool) -> Iterator[list[Setting]]:
    """Lists of settings; ``prefill``: also a sample without a past."""
    roles = {plan.role for plan in plans}
    past = InputRole.PAST in roles
    base = [setting for setting in (_DECODE if past else _TEXT) if prefill or not past or setting.past]
    base = [replace(setting, padded=setting.padded and InputRole.MASK in roles) for setting in base]
    scaled = [[_scaled(setting, index, *scale) for index, setting in enumerate(base)] for scale in _SCALES]
    yield from scaled
    if past:
        yield [replace(setting, mask_without_past=True) for setting in base]
    for size in (16, 8, 4, 2, 1):
        yield [replace(setting, equal=size) for setting in base if not past or setting.past]
    for other in (512, 64):
        yield [replace(setting, other=other) for setting in base]
    for times in _LONGER:
        yield [replace(setting, length=setting.length * times) for setting in base]
    if any(plan.role is InputRole.TOKENS and plan.rows is None for plan in plans):
        yield [replace(setting, known_ids=2) for setting in scaled[0]]
        yield [replace(setting, known_ids=2) for setting in scaled[3]]


def _scaled(setting: Setting, index: int, divisor: int, side: int, frames: int, samples: int) -> Setting:
    height = width = side
    if index % 4 == 3:
        step = 32 if side > 64 else 8
        height, width = max(step, height - step), width + step
    return replace(
        setting,
        length=max(1, setting.length // divisor),
        past=max(1, setting.past // divisor) if setting.past else 0,
        height=height,
        width=width,
        frames=frames,
        samples=samples,
        other=max(1, setting.other // divisor),
    )


def _leading(settings: list[Setting]) -> list[Setting]:
    """A sample of batch 1 without padding comes first, if there is one."""
    first = next((index for index, one in enumerate(settings) if not one.padded and one.batch == 1), 0)
    return settings[first : first + 1] + settings[:first] + settings[first + 1 :]


def _too_large(plans: Sequence[PlannedInput], setting: Setting) -> str:
    """Why no sample of these sizes is made; empty where it takes no more than there is room for."""
    total = sample_bytes(plans, setting)
    if total <= MOST_BYTES:
        return ""
    return f"its inputs would take {total / 2**20:.0f} MiB a sample; at most {MOST_BYTES >> 20} MiB are synthesized"


def sample_bytes(plans: Sequence[PlannedInput], setting: Setting) -> int:
    """The bytes of the inputs of a sample of these sizes."""
    sizes = symbol_sizes(plans, setting)
    return sum(math.prod(shape_of(plan, sizes)) * dtype_of(plan.info.dtype).itemsize for plan in plans)


def refusal_of(feeds: Feeds, check: Check) -> str:
    """Why the model refuses a sample; empty where it runs.

    Raises:
        OptimError[backend-contract]: the runtime takes the sample, and returns other outputs than the model declares.
    """
    try:
        outputs = check(feeds)
    except Exception as error:  # whatever a runtime raises
        if isinstance(error, OptimError) and error.reference == "backend-contract":
            raise
        return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    floats = [array for array in outputs.values() if isinstance(array, np.ndarray) and array.dtype.kind in "fc"]
    return NAN if any(np.isnan(array).any() for array in floats) else ""
