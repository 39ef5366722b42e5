"""Goals: properties to improve by ``--goal``, each with the clock that runs what the user runs.

The search makes the figure of a goal small, and asks the goal when that is reached. For a goal with a clock of its own,
the figure is the ratio of that clock's seconds to those of the original, with its interval.
"""

from __future__ import annotations

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
"""A result is called faster if the upper end of its interval is below this."""

ROUNDS_FOR_95 = 6
"""The least and the greatest ratio of so many rounds contain the median in 97 % of cases; with two rounds it is 50 %,
with five 94 %. optim shows no interval of fewer, and bases no verdict on it."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Paired ratio of two models' times over the rounds of a race; below 1 is faster.

    Attributes:
        value: median over rounds.
        low: lower end of the 95 % confidence interval; with fewer than ``ROUNDS_FOR_95`` rounds the least ratio.
        high: upper end; with fewer rounds the greatest ratio.
        rounds: number of rounds.
    """

    value: float
    low: float
    high: float
    rounds: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval; None with too few rounds."""
        return (self.low, self.high) if self.rounds >= ROUNDS_FOR_95 else None

    @property
    def is_faster(self) -> bool:
        """Whether the whole interval is below ``FASTER``."""
        return self.interval is not None and self.high < FASTER

    @property
    def is_undecided(self) -> bool:
        """Whether more rounds may show that the model is faster."""
        return self.low < FASTER and not self.is_faster

    @property
    def text(self) -> str:
        """The ratio with its interval, or with its rounds if they are too few."""
        if self.interval is None:
            return f"{self.value:.2f} in {self.rounds} round{'s' * (self.rounds != 1)}"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, slots=True)
class Serving:
    """A way to run a model on one machine.

    Attributes:
        batch: samples in a call.
        sessions: sessions in one process, each with a thread that calls it. A runtime releases Python while it
            computes, so sessions do as much as processes, in less memory.
        threads: threads of each session; None: those of the model's settings.
    """

    batch: int = 1
    sessions: int = 1
    threads: int | None = None

    @property
    def text(self) -> str:
        """A text such as ``batch 8, 2 sessions of 1 thread``."""
        threads = "" if self.threads is None else f" of {self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"batch {self.batch}, {self.sessions} session{'s' if self.sessions > 1 else ''}{threads}"


@dataclass(frozen=True, slots=True)
class Tried:
    """A serving that optim tried.

    Attributes:
        serving: the serving.
        samples_per_s: samples per second.
        p95_s: time that 95 of 100 calls kept.
        problem: reason why it has no figures or may not be used; else empty.
    """

    serving: Serving
    samples_per_s: float = 0.0
    p95_s: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Served:
    """The serving that optim chose for a model.

    Attributes:
        serving: the serving to time.
        tried: all servings tried, in order.
        limit_ms: time that 95 of 100 calls must keep; None: no limit.
        note: what limited the choice; else empty.
    """

    serving: Serving
    tried: tuple[Tried, ...]
    limit_ms: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class GenerationTimes:
    """Times of a decoder for an answer, with one prompt at a time.

    Attributes:
        prompt: tokens of the prompt.
        new: tokens of the answer.
        first_s: seconds until the first token.
        depths: tokens of the past at which a token was timed, in rising order.
        token_s: seconds of one token at each depth.
        past_bytes: memory of the past at each depth. A past that each step returns anew counts twice.
    """

    prompt: int
    new: int
    first_s: float
    depths: tuple[int, ...]
    token_s: tuple[float, ...]
    past_bytes: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """Seconds of the whole answer."""
        import numpy as np

        mean = float(np.interp(np.arange(self.depths[0], self.depths[-1] + 1), self.depths, self.token_s).mean())
        return self.first_s + (self.new - 1) * mean

    @classmethod
    def median(cls, rounds: Sequence[GenerationTimes]) -> GenerationTimes:
        """Returns the median of several rounds, for each figure by itself."""
        first = rounds[0]
        import statistics  # 5 ms of every command, else

        tokens = tuple(statistics.median(column) for column in zip(*(one.token_s for one in rounds), strict=True))
        first_s = statistics.median(one.first_s for one in rounds)
        return cls(first.prompt, first.new, first_s, first.depths, tokens, first.past_bytes)


@dataclass(frozen=True, slots=True)
class Figure:
    """Result of one round of a goal's clock.

    Attributes:
        seconds: seconds that the goal makes small. Ratios are of these.
        calls: seconds of each call of the round, if users wait for calls.
        generation: parts of the seconds of a decoder.
        served: serving of the model from now on, if this round chose one.
    """

    seconds: float
    calls: tuple[float, ...] = ()
    served: Served | None = None
    generation: GenerationTimes | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that is open in a race.

    Attributes:
        backend: backend that opened it.
        model: the model with its session settings.
        target: where it runs.
        session: the open session, for this process only.
        feeds: inputs of the timed samples.
    """

    backend: Backend
    model: Model
    target: Target
    session: Session
    feeds: Sequence[Feeds]


class Timer(ABC):
    """Clock of a goal on one model, in the process that runs it."""

    @abstractmethod
    def round(self) -> Figure:
        """Does one round. It should take tenths of seconds, because other models wait."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Releases what it opened."""


class GoalClock(ABC):
    """Settings of a goal, which travel to other processes as JSON: a frozen dataclass of an importable module."""

    @abstractmethod
    def start(self, subject: Subject) -> Timer:
        """Returns the timer of a model. It may first find out how to run the model best."""


class Basis(StrEnum):
    """Source of a goal's figure.

    ``CALLS`` and ``CLOCK`` are times: a candidate is better if its interval shows it.
    """

    CALLS = "calls"
    """Time of single calls, which every race measures."""
    CLOCK = "clock"
    """Rounds of the goal's own clock."""
    MEMORY = "memory"
    """Peak memory of opening and running a model."""
    ACCURACY = "accuracy"
    """Drift, or the loss of the task metric, as the gate finds it."""
    SIZE = "size"
    """Bytes on disk, without a race."""


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a goal with a clock of its own.

    Attributes:
        ratio: name of its ratio to the original.
        better: text for a model that needs less time, such as ``starts {} times faster``.
        worse: text for a model that needs more time, such as ``starts {} times slower``.
        same: text for a model that needs the same time.
    """

    ratio: str
    better: str
    worse: str
    same: str


@dataclass(frozen=True, slots=True)
class GoalRequest:
    """The user's words about a goal.

    Attributes:
        prompt: tokens of a decoder's prompt.
        new: tokens of its answer.
        max_latency_ms: time that 95 of 100 calls must keep; None: no limit.
    """

    prompt: int = 512
    new: int = 128
    max_latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure of one model in the unit of its goal, for a limit of the user.

    Attributes:
        value: the figure.
        low: lower end of its 95 % interval.
        high: upper end.
        is_sure: whether the interval has enough rounds for a verdict.
    """

    value: float
    low: float
    high: float
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """All figures of one model, for a goal to judge.

    Attributes:
        size_bytes: bytes on disk.
        peak_memory_bytes: peak memory of opening and running the model; 0: not measured.
        calls: time of single calls, relative to the original; None: not timed.
        clock: time of the goal's own clock, relative to the original; None: not timed.
        latency: latency of a single call in milliseconds; None: not timed.
        inaccuracy: drift beyond rounding, or the loss of the task metric if there is one; 0 for the original.
    """

    size_bytes: int
    peak_memory_bytes: int = 0
    calls: Ratio | None = None
    clock: Ratio | None = None
    latency: Amount | None = None
    inaccuracy: float = 0.0


class Goal:
    """A property to improve. A plugin offers it by ``optim_goals``; it is made without arguments.

    A goal of a plugin has a clock of its own.

    Attributes:
        name: name in lower case, as users write it.
        summary: one line.
        words: words of a goal with a clock of its own.
        basis: where its figure comes from.
        takes: fields of ``GoalRequest`` that it uses, from ``--generate`` and ``--max-latency``.
        long_rounds: whether a round of its clock takes seconds. optim then tries passes that suit the goal first, takes
            two rounds for a first timing, and drops slow candidates early.
        unit: unit of ``amount``, ``B`` or ``ms``; empty: its figure can have no limit.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    words: ClassVar[Words] = Words("ratio", "{} times better", "{} times worse", "as good as before")
    basis: ClassVar[Basis] = Basis.CLOCK
    takes: ClassVar[tuple[str, ...]] = ()
    long_rounds: ClassVar[bool] = False
    unit: ClassVar[str] = ""

    def clock(self, asked: GoalRequest) -> GoalClock | None:
        """Returns the clock; None if every race measures the figure."""
        return None

    def require(self, asked: GoalRequest, facts: Mapping[str, Any], model: Model | None) -> None:
        """Refuses what its clock cannot run, before any timing.

        Args:
            asked: the user's words.
            facts: facts about the source of the model from its export; empty: unknown.
            model: the model; None: not exported yet.

        Raises:
            OptimError: the model cannot be timed, with the reason.
        """

    def time_of(self, found: ModelFigures) -> Ratio | None:
        """Returns the time to make small, relative to the original; None: no time, or not timed."""
        return found.clock

    def figure(self, found: ModelFigures) -> float | None:
        """Returns the figure to make small; None: not measured."""
        time = self.time_of(found)
        return time.value if time is not None else None

    def amount(self, found: ModelFigures) -> Amount | None:
        """Returns the figure in its unit, for a limit of the user; None: not measured, or it can have no limit."""
        return None

    def is_reached(self, found: ModelFigures, original: ModelFigures) -> bool:
        """Whether a model is better than the original beyond noise. optim judges the limits of the user."""
        time = self.time_of(found)
        return time is not None and time.is_faster

    def expected(self, calls: float, start_s: float | None, original_start_s: float | None) -> float | None:
        """Returns the time of its clock to expect from a first timing of calls, relative to the original.

        Args:
            calls: time of calls, relative to the original.
            start_s: seconds from opening the model to its first answer; None: unknown.
            original_start_s: the same for the original.

        Returns:
            A ratio; None if calls say nothing about the clock.
        """
        return calls
