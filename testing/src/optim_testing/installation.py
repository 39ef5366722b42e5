"""A plugin as optim sees it once it is installed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Installed:
    """State of an installed plugin, as ``optim plugins show`` prints it.

    Attributes:
        state: ``ok``, or another word of ``optim plugins list``.
        reason: reason why it is not ``ok``.
        warnings: names that a later optim will not have, and parts that slow every command.
        problems: offers that cannot be used, a line each.
        passes: names of its passes by target, in the order of a run.
        backends: name of the backend of each target.
    """

    state: str
    reason: str
    warnings: tuple[str, ...]
    problems: tuple[str, ...]
    passes: dict[str, tuple[str, ...]]
    backends: dict[str, str]


def installed(plugin: str) -> Installed:
    """Loads one installed plugin alone.

    Raises:
        OptimError[unknown-plugin]: no installed distribution has an entry point of that name.
    """
    from optim.engine.testing import load_registry

    registry = load_registry(only=[plugin])
    found = registry.plugin(plugin)
    targets = {name: registry.target(name) for name in registry.targets()}
    return Installed(
        str(found.state),
        found.reason,
        found.warnings,
        tuple(str(problem) for problem in registry.problems),
        {name: tuple(one.name for one in registry.offers(target)) for name, target in targets.items()},
        {name: registry.backend(target.backend).name for name, target in targets.items()},
    )
