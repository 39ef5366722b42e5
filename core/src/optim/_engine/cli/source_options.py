"""Options of commands that take a source, and what the user wrote after them as a request."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from optim.errors import ExitStatus, OptimError
from optim.source import SourceRequest

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--dynamic", multiple=True, metavar="INPUT=NAME,...", help="Names of an input's dimensions; empty: fixed."
    ),
    click.option(
        "--source-arg", "source_args", multiple=True, metavar="NAME=VALUE", help="Argument of the factory, as TOML."
    ),
    click.option("--state", multiple=True, metavar="ARGUMENT", help="An argument that is the module's memory."),
    click.option("--task", help="Of a Hugging Face model. [default: what its architecture is for]"),
    click.option(
        "--weights",
        type=click.Choice(["copy", "link"]),
        help="link: the graph points into the user's safetensors files. [default: copy]",
    ),
    click.option("--allow-pickle", is_flag=True, help="Read weights from a pickle, which can run any code."),
    click.option("--trust-remote-code", is_flag=True, help="Run the code that a Hugging Face folder brings."),
)


def source_options(function: Decorated) -> Decorated:
    """What may be said of a source that is exported first."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def source_request(spec: str, words: Mapping[str, Any], seed: int = 0) -> SourceRequest:
    """The request for a source, from the options above.

    Raises:
        OptimError[bad-source-option]: an option that cannot be read.
    """
    return SourceRequest(
        spec,
        arguments=dict(map(_argument, words.get("source_args") or ())),
        dynamic=dict(map(_dimensions, words.get("dynamic") or ())),
        state=tuple(words.get("state") or ()),
        task=words.get("task") or "",
        weights=words.get("weights") or "copy",
        allow_pickle=bool(words.get("allow_pickle")),
        trust_remote_code=bool(words.get("trust_remote_code")),
        seed=seed,
    )


def given_source_options(words: Mapping[str, Any]) -> list[str]:
    """Names of the options above that the user wrote."""
    names = {
        "dynamic": "--dynamic",
        "source_args": "--source-arg",
        "state": "--state",
        "task": "--task",
        "weights": "--weights",
        "allow_pickle": "--allow-pickle",
        "trust_remote_code": "--trust-remote-code",
    }
    return [option for name, option in names.items() if words.get(name)]


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise _bad("--source-arg", text, "--source-arg layers=2")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return name, value  # a word without quotes is text, as in a shell


def _dimensions(text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, dimensions = text.partition("=")
    if not equals or not name:
        raise _bad("--dynamic", text, "--dynamic input_ids=batch,sequence")
    names = tuple(dimension.strip() for dimension in dimensions.split(","))
    if any(dimension and not dimension.isidentifier() for dimension in names):
        raise _bad("--dynamic", text, "--dynamic input_ids=batch,sequence")
    return name, names


def _bad(option: str, text: str, example: str) -> OptimError:
    return OptimError(
        "bad-source-option",
        f"cannot read {option} {json.dumps(text)}",
        "it is not NAME=VALUE",
        example,
        status=ExitStatus.USAGE,
    )
