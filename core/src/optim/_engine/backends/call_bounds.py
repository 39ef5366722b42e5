"""How long opening a model and a run of it may take: what its vendor says, and what the original makes likely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optim.backend import CallLimits
from optim.jobs.doing import NO_LIMIT, Limit

_VENDORS = "its plugin's own limit"

_ORIGINALS = "many times what the original takes"

_LEAST_S, _TIMES = 5.0, 20.0
"""What any call may take, and how many times longer than with the original: beside sixteen programs two processors
were ten times slower from one minute to the next, and stood still for seconds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one kind.

    Attributes:
        limits: in seconds.
        why: whose limits they are.
        of_each: whether several runs together may take so many times as long.
    """

    limits: CallLimits
    why: str
    of_each: bool = False


def of_vendor(limits: CallLimits) -> Bounds:
    """What a backend says of itself."""
    return Bounds(limits, _VENDORS, of_each=True)


def of_original(open_s: float, run_s: float, left_s: float) -> Bounds:
    """What tells a call that hangs from one that is slow.

    Args:
        open_s: that the original took to open.
        run_s: that one run of it took on average.
        left_s: of the run, for a call: it may take as long, however little the original takes.
    """
    if math.isinf(left_s):
        return Bounds(CallLimits(), _ORIGINALS)
    opens, runs = (max(_LEAST_S + _TIMES * seconds, left_s) for seconds in (open_s, run_s))
    return Bounds(CallLimits(opens, runs), _ORIGINALS)


def tightest(bounds: Sequence[Bounds]) -> tuple[Limit, Limit]:
    """The shortest limits for opening and for a run."""
    opens = [Limit(one.limits.open_s, one.why) for one in bounds if one.limits.open_s is not None]
    runs = [Limit(one.limits.run_s, one.why, one.of_each) for one in bounds if one.limits.run_s is not None]
    return min(opens, default=NO_LIMIT), min(runs, default=NO_LIMIT)
