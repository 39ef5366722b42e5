"""``--runtime`` of a verb: the same model on several versions of onnxruntime, which is the verb ``runtimes``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from optim.errors import OptimError

_PASSED_ON = ("data", "seconds", "max_drift", "seed", "as_json")

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
    other = next((option for name, option in options.items() if name in given - {*_PASSED_ON, "runtime"}), "")
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
    passed = {name: context.params[name] for name in _PASSED_ON if name in given}
    status: int = context.invoke(verb, model=models[0], versions=versions, **passed)
    return status
