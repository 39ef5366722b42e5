"""Which nodes of a model a lossy pass harms how much, without a search."""

from __future__ import annotations

from pathlib import Path

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


def measure_sensitivity(
    model: Path, wanted: Named, conditions: Conditions, *, seconds: float = 30.0, exact: bool = False
) -> Sensitivity:
    """Measure what a pass costs at every node that it can leave alone.

    Args:
        model: an ``.onnx`` file.
        wanted: a pass by name, or by the type that it makes (``int8``), and options other than its defaults.
        conditions: under which it runs.
        seconds: about how long.
        exact: measure by applying the pass, instead of estimating.

    Raises:
        OptimError: unknown-type, unknown-option, not-lossy, not-applicable, nothing-to-measure; a model or the feeds
            cannot be used.
    """
    registry = conditions.registry
    offered = _find(wanted.name, registry, registry.target(conditions.target))
    options = to_wire(parse_options(offered.over_models, wanted.options or {}))
    with workbench_for(model, conditions) as (bench, candidate):
        found = bench.sensitivity(Trial(candidate, offered, options), seconds=seconds, exact=exact)
        return Sensitivity(offered.name, options, found, bench.prepared)


def _find(wanted: str, registry: Registry, target: Target) -> OfferedPass:
    """The pass of this name, or the first that makes this type: of the plugin that runs the target, if it has one."""
    offers = [offered for offered in registry.offers(target) if issubclass(offered.pass_class, Pass)]
    own = registry.offered("backend")[target.backend].plugin.name
    by_type: dict[str, OfferedPass] = {}
    for offered in sorted(offers, key=lambda offered: offered.plugin.name != own):
        if offered.over_models.makes:
            by_type.setdefault(offered.over_models.makes, offered)
    found = by_type.get(wanted) or next((offered for offered in offers if offered.name == wanted), None)
    if found is None:
        lossy = [offered.name for offered in offers if offered.over_models.lossy]
        raise unknown_name("type", wanted, [*by_type, *lossy], fix="optim passes list")
    if not found.over_models.lossy:
        raise OptimError.usage(
            "not-lossy",
            f"{found.name} does not change what a model computes",
            "there is no drift to measure",
            f"name one of {', '.join(by_type) or 'the lossy passes'}",
        )
    return found
