"""The seam between a goal and what times it: a figure in seconds for each round of a race, made small."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from optim._engine.generation.timing import GenerationTimes
from optim._engine.jobs.clocks.serving import Served
from optim.arrays import Feeds
from optim.backend import Backend, Session
from optim.model import Model
from optim.target import Target


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


@dataclass(frozen=True, slots=True)
class Figure:
    """What one round gave.

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


def generation_of(figures: Sequence[Figure]) -> GenerationTimes | None:
    """What the time of an answer is made of, over rounds; None where none was timed."""
    found = [one.generation for one in figures if one.generation is not None]
    return GenerationTimes.median(found) if found else None


class Timer(ABC):
    """A goal's clock on one model, in the process of its lane."""

    @abstractmethod
    def round(self) -> Figure:
        """One round. It takes tenths of seconds, as other lanes wait for it."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release what it opened."""


class GoalClock(ABC):
    """A goal's settings, which travel to lanes; a frozen dataclass.

    The search knows a goal by the ratio of its seconds to the original's, with its interval, and by nothing else.
    """

    @abstractmethod
    def start(self, subject: Subject) -> Timer:
        """The timer of a lane, which may first look how the model is best run."""
