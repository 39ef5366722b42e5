"""The plugin ``diagnose``: what it offers. Importing this imports none of it."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, Command, Target, hookimpl
from optim_plugins.diagnose.outputs.backend import StoredBackend
from optim_plugins.diagnose.outputs.target import TARGET as STORED
from optim_plugins.diagnose.runtimes.backend import VersionBackend
from optim_plugins.diagnose.runtimes.target import TARGET as OTHER_VERSION

OPTIM_HOOK_API = 1

_FOLDER = "optim_plugins.diagnose"


@hookimpl
def optim_commands() -> Sequence[Command]:
    """Verbs that time models, look into one, or look at this machine."""
    return (
        Command(f"{_FOLDER}.bench.command:bench", "Time models against each other."),
        Command(f"{_FOLDER}.blame.command:blame", "Name the nodes that make two models differ."),
        Command(f"{_FOLDER}.profile.command:profile", "Show the time of each operator and node."),
        Command(f"{_FOLDER}.sensitivity.command:sensitivity", "Show how much drift each node costs."),
        Command(f"{_FOLDER}.reduce.command:reduce", "Cut a failing model to the smallest part that fails."),
        Command(f"{_FOLDER}.draw.command:draw", "Draw the graph of a model."),
        Command(f"{_FOLDER}.inspect.command:inspect", "Describe a model, or this machine."),
        Command(f"{_FOLDER}.outputs.command:outputs", "Store the outputs of a model in a file."),
        Command(f"{_FOLDER}.runtimes.command:runtimes", "Compare a model on several versions of onnxruntime."),
    )


@hookimpl
def optim_targets() -> Sequence[Target]:
    """A file of stored outputs, in the place of the runtime that computed them, and other versions of onnxruntime."""
    return STORED, OTHER_VERSION


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """What looks stored outputs up, and what runs another version."""
    return StoredBackend, VersionBackend


@hookimpl
def optim_after_run() -> Sequence[str]:
    """What is to blame for wrong steps, and where the time of the result goes."""
    return (f"{_FOLDER}.after_run:look",)
