"""Feeds of sizes that the user names by dimension: ``batch=8``, ``sequence=128``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from optim._engine.feeds.dimensions import HINTS, PlannedInput, Setting, fit_setting, plan_model
from optim._engine.feeds.roles import InputRole
from optim._engine.feeds.settings import MOST_BYTES, sample_bytes
from optim._engine.feeds.values import make_sample
from optim.arrays import Feeds
from optim.errors import OptimError, unknown_name
from optim.model import Model


def sized_feeds(model: Model, sizes: Mapping[str, int], seed: int, *, number: int = 0, mask: str = "") -> Feeds:
    """One sample whose dimensions have these sizes; the others are as in feeds that are made up.

    Args:
        model: whose inputs they are.
        sizes: by the name of a dimension in the model, or by what it counts: batch, sequence, past, height, ...
        seed: of the values.
        number: of the sample; each has other values.
        mask: what the mask hides, see :class:`optim._engine.feeds.dimensions.Setting`.

    Raises:
        OptimError[unknown-dimension]: no dimension that is free has such a name.
        OptimError[conflicting-request]: two names are of one size.
        OptimError[bad-grid]: the model takes no such size, or its inputs would fill too much memory.
        OptimError[no-mask]: the model has no mask, or a past, behind which nothing can be hidden at the end.
    """
    plans = plan_model(model)
    _require_mask(plans, mask)
    named: dict[str, str] = {}
    for name in sizes:
        other = named.setdefault(_field(plans, name), name)
        if other != name:
            raise OptimError.usage(
                "conflicting-request",
                f"{other} and {name} cannot have sizes of their own",
                "inputs are made with one size for both",
                f"leave {name} out",
            )
    fields: dict[str, Any] = {field: sizes[name] for field, name in named.items()}
    fitted = fit_setting(plans, replace(Setting(), mask=mask, **fields))
    for field, name in named.items():
        at_most = getattr(fitted, field)
        if at_most != sizes[name]:
            raise _bad(f"{name} cannot be {sizes[name]}", f"the model takes {at_most}")
    if (needed := sample_bytes(plans, fitted)) > MOST_BYTES:
        text = " ".join(f"{name}={size}" for name, size in sizes.items())
        raise _bad(
            f"inputs of {text} would be too large",
            f"they take {needed >> 20} MiB, and at most {MOST_BYTES >> 20} are made",
        )
    numbers = [seed, math.prod(sizes.values()), *([number] if number else [])]
    return make_sample(plans, fitted, np.random.default_rng(numbers))


def _require_mask(plans: Sequence[PlannedInput], mask: str) -> None:
    roles = {plan.role for plan in plans}
    what = f"--mask {mask} does not fit this model"
    if mask and InputRole.MASK not in roles:
        raise OptimError.usage("no-mask", what, "none of its inputs is a mask", "leave --mask out")
    if mask == "end" and InputRole.PAST in roles:
        cause = "the new tokens of a decoder come last"
        raise OptimError.usage("no-mask", what, cause, "--mask start hides the beginning")


def _field(plans: Sequence[PlannedInput], name: str) -> str:
    """The field of a setting that gives a dimension its size."""
    free = {
        symbol: measure
        for plan in plans
        for symbol, measure in zip(plan.symbols, plan.measures, strict=True)
        if isinstance(symbol, str)
    }
    hinted = next((measure for pattern, measure in HINTS if re.search(pattern, name.lower())), None)
    measure = free.get(name) or (hinted if hinted in free.values() else None)
    if measure is not None and hasattr(Setting, measure):
        return measure
    raise unknown_name("dimension", name, sorted(free), fix="optim inspect MODEL shows the dimensions of its inputs")


def _bad(what: str, cause: str) -> OptimError:
    return OptimError.usage("bad-grid", what, cause, "leave this size out, or name another")
