"""Reads the words of a user after a verb: sources, layouts, settings, and versions of onnxruntime."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from optim.cli_kit.names import LAYOUT_NAME, Decorated
from optim.errors import OptimError

if TYPE_CHECKING:
    from optim._engine.recipes.lock import Lock
    from optim._engine.runs.delivering import LayoutRequest
    from optim._engine.search.settings import Named, RunSettings
    from optim.source import SourceRequest

_SOURCE_OPTIONS: dict[str, dict[str, Any]] = {
    "--dynamic": {
        "multiple": True,
        "metavar": "INPUT=NAME,...",
        "help": "Dynamic dimensions of an input; an empty name is a fixed one. Can be repeated.",
    },
    "--source-arg": {
        "multiple": True,
        "metavar": "NAME=VALUE",
        "help": "Argument of the factory, as TOML. Can be repeated.",
    },
    "--state": {
        "multiple": True,
        "metavar": "ARGUMENT",
        "help": "An argument that holds the module's state. Can be repeated.",
    },
    "--rename": {
        "multiple": True,
        "metavar": "OLD=NEW",
        "help": "Name in the graph for an input or output of the module. Can be repeated.",
    },
    "--task": {"help": "Task to export a Hugging Face model for. [default: that of its architecture]"},
    "--weights": {
        "type": click.Choice(["copy", "link"]),
        "help": "link: the graph refers to the safetensors files of the source. [default: copy]",
    },
    "--allow-pickle": {"is_flag": True, "help": "Read weights from a pickle. A pickle can run any code."},
    "--trust-remote-code": {"is_flag": True, "help": "Run the Python code of a Hugging Face folder."},
}


def source_options(function: Decorated) -> Decorated:
    """The options of a source that is exported first."""
    for option, how in reversed(_SOURCE_OPTIONS.items()):
        function = click.option(option, **how)(function)
    return function


def source_request(spec: str, words: Mapping[str, Any], seed: int = 0) -> SourceRequest:
    """The request for a source, from the options above.

    Raises:
        OptimError[bad-source-option]: an option that cannot be read.
    """
    from optim.source import SourceRequest

    return SourceRequest(
        spec,
        arguments=dict(map(_argument, words.get("source_arg") or ())),
        dynamic=dict(map(_dimensions, words.get("dynamic") or ())),
        state=tuple(words.get("state") or ()),
        rename=dict(map(_renamed, words.get("rename") or ())),
        task=words.get("task") or "",
        weights=words.get("weights") or "copy",
        allow_pickle=bool(words.get("allow_pickle")),
        trust_remote_code=bool(words.get("trust_remote_code")),
        seed=seed,
    )


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


def _renamed(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old or not new:
        raise _bad("--rename", text, "--rename output=logits")
    return old, new


def _bad(option: str, text: str, example: str) -> OptimError:
    return OptimError.usage(
        "bad-source-option", f"cannot read {option} {json.dumps(text)}", "it is not NAME=VALUE", example
    )


def settings_of(source: Path, recipe: Path | None, words: Mapping[str, Any]) -> tuple[RunSettings, Lock | None]:
    """The settings of a run; options override the recipe.

    Returns:
        The settings, and the lock where one is to be repeated.

    Raises:
        OptimError[untrusted-code]: the recipe names code, and the user did not say that it may run.
    """
    from optim._engine.api.request import settings_from

    said = {name: value for name, value in words.items() if value is not False}  # a flag that was not given
    said["named"] = tuple(map(parse_named, words.get("named", ())))
    return settings_from(source, _request(source, words), recipe, said, trust_code=bool(words.get("trust_code")))


def _request(source: Path, words: Mapping[str, Any]) -> SourceRequest | None:
    """How the source is exported first, where it is no ONNX model.

    Raises:
        OptimError[conflicting-request]: it is one, and options say how to export it.
    """
    from optim._engine.sources.naming import needs_export

    if needs_export(str(source)):
        return source_request(str(source), words, int(words.get("seed") or 0))
    if given := [one for one in _SOURCE_OPTIONS if words.get(one.removeprefix("--").replace("-", "_"))]:
        raise OptimError.usage(
            "conflicting-request",
            f"{given[0]} says how to export a source, and {source} is an ONNX model",
            "an ONNX model is not exported",
            fix=f"leave {given[0]} out",
        )
    return None


def parse_named(text: str) -> Named:
    """``PASS`` or ``PASS:k=v,...`` with TOML values.

    Raises:
        OptimError[bad-option]: what stands after the colon is not TOML.
    """
    from optim._engine.search.settings import Named

    name, colon, options = text.partition(":")
    if not colon:
        return Named(name)
    from optim.options import written_options

    return Named(
        name, written_options(name, options, example="--with \"ort.quantize-dynamic:keep=['a','b'],per_channel=true\"")
    )


def how_options(function: Decorated) -> Decorated:
    """The files that a layout copies, and the Python that opens it."""
    function = click.option(
        "--python",
        "opened_by",
        type=click.Path(path_type=Path),
        help="Python interpreter that has the program of a layout. [default: this one]",
    )(function)
    return click.option(
        "--files",
        type=click.Path(path_type=Path),
        help="Folder with config and tokenizer for a layout. [default: that of the source]",
    )(function)


def layout_options(function: Decorated) -> Decorated:
    """The layouts that a run also writes."""
    asked = click.option(
        "--deliver",
        "layouts",
        multiple=True,
        type=LAYOUT_NAME,
        metavar="LAYOUT[:k=v,...]",
        help="Also write the result for another program; optim layouts lists them. Can be repeated.",
    )
    return asked(how_options(function))


def layouts_of(words: Mapping[str, Any]) -> LayoutRequest | None:
    """Returns the user's request for layouts; None where no layout was asked for.

    Raises:
        OptimError[conflicting-request]: it is said how, and not which.
    """
    texts = words["layouts"]
    said = [option for option, name in (("--files", "files"), ("--python", "opened_by")) if words[name]]
    if not texts and said:
        raise OptimError.usage(
            "conflicting-request",
            f"{said[0]} needs a layout",
            "--deliver is missing",
            "add --deliver LAYOUT; optim layouts lists them",
        )
    if not texts:
        return None
    from optim._engine.runs.delivering import LayoutRequest

    return LayoutRequest(tuple(texts), words["files"], words["opened_by"])


_PASSED_TO_RUNTIMES = ("data", "seconds", "max_drift", "seed", "as_json")

runtime_option = click.option(
    "--runtime",
    metavar="onnxruntime==VERSION,...",
    help="Run one model on these versions instead; the same as optim runtimes.",
)


def on_runtimes(versions: str, models: Sequence[Path]) -> int:
    """Call ``optim runtimes`` with what the user gave to this verb.

    Raises:
        OptimError[conflicting-request]: there are several models, or an option that it does not take.
        OptimError[plugin-missing]: the plugin that has the verb is not installed.
    """
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    options = {item.name: item.opts[0] for item in context.command.params if isinstance(item, click.Option)}
    other = next((option for name, option in options.items() if name in given - {*_PASSED_TO_RUNTIMES, "runtime"}), "")
    if other or len(models) > 1:
        raise OptimError.usage(
            "conflicting-request",
            f"--runtime and {other or 'a second model'} exclude each other",
            "--runtime runs one model on the processor with several versions of onnxruntime",
            f"optim {context.command.name} {models[0]} --runtime {versions}",
        )
    assert context.parent is not None and isinstance(context.parent.command, click.Group)
    verb = context.parent.command.get_command(context.parent, "runtimes")
    assert verb is not None
    passed = {name: context.params[name] for name in _PASSED_TO_RUNTIMES if name in given}
    status: int = context.invoke(verb, model=models[0], versions=versions, **passed)
    return status
