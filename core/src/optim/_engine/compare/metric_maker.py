"""A metric by what the user wrote: a plugin's with its options, or a function of the user's own."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optim._engine.compare.metric_callback import metric_of_program
from optim._engine.compare.metric_spec import MetricSpec
from optim._engine.plugins.plugin import PluginInfo
from optim._engine.plugins.registry import load_registry
from optim.arrays import Feeds, Outputs
from optim.errors import OptimError, unknown_name
from optim.metric import Metric, MetricFamily
from optim.options import import_named, parse_options
from optim.user_code import find_function, import_here

_KNOWN = ("outputs", "labels", "feeds")


def find_metric(spec: MetricSpec) -> Metric:
    """Make the metric; a function of the user's is looked for in the working folder.

    Raises:
        OptimError[unknown-metric]: there is no such function, or no such metric of the plugin.
        OptimError[unknown-option]: an option that it does not have; lists the near ones.
        OptimError[bad-option]: a value that does not fit.
    """
    if spec.program is not None:
        return metric_of_program(spec, spec.program)
    if spec.names_code:
        return _users(spec)
    offer = load_registry(only=[spec.plugin] if spec.plugin else None).offer("metric", spec.name)
    if isinstance(offer.value, MetricFamily):
        return _member(offer.value, spec, offer.plugin)
    _refuse_options(spec)
    found: Metric = offer.value
    return found


def metric_digest(spec: MetricSpec) -> str:
    """Returns what its figures depend on beside its name and options: the source of a user's function, hex."""
    if not spec.names_code:
        return ""
    path = inspect.getsourcefile(import_here(spec.name.partition(":")[0]))
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""


def _member(family: MetricFamily, spec: MetricSpec, plugin: PluginInfo) -> Metric:
    options = parse_options(family, spec.options, "optim metrics")
    make: Any = import_named(family.make) if isinstance(family.make, str) else family.make
    found = make(options)
    if not isinstance(found, Metric):
        raise OptimError.usage(
            "unknown-metric",
            f"{spec.name} makes no metric",
            f"it made {type(found).__name__}, not a Metric",
            f"optim plugins show {plugin.name}",
            plugin.release,
        )
    return found


def _users(spec: MetricSpec) -> Metric:
    module, _, name = spec.name.partition(":")
    try:
        found = find_function(spec.name)
    except Exception as error:
        raise OptimError.usage(
            "unknown-metric",
            f"there is no function {spec.name}",
            f"{type(error).__name__}: {error}",
            f"python -c 'from {module} import {name}' must work in {Path.cwd()}",
        ) from error
    if isinstance(found, Metric):
        _refuse_options(spec)
        return found
    if not callable(found):
        raise OptimError.usage(
            "unknown-metric",
            f"{spec.name} is no function",
            f"it is a {type(found).__name__}",
            "name a function that takes outputs and labels and returns a number",
        )
    higher = spec.options.get("higher_is_better", getattr(found, "higher_is_better", True))
    if set(spec.options) - {"higher_is_better"} or not isinstance(higher, bool):
        raise OptimError.usage(
            "bad-option",
            f"options of metric {spec.name} do not fit",
            "a function has the option higher_is_better",
            f'--metric "{spec.name}:higher_is_better=false"',
        )
    return metric_of(found, spec.name, higher_is_better=higher)


def metric_of(function: Callable[..., Any], name: str, *, higher_is_better: bool) -> Metric:
    """A function as a metric: it is given those of outputs, labels and feeds that it names."""
    return Metric(name, higher_is_better, _called(function))


def _refuse_options(spec: MetricSpec) -> None:
    if spec.options:
        raise unknown_name("option", next(iter(spec.options)), (), fix=f"{spec.name} has no options")


def _called(function: Any) -> Callable[[Outputs, Feeds, Feeds], Any]:
    """The user's function with the arguments that it names, or by position: outputs, labels, feeds."""
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty or parameter.name in _KNOWN
    ]
    by_name = all(parameter.name in _KNOWN for parameter in parameters)

    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Any:
        given = {"outputs": outputs, "labels": labels, "feeds": feeds}
        if by_name:
            return function(**{parameter.name: given[parameter.name] for parameter in parameters})
        return function(*(given[name] for name in _KNOWN[: len(parameters)]))

    return call
