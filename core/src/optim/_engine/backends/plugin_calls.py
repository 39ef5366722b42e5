"""Calls of a plugin's backend: how long they may take, its errors named with its plugin, and what is tried again."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from optim.backend import CallLimits
from optim.errors import ExitStatus, OptimError, describe_exception
from optim.jobs.doing import NO_LIMIT, Limit, PluginCall, current_call, say_call

T = TypeVar("T")

_PAUSES_S = (0.2, 1.0, 3.0)
"""Before something that the backend calls passing is tried again: a device that another program holds for longer than
four seconds is not waited for, and a run that meets one at every opening does not take minutes more."""

_OPENED_BY = "onnxruntime"
"""Exceptions of ONNX Runtime itself say what is wrong with a sample or a model: they pass as they are."""


@dataclass(slots=True)
class PluginCalls:
    """How a backend is called.

    Attributes:
        is_passing: whether what was raised may go by itself, as the backend says.
        by_wall: whether what it says of its own times is taken from the wall's clock.
    """

    name: str
    release: str
    is_passing: Callable[[Exception], bool] = lambda error: False
    by_wall: bool = False

    def call(self, doing: str, limit: Limit = NO_LIMIT, *, first: bool = False) -> PluginCall:
        """What the parent of this process is told while code of the backend runs."""
        return PluginCall(f"backend {self.name} ({self.release}) was {doing}", self.release, first, limit)

    def blame(self, what: str, work: Callable[[], T]) -> T:
        """Do something of the plugin's; what it raises names the plugin.

        Raises:
            OptimError[backend-failed]: it raised what is no diagnosis.
        """
        try:
            return work()
        except OptimError as error:
            if error.package or _is_of_core(error):
                raise
            raise replace(error, package=self.release) from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] == _OPENED_BY:
                raise
            raise OptimError(
                "backend-failed",
                f"backend {self.name} {what}",
                describe_exception(error),
                "optim --debug shows where; report it to the package below, which brings the backend",
                self.release,
                ExitStatus.TARGET_UNAVAILABLE,
            ) from error

    def ask(self, what: str, work: Callable[[], T]) -> T:
        """Do something of the plugin's that is done once: while it runs, the parent of this process is told what.

        Args:
            what: went wrong if it raises, as of :meth:`blame`: "could not ...".
            work: of the plugin.
        """
        before = current_call()
        say_call(self.call(what.replace("could not", "was about to").removeprefix("was "), first=True))
        try:
            return self.blame(what, work)
        finally:
            say_call(before)

    def patient(self, work: Callable[[], T], before_again: Callable[[], None] = lambda: None) -> T:
        """Do something of the plugin's, again where it failed in a way that passes."""
        for pause in _PAUSES_S:
            try:
                return work()
            except Exception as error:
                if not self.passes(error):
                    raise
                before_again()
                time.sleep(pause)
        return work()

    def broken(self, cause: str) -> OptimError:
        """The diagnosis for what is against the contract of backends."""
        return OptimError(
            "backend-contract",
            f"backend {self.name} breaks the contract of backends",
            cause,
            "report it to the package below; its author finds it with optim_testing.BackendConformance",
            self.release,
            ExitStatus.TARGET_UNAVAILABLE,
        )

    def elsewhere(self, subject: str, cause: str) -> OptimError:
        """The diagnosis for a model that did not run where it should."""
        return OptimError(
            "ran-elsewhere",
            f"{subject} did not run on its target",
            cause,
            "optim targets lists the targets; allow the CPU if the target has the setting: --target NAME:fallback=cpu",
            self.release,
            ExitStatus.TARGET_UNAVAILABLE,
        )

    def passes(self, error: Exception) -> bool:
        """Returns whether trying again may help; a backend that breaks over the question says no."""
        try:
            return bool(self.is_passing(error))
        except Exception:
            return False


def _is_of_core(error: OptimError) -> bool:
    """Returns whether a library of the core raised it, such as the one that opens sessions, and no plugin."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and str(frames[-1][0].f_globals.get("__name__", "")).startswith("optim.")


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
