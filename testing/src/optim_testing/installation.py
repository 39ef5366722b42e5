"""A plugin as optim sees it once it is installed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Installed:
    """What ``optim plugins show`` would say of a plugin.

    Attributes:
        state: ``ok``, or another word of ``optim plugins list``.
        reason: why it is not ``ok``.
        warnings: what it uses that a later optim will not have, or what makes every command wait.
        problems: what it offered and cannot be used, a line each.
        passes: names of what it offers, by target, in the order of a run.
        backends: name of the backend of each target.
    """

    state: str
    reason: str
    warnings: tuple[str, ...]
    problems: tuple[str, ...]
    passes: dict[str, tuple[str, ...]]
    backends: dict[str, str]


def installed(plugin: str) -> Installed:
    """Load one installed plugin alone.

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
