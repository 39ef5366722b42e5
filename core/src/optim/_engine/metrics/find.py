"""A metric by what the user wrote: a built-in one with its options, a plugin's, or a function of the user's own."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optim._engine.metrics.spec import BUILT_IN, MetricSpec
from optim._engine.plugins.registry import load_registry
from optim.arrays import Feeds, Outputs
from optim.errors import ExitStatus, OptimError, unknown_name
from optim.metric import Metric

_KNOWN = ("outputs", "labels", "feeds")


def find_metric(spec: MetricSpec) -> Metric:
    """Make the metric; the working folder is importable in a worker.

    Raises:
        OptimError[unknown-metric]: there is no such function, or no such metric of the plugin.
        OptimError[unknown-option]: an option that it does not have; lists the near ones.
        OptimError[bad-option]: a value that does not fit.
    """
    if spec.name in BUILT_IN:
        return _built_in(spec)
    if spec.is_function:
        return _users(spec)
    offered = load_registry(only=[spec.plugin]).metrics()
    if spec.name not in offered:
        raise unknown_name("metric", spec.name, offered, fix="optim metrics")
    _refuse_options(spec)
    return offered[spec.name]


def metric_digest(spec: MetricSpec) -> str:
    """What its figures depend on beside its name and options: the source of a user's function, hex."""
    if not spec.is_function:
        return ""
    path = inspect.getsourcefile(importlib.import_module(spec.name.partition(":")[0]))
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""


def factory_of(name: str) -> Callable[..., Metric]:
    """The function that makes a built-in metric; its keywords are the metric's options."""
    module, _, function = BUILT_IN[name][0].partition(":")
    found: Callable[..., Metric] = getattr(importlib.import_module(module), function)
    return found


def _built_in(spec: MetricSpec) -> Metric:
    from pydantic import ConfigDict, ValidationError, validate_call

    factory = factory_of(spec.name)
    known = inspect.signature(factory).parameters
    for key in spec.options:
        if key not in known:
            raise unknown_name("option", key, known, fix=f"optim metrics; {spec.name} has {', '.join(known)}")
    try:
        checked = validate_call(config=ConfigDict(strict=True))(factory)
        return checked(**spec.options)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise OptimError(
            "bad-option",
            f"options of metric {spec.name} do not fit",
            problems,
            "optim metrics",
            status=ExitStatus.USAGE,
        ) from error


def _users(spec: MetricSpec) -> Metric:
    module, _, name = spec.name.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise OptimError(
            "unknown-metric",
            f"there is no function {spec.name}",
            f"{type(error).__name__}: {error}",
            f"python -c 'from {module} import {name}' must work in {Path.cwd()}",
            status=ExitStatus.USAGE,
        ) from error
    if isinstance(found, Metric):
        _refuse_options(spec)
        return found
    if not callable(found):
        raise OptimError(
            "unknown-metric",
            f"{spec.name} is no function",
            f"it is a {type(found).__name__}",
            "name a function that takes outputs and labels and returns a number",
            status=ExitStatus.USAGE,
        )
    higher = spec.options.get("higher_is_better", getattr(found, "higher_is_better", True))
    if set(spec.options) - {"higher_is_better"} or not isinstance(higher, bool):
        raise OptimError(
            "bad-option",
            f"options of metric {spec.name} do not fit",
            "a function has the option higher_is_better",
            f'--metric "{spec.name}:higher_is_better=false"',
            status=ExitStatus.USAGE,
        )
    return Metric(spec.name, higher, _called(found))


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
