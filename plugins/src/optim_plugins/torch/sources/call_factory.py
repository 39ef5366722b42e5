"""Calls the user's own function for a module, and says what is wrong with what it gives."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optim import OptimError, SourceRequest
from optim.user_code import find_function
from optim_plugins.torch.tracebacks import user_line


@dataclass(frozen=True, slots=True)
class Made:
    """What a factory gave.

    Attributes:
        module: ``torch.nn.Module`` in evaluation mode.
        examples: one or more sets of inputs; each a tuple by position, or a mapping by name.
    """

    module: Any
    examples: tuple[tuple[Any, ...] | Mapping[str, Any], ...]


def call_factory(request: SourceRequest) -> Made:
    """The module of ``package.module:factory``, and its example inputs.

    It returns a module, or ``(module, example)``, or ``(module, [example, example])``; an example is a tuple of
    inputs by position or a mapping by name, a single tensor stands for itself. The working folder is importable.

    Raises:
        OptimError: factory-not-found, factory-needs-arguments, factory-failed, factory-no-module.
    """
    function = _find(request.spec)
    _require_arguments(function, request)
    _seed(request.seed)
    try:
        made = function(**request.arguments)
    except OptimError:
        raise
    except BaseException as error:  # the user's function may raise anything, SystemExit too
        if isinstance(error, KeyboardInterrupt):
            raise
        place = user_line(error)
        message = str(error).strip().splitlines()
        raise OptimError(
            "factory-failed",
            f"{request.spec} raised {type(error).__name__}",
            "\n".join(filter(None, [message[0][:300] if message else "", place])),
            f"python -c 'from {_as_import(request.spec)}; {request.spec.partition(':')[2]}()' must work",
        ) from error
    return _checked(made, request)


def _seed(seed: int) -> None:
    """The module is built twice, in two processes: weights drawn at random must be the same."""
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _find(spec: str) -> Any:
    try:
        function = find_function(spec)
    except Exception as error:
        raise OptimError.usage(
            "factory-not-found",
            f"there is no {spec}",
            f"{type(error).__name__}: {error}",
            f"python -c 'from {_as_import(spec)}' must work in {Path.cwd()}",
        ) from error
    if not callable(function):
        raise OptimError.usage(
            "factory-not-found",
            f"{spec} is no function",
            f"it is a {type(function).__name__}",
            "name a function that returns a torch.nn.Module",
        )
    return function


def _require_arguments(function: Any, request: SourceRequest) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**request.arguments)
    except TypeError as error:
        missing = [
            name
            for name, parameter in signature.parameters.items()
            if parameter.default is parameter.empty
            and name not in request.arguments
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        fix = " ".join(f"--source-arg {name}=VALUE" for name in missing)
        raise OptimError.usage(
            "factory-needs-arguments",
            f"{request.spec}{signature} was called with {dict(request.arguments)}",
            str(error),
            fix or "give every argument of the factory: --source-arg NAME=VALUE",
        ) from error


def _checked(made: Any, request: SourceRequest) -> Made:
    import torch

    module: Any = made
    examples: tuple[tuple[Any, ...] | Mapping[str, Any], ...] = ()
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module):
        module, examples = made[0], _examples(made[1])
    if not isinstance(module, torch.nn.Module):
        raise OptimError.usage(
            "factory-no-module",
            f"{request.spec} returned no torch module",
            f"it returned a {type(made).__name__}",
            "return a torch.nn.Module, or (module, example_inputs)",
        )
    with suppress(NotImplementedError):  # what torch.export made, such as a quantized program, has no such mode
        module.eval()
    for parameter in module.parameters():  # a scripted module has no method that does it
        parameter.requires_grad_(False)
    return Made(module, examples)


def _examples(given: Any) -> tuple[tuple[Any, ...] | Mapping[str, Any], ...]:
    """A list holds several examples; anything else is one."""
    several = given if isinstance(given, list) else [given]
    return tuple(one if isinstance(one, tuple | Mapping) else (one,) for one in several)


def _as_import(spec: str) -> str:
    module, _, name = spec.partition(":")
    return f"{module} import {name}"
