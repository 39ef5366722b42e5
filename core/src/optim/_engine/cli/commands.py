"""The commands there are, none of them imported until it is called; verbs that plugins add come after ours."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from optim.errors import ExitStatus, OptimError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim._engine.plugins.offers import Offer


@dataclass(frozen=True, slots=True)
class Command:
    """A command by where it is, with what ``optim --help`` says about it."""

    path: str
    help: str


COMMANDS: Mapping[str, Command] = {
    "run": Command("optim._engine.cli.verbs.run:run", "Optimize a model and leave a folder to deploy."),
    "export": Command(
        "optim._engine.cli.verbs.export:export", "Turn a torch module or a model folder into verified ONNX."
    ),
    "merge-decoders": Command(
        "optim._engine.cli.verbs.merge_decoders:merge_decoders",
        "Make one file of a decoder without and one with a past.",
    ),
    "verify": Command("optim._engine.cli.verbs.verify:verify", "Compare two models on the same feeds."),
    "bench": Command("optim._engine.cli.verbs.bench:bench", "Time models against each other on the real backend."),
    "sensitivity": Command("optim._engine.cli.verbs.sensitivity:sensitivity", "Show which nodes cost how much drift."),
    "inspect": Command("optim._engine.cli.verbs.inspect:inspect", "Describe a model: inputs, operators, weights."),
    "metrics": Command("optim._engine.cli.verbs.metrics:metrics", "List the task metrics, with their options."),
    "targets": Command("optim._engine.cli.verbs.targets:targets", "List where models can run."),
    "passes": Command("optim._engine.cli.verbs.passes:passes", "List the passes, or show one."),
    "plugins": Command("optim._engine.cli.verbs.plugins:plugins", "List the plugins, or show one."),
    "cache": Command("optim._engine.cli.verbs.cache:cache", "Show or prune what earlier runs left."),
    "completion": Command("optim._engine.cli.verbs.completion:completion", "Print the completion script for a shell."),
}


class OptimGroup(click.Group):
    """Ours from the table above, and what plugins add by ``optim_commands``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Our own commands, in the order of a user's work, then the plugins'."""
        del ctx
        return [*COMMANDS, *_added()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; plugins are only looked up for a name that is not ours."""
        del ctx
        if cmd_name in COMMANDS:
            return _import(COMMANDS[cmd_name].path)
        offer = _added().get(cmd_name)
        return _import_added(offer) if offer else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but an unknown name lists the near ones."""
        command = self.get_command(ctx, args[0])
        if command is not None:
            return args[0], command, args[1:]
        if args[0].startswith("-"):
            raise click.NoSuchOption(args[0], ctx=ctx)
        raise unknown_name("command", args[0], self.list_commands(ctx), fix="optim --help")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing one."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])
        added = _added()
        if added:
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(verb, f"From plugin {offer.plugin}.") for verb, offer in added.items()])


def _added() -> Mapping[str, Offer]:
    from optim._engine.plugins.registry import load_registry

    return load_registry().commands()


def _import(path: str) -> click.Command:
    module, _, name = path.partition(":")
    command = getattr(importlib.import_module(module), name)
    if not isinstance(command, click.Command):
        raise TypeError(f"{path} is no click command")
    return command


def _import_added(offer: Offer) -> click.Command:
    """A plugin's command.

    Raises:
        OptimError[plugin-failed]: it cannot be imported; the plugin is at fault.
    """
    from optim._engine.plugins.stdout import stdout_on_stderr
    from optim.errors import describe_exception

    try:
        with stdout_on_stderr():
            return _import(offer.value)
    except (Exception, SystemExit) as error:
        raise OptimError(
            "plugin-failed",
            f"command {offer.name} cannot be loaded",
            f"{offer.value}: {describe_exception(error)}",
            f"optim plugins show {offer.plugin.name}",
            offer.plugin.release,
            ExitStatus.USAGE,
        ) from error
