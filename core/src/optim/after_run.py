"""A finished run as a plugin sees it, and additions to its report.

The hook ``optim_after_run`` names functions. optim calls each once with a ``FinishedRun``, and the function returns
``Findings``. The verdict does not change. If a function fails, its findings are missing, and the report has a note.
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
    """A step that the gate dropped because its outputs are not right.

    Attributes:
        number: number of the step, for ``StepBlame.step``.
        pass_name: name of its pass.
        on: passes before it.
        lossy: whether the pass may change outputs by more than rounding.
        drift: drift of the worst output; infinite if an output is missing.
        beyond_budget: whether the drift is the only problem.
        beyond_repair: whether the drift is too large for a repair.
        before: the model that the pass received.
        after: the model that the pass made.
        lab: lab of the target of the step.
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
    """A run after its verdict, with its models.

    Attributes:
        lab: lab of the original.
        models: the original, and the result if it is another model with the same inputs; empty if optim timed nothing.
        dropped: steps that the gate dropped because their outputs are not right.
        left_s: seconds for looking at the run. They may exceed the announced time by a share of the run, because a busy
            machine leaves little else.
    """

    lab: Lab
    models: tuple[LabModel, ...]
    dropped: tuple[DroppedStep, ...]
    left_s: Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Section:
    """A section of ``report.html``.

    Attributes:
        title: heading, as plain text.
        body: HTML. The plugin escapes names of models.
    """

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class StepBlame:
    """The cause of a wrong step.

    Attributes:
        step: number of the step (``DroppedStep.number``).
        summary: cause in a few words, to follow the reason of the step; empty: no cause found.
        details: JSON values for ``report.json``, as ``blame`` of the step; None: none.
        notes: notes for the step.
        section: section of ``report.html`` about the step; None: none.
    """

    step: int
    summary: str = ""
    details: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    section: Section | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings about a finished run.

    Attributes:
        steps: causes of dropped steps.
        operator_ms: milliseconds in a run by operator, for each of ``FinishedRun.models``.
        sections: sections of ``report.html``, beside those of steps.
    """

    steps: tuple[StepBlame, ...] = ()
    operator_ms: tuple[Mapping[str, float], ...] = ()
    sections: tuple[Section, ...] = ()
