"""What a plugin may look at when the verdict of a run is known, and what it adds to the report.

The hook ``optim_after_run`` names functions. Each is called once with a :class:`FinishedRun`, and returns
:class:`Findings`. The verdict stays as it is. One that fails costs its findings, and the report has a note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.model import Model

if TYPE_CHECKING:
    from optim import Lab
    from optim.laboratory import LabModel


@dataclass(frozen=True, slots=True)
class DroppedStep:
    """A step whose outputs are not right: the gate dropped it.

    Attributes:
        number: which one it is, for :attr:`StepBlame.step`.
        pass_name: of its pass.
        on: the passes before it.
        lossy: whether the pass may move outputs.
        drift: of the worst output; infinite where one is lost.
        beyond_budget: whether it is right but for being further away than the user accepts.
        beyond_repair: whether it is so far away that no repair is tried.
        before: the model that it was given.
        after: the model that it made.
        lab: of the target that it was tried on.
    """

    number: int
    pass_name: str
    on: tuple[str, ...]
    lossy: bool
    drift: float
    beyond_budget: bool
    beyond_repair: bool
    before: Model
    after: Model
    lab: Lab


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run whose verdict is known, and whose models are still there.

    Attributes:
        lab: of the original.
        models: the original, and the result if it is another model that takes the same inputs; empty where nothing was
            timed.
        dropped: steps whose outputs are not right.
        left_s: seconds for looking at the run. Given a share of the run's whole time, it counts that beyond what was
            announced: on a busy machine little else is left.
    """

    lab: Lab
    models: tuple[LabModel, ...]
    dropped: tuple[DroppedStep, ...]
    left_s: Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Section:
    """A section of ``report.html``.

    Attributes:
        title: its heading, plain text.
        body: HTML. Whoever makes it escapes names of models.
    """

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class StepBlame:
    """What makes a dropped step wrong.

    Attributes:
        step: its :attr:`DroppedStep.number`.
        summary: what is to blame, in a few words; it follows the reason of the step. Empty: nothing was found.
        details: JSON values, which ``report.json`` has as the step's ``blame``; None: there are none.
        notes: for the step.
        section: of ``report.html``, about this step; None: there is none.
    """

    step: int
    summary: str = ""
    details: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    section: Section | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """What a look at a run found.

    Attributes:
        steps: about dropped steps.
        operator_ms: milliseconds of a run by operator, of each of :attr:`FinishedRun.models`.
        sections: of ``report.html``, beside those of steps.
    """

    steps: tuple[StepBlame, ...] = ()
    operator_ms: tuple[Mapping[str, float], ...] = ()
    sections: tuple[Section, ...] = ()
