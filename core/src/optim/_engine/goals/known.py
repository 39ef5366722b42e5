"""The goals that there are: those of optim itself, and those of plugins."""

from __future__ import annotations

from collections.abc import Mapping

from optim._engine.goals.own import LATENCY, MEMORY, SIZE
from optim._engine.plugins.registry import Registry
from optim.errors import OptimError, unknown_name
from optim.goal import Goal, GoalRequest

OWN_GOALS: Mapping[str, Goal] = {goal.name: goal for goal in (LATENCY, SIZE, MEMORY)}


def goals(registry: Registry) -> Mapping[str, Goal]:
    """All goals by name."""
    return {**OWN_GOALS, **{name: offer.value() for name, offer in registry.offered("goal").items()}}


def find_goal(registry: Registry, name: str, asked: GoalRequest) -> Goal:
    """The goal of that name, if it takes what the user says of it.

    Raises:
        OptimError[unknown-goal]: no usable plugin adds it; lists the near ones.
        OptimError[plugin-failed]: what a plugin offers under that name cannot be used.
        OptimError[conflicting-request]: a limit of latency, and the goal knows none.
    """
    goal = OWN_GOALS.get(name) or goals(registry).get(name)
    if goal is None:
        registry.raise_if_lost("goal", name)
        raise unknown_name("goal", name, goals(registry), fix="optim run --help")
    if asked.max_latency_ms is not None and "max_latency_ms" not in goal.takes:
        takers = [one.name for one in goals(registry).values() if "max_latency_ms" in one.takes] or ["throughput"]
        raise OptimError.usage(
            "conflicting-request",
            f"--max-latency needs --goal {' or '.join(takers)}; the goal is {goal.name}",
            "only that goal trades latency for throughput",
            fix=f"add --goal {takers[0]}",
        )
    return goal


def release_of(registry: Registry, goal: Goal) -> str:
    """The distribution that brings a goal, with its version; empty for optim itself."""
    offer = None if goal.name in OWN_GOALS else registry.offered("goal").get(goal.name)
    return offer.plugin.release if offer is not None else ""
