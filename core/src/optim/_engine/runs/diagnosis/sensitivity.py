"""Which nodes of a model a lossy pass harms how much, without a search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optim._engine.plugins.offers import OfferedPass
from optim._engine.plugins.registry import Registry
from optim._engine.reports.sensitivity_plot import Sensitivity
from optim._engine.runs.compare.conditions import Conditions, workbench_for
from optim._engine.search.settings import Named
from optim._engine.search.state import Trial
from optim.errors import OptimError, unknown_name
from optim.jobs.wire import to_wire
from optim.options import parse_options
from optim.passes import Pass
from optim.target import Target

_NOT_FOR_THIS_MODEL = ("not-applicable", "nothing-to-measure")
"""The next pass that makes the type may have something to convert."""


def measure_sensitivity(
    model: Path, wanted: Named, conditions: Conditions, *, seconds: float = 30.0, exact: bool = False
) -> Sensitivity:
    """Measure what a pass costs at every node that it can leave alone.

    Args:
        model: an ``.onnx`` file.
        wanted: a pass by name, or a type (``int8``): the first pass that makes it and can do something for the model;
            and options other than its defaults.
        conditions: under which it runs.
        seconds: about how long.
        exact: measure by applying the pass, instead of estimating.

    Raises:
        OptimError: unknown-type, unknown-option, not-lossy, not-applicable, nothing-to-measure; a model or the feeds
            cannot be used.
    """
    registry = conditions.registry
    offers = _with_options(_find(wanted.name, registry, registry.target(conditions.target)), wanted)
    refusals: list[tuple[OfferedPass, OptimError]] = []
    with workbench_for(model, conditions) as (bench, candidate):
        for offered, options in offers:
            try:
                found = bench.sensitivity(Trial(candidate, offered, options), seconds=seconds, exact=exact)
            except OptimError as error:
                if error.reference not in _NOT_FOR_THIS_MODEL:
                    raise
                refusals.append((offered, error))
            else:
                return Sensitivity(offered.name, options, found, bench.prepared)
    raise _refused(wanted.name, model, refusals)


def _with_options(offers: list[OfferedPass], wanted: Named) -> list[tuple[OfferedPass, dict[str, Any]]]:
    """The passes that have the options asked for, with them.

    Raises:
        OptimError: no pass has them; what the first says.
    """
    found, errors = [], []
    for offered in offers:
        try:
            found.append((offered, to_wire(parse_options(offered.over_models, wanted.options or {}))))
        except OptimError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return found


def _refused(wanted: str, model: Path, refusals: list[tuple[OfferedPass, OptimError]]) -> OptimError:
    """What the only pass says, or what each of several says."""
    if len(refusals) == 1:
        return refusals[0][1]
    return OptimError(
        "not-applicable",
        f"no pass that makes {wanted} can do anything for {model.name} here",
        "\n".join(f"{offered.name}: {error.cause}" for offered, error in refusals),
        "optim passes list",
    )


def _find(wanted: str, registry: Registry, target: Target) -> list[OfferedPass]:
    """The pass of this name, or those that make this type: of the plugin that runs the target first."""
    offers = [offered for offered in registry.offers(target) if issubclass(offered.pass_class, Pass)]
    own = registry.offered("backend")[target.backend].plugin.name
    by_type: dict[str, list[OfferedPass]] = {}
    for offered in sorted(offers, key=lambda offered: offered.plugin.name != own):
        if offered.over_models.makes:
            by_type.setdefault(offered.over_models.makes, []).append(offered)
    found = by_type.get(wanted) or [offered for offered in offers if offered.name == wanted]
    if not found:
        lossy = [offered.name for offered in offers if offered.over_models.lossy]
        raise unknown_name("type", wanted, [*by_type, *lossy], fix="optim passes list")
    if not found[0].over_models.lossy:
        raise OptimError.usage(
            "not-lossy",
            f"{found[0].name} does not change what a model computes",
            "there is no drift to measure",
            f"name one of {', '.join(by_type) or 'the lossy passes'}",
        )
    return found
