"""The plugin ``goals``: what it offers. Importing this imports no clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optim import hookimpl

if TYPE_CHECKING:
    from optim.goal import Goal

OPTIM_HOOK_API = 1


@hookimpl
def optim_goals() -> Sequence[type[Goal]]:
    """How soon a model starts, how many samples it does, and how long a decoder answers."""
    from optim_plugins.goals.generate import GenerateGoal
    from optim_plugins.goals.startup import StartUpGoal
    from optim_plugins.goals.throughput import ThroughputGoal

    return (StartUpGoal, ThroughputGoal, GenerateGoal)


@hookimpl
def optim_generators() -> Sequence[str]:
    """What drives decoders, for ``optim.load``, ``load.py`` and runs that nobody names a goal for."""
    return ("optim_plugins.goals.decoders.generator:Generator",)
