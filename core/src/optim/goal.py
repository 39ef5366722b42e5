"""What better means: a goal behind ``--goal``, and the clock that runs what the user runs.

The search knows a goal by the figure that it makes small and by when that is reached. Of a goal with a clock of its own
it knows the ratio of that clock's seconds to the original's, with its interval.
"""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from optim.arrays import Feeds
    from optim.backend import Backend, Session
    from optim.model import Model
    from optim.target import Target

FASTER = 0.995
"""The upper end of the interval must lie below this for a result to be called faster."""

ROUNDS_FOR_95 = 6
"""The least and the greatest ratio of so many rounds hold the median in 97 % of cases. Of fewer rounds they hold it in
50 % (2 rounds) to 94 % (5 rounds): such an interval is not shown, and no verdict rests on it."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A paired ratio of two models' times over the rounds of a race: below 1 is faster.

    Attributes:
        value: median over rounds.
        low: lower end of the 95 % confidence interval; of fewer than :data:`ROUNDS_FOR_95` rounds the least ratio.
        high: upper end; of fewer rounds the greatest ratio.
        rounds: rounds it rests on.
    """

    value: float
    low: float
    high: float
    rounds: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval; None if it rests on too few rounds to have one."""
        return (self.low, self.high) if self.rounds >= ROUNDS_FOR_95 else None

    @property
    def is_faster(self) -> bool:
        """Whether all of the interval lies below the line below which a result is called faster."""
        return self.interval is not None and self.high < FASTER

    @property
    def is_undecided(self) -> bool:
        """Whether more rounds may show that it is faster."""
        return self.low < FASTER and not self.is_faster

    @property
    def text(self) -> str:
        """The ratio with its interval, or with its rounds if they are too few for one."""
        if self.interval is None:
            return f"{self.value:.2f} in {self.rounds} round{'s' * (self.rounds != 1)}"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, slots=True)
class Serving:
    """A way to run a model on one machine.

    Attributes:
        batch: samples in a call.
        sessions: of the model in one process, each called by a thread of its own. A runtime lets go of Python while it
            computes, so they do what as many processes would, in less memory.
        threads: of each session; None: as many as the model's settings say.
    """

    batch: int = 1
    sessions: int = 1
    threads: int | None = None

    @property
    def text(self) -> str:
        """E.g. ``batch 8, 2 sessions of 1 thread``."""
        threads = "" if self.threads is None else f" of {self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"batch {self.batch}, {self.sessions} session{'s' if self.sessions > 1 else ''}{threads}"


@dataclass(frozen=True, slots=True)
class Tried:
    """A serving that was looked at.

    Attributes:
        serving: that was.
        samples_per_s: that it did.
        p95_s: what 95 of 100 of its calls kept within.
        problem: why it has no figures, or may not be taken; else empty.
    """

    serving: Serving
    samples_per_s: float = 0.0
    p95_s: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Served:
    """What was chosen for a model.

    Attributes:
        serving: that is timed.
        tried: what it was chosen from, the way that it came first.
        limit_ms: what 95 of 100 calls must keep within; None: as long as it takes.
        note: what bounded the choice; else empty.
    """

    serving: Serving
    tried: tuple[Tried, ...]
    limit_ms: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class GenerationTimes:
    """How long a decoder takes for an answer, with one prompt at a time.

    Attributes:
        prompt: tokens of the prompt.
        new: tokens of the answer.
        first_s: until the first token.
        depths: tokens of the past at which a token was timed, rising.
        token_s: of one token at each of them.
        past_bytes: memory of the past at each of them; of a past that each step returns anew it is there twice.
    """

    prompt: int
    new: int
    first_s: float
    depths: tuple[int, ...]
    token_s: tuple[float, ...]
    past_bytes: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """Of the whole answer."""
        import numpy as np

        mean = float(np.interp(np.arange(self.depths[0], self.depths[-1] + 1), self.depths, self.token_s).mean())
        return self.first_s + (self.new - 1) * mean

    @classmethod
    def median(cls, rounds: Sequence[GenerationTimes]) -> GenerationTimes:
        """Of several rounds, each figure by itself."""
        first = rounds[0]
        tokens = tuple(statistics.median(column) for column in zip(*(one.token_s for one in rounds), strict=True))
        first_s = statistics.median(one.first_s for one in rounds)
        return cls(first.prompt, first.new, first_s, first.depths, tokens, first.past_bytes)


@dataclass(frozen=True, slots=True)
class Figure:
    """What one round of a goal's clock gave.

    Attributes:
        seconds: that the goal makes small; ratios are of these.
        calls: how long each call of the round took, in seconds, where calls are what the user waits for.
        generation: of a decoder, what the seconds are made of.
        served: how the model is run from now on, where that was chosen in this round.
    """

    seconds: float
    calls: tuple[float, ...] = ()
    served: Served | None = None
    generation: GenerationTimes | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that is open in a lane.

    Attributes:
        backend: that opened it.
        model: with its session settings.
        target: where it runs.
        session: that is open; the lane's own.
        feeds: of the timed samples.
    """

    backend: Backend
    model: Model
    target: Target
    session: Session
    feeds: Sequence[Feeds]


class Timer(ABC):
    """A goal's clock on one model, in the process of its lane."""

    @abstractmethod
    def round(self) -> Figure:
        """One round. It takes tenths of seconds, as other lanes wait for it."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release what it opened."""


class GoalClock(ABC):
    """A goal's settings, which travel to lanes as JSON: a frozen dataclass of a module that a lane can import."""

    @abstractmethod
    def start(self, subject: Subject) -> Timer:
        """The timer of a lane, which may first look how the model is best run."""


class Basis(StrEnum):
    """Where a goal's figure comes from.

    ``calls`` and ``clock`` are times: a candidate is better if its interval says so.
    """

    CALLS = "calls"
    """How long single calls take, which every race finds out."""
    CLOCK = "clock"
    """Rounds of the goal's own clock."""
    MEMORY = "memory"
    """The peak that opening and running a model takes."""
    ACCURACY = "accuracy"
    """What the gate compares: drift, or the loss of the task metric."""
    SIZE = "size"
    """Bytes on disk: no race is run for them."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a goal with a clock of its own.

    Attributes:
        ratio: what its seconds to the original's are called.
        better: what a model with fewer of them does, as in ``starts {} times faster``.
        worse: what one with more of them does, as in ``starts {} times slower``.
        same: what one with as many does.
    """

    ratio: str
    better: str
    worse: str
    same: str


@dataclass(frozen=True, slots=True)
class GoalRequest:
    """What the user says of a goal.

    Attributes:
        prompt: tokens of a decoder's prompt.
        new: tokens of its answer.
        max_latency_ms: what 95 of 100 calls must keep within; None: as long as it takes.
    """

    prompt: int = 512
    new: int = 128
    max_latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure of one model in the unit of its goal, as a bound of the user is compared with it.

    Attributes:
        value: the figure.
        low: lower end of its 95 % interval.
        high: upper end.
        is_sure: whether the interval rests on enough rounds to have a verdict rest on it.
    """

    value: float
    low: float
    high: float
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """What is known of one model, for a goal to judge.

    Attributes:
        size_bytes: on disk.
        peak_memory_bytes: of opening and running it; 0: not measured.
        calls: how long single calls take, to the original's; None: not timed.
        clock: what the goal's own clock found, to the original's; None: not timed.
        latency: of a single call, in milliseconds; None: not timed.
        inaccuracy: drift beyond rounding, or the loss of the task metric if there is one; 0 for the original.
    """

    size_bytes: int
    peak_memory_bytes: int = 0
    calls: Ratio | None = None
    clock: Ratio | None = None
    latency: Amount | None = None
    inaccuracy: float = 0.0


class Goal:
    """What better means, contributed by ``optim_goals``. Instantiated without arguments.

    A plugin's goal has a clock of its own.

    Attributes:
        name: what users call it, in lower case.
        summary: one line.
        words: of a goal with a clock of its own.
        basis: where its figure comes from.
        takes: fields of :class:`GoalRequest` that it looks at: ``--generate`` and ``--max-latency`` say them.
        long_rounds: whether a round of its clock takes seconds. What is known to suit the goal is tried first then, two
            rounds do for a look, and what is far behind does not go on.
        unit: of :meth:`amount`, ``B`` or ``ms``; empty: no bound can be set on its figure.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    words: ClassVar[Words] = Words("ratio", "{} times better", "{} times worse", "as good as before")
    basis: ClassVar[Basis] = Basis.CLOCK
    takes: ClassVar[tuple[str, ...]] = ()
    long_rounds: ClassVar[bool] = False
    unit: ClassVar[str] = ""

    def clock(self, asked: GoalRequest) -> GoalClock | None:
        """What times it; None where its figure is what every race finds out."""
        return None

    def require(self, asked: GoalRequest, facts: Mapping[str, Any], model: Model | None) -> None:
        """Refuse what its clock cannot run, before anything is timed.

        Args:
            asked: what the user says.
            facts: of the model's source, as its export knows them; empty where nothing is known.
            model: None: it was not exported yet.

        Raises:
            OptimError: why it cannot be timed.
        """

    def time_of(self, found: ModelFigures) -> Ratio | None:
        """The time that it makes small, to the original's; None where it is no time, or nothing was timed."""
        return found.clock

    def figure(self, found: ModelFigures) -> float | None:
        """What is made small; None where it was not measured."""
        time = self.time_of(found)
        return time.value if time is not None else None

    def amount(self, found: ModelFigures) -> Amount | None:
        """The figure in its unit, for a bound of the user; None if it was not measured, or can have no bound."""
        return None

    def is_reached(self, found: ModelFigures, original: ModelFigures) -> bool:
        """Whether a model is better than the original beyond the noise. Core judges the bounds of the user."""
        time = self.time_of(found)
        return time is not None and time.is_faster

    def expected(self, calls: float, start_s: float | None, original_start_s: float | None) -> float | None:
        """What a first look at calls lets expect of its clock, to the original's; None where it says nothing.

        Args:
            calls: how long calls took, to the original's.
            start_s: from opening the model to its first answer; None where it is not known.
            original_start_s: the same of the original.
        """
        return calls
