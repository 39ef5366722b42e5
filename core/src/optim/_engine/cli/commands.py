"""The commands there are, none of them imported until it is called; those of plugins come after ours."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from optim.errors import ExitStatus, OptimError, describe_exception, unknown_name
from optim.hooks import OWN_COMMANDS, RESERVED_NAMES, Command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim._engine.plugins.offers import Offer

GROUPS = {
    "Optimize": ("run", "pick", "deliver"),
    "Compare": ("verify", "bench", "outputs", "runtimes"),
    "Diagnose": ("blame", "profile", "sensitivity", "reduce", "draw", "inspect"),
    "Look up": ("passes", "targets", "metrics", "layouts", "help"),
    "Installation": ("plugins", "cache", "completion"),
}
"""Commands by heading of ``optim --help``: our own, and those of the standard plugins that are installed."""


class OptimGroup(click.Group):
    """Our own commands, each in a file of its name, and what plugins add by ``optim_commands``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Our own commands, then those of plugins."""
        return [*OWN_COMMANDS, *_added()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; plugins are only looked up for a name that is not ours.

        Raises:
            OptimError[plugin-missing]: optim's own plugin that has it is not installed.
            OptimError[plugin-failed]: that plugin cannot be used.
        """
        if cmd_name in OWN_COMMANDS:
            return _import(f"{module_of(cmd_name)}:{cmd_name}")
        from optim._engine.plugins.registry import load_registry

        registry = load_registry()
        if offer := registry.offered("command").get(cmd_name):
            return _import_added(offer)
        if owner := RESERVED_NAMES["command"].get(cmd_name):
            registry.require_plugin(owner, f"optim {cmd_name} cannot be used")
        return None

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
        """List the commands by heading, without importing one."""
        added = dict(_added())
        sections = {
            heading: [
                (verb, OWN_COMMANDS.get(verb) or _as_command(added.pop(verb)).help)
                for verb in verbs
                if verb in OWN_COMMANDS or verb in added
            ]
            for heading, verbs in GROUPS.items()
        }
        sections["Commands of plugins"] = [
            (verb, f"{_as_command(offer).help} (plugin {offer.plugin.name})".lstrip()) for verb, offer in added.items()
        ]
        width = max(len(verb) for rows in sections.values() for verb, _ in rows)
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl([(verb.ljust(width), about) for verb, about in rows])


def module_of(verb: str) -> str:
    """The module of a command of our own."""
    return f"optim._engine.cli.verbs.{verb}"


def _added() -> Mapping[str, Offer]:
    from optim._engine.plugins.registry import load_registry

    return load_registry().offered("command")


def _as_command(offer: Offer) -> Command:
    return offer.value if isinstance(offer.value, Command) else Command(offer.value)


def _import(path: str) -> click.Command:
    module, _, name = path.partition(":")
    command = getattr(importlib.import_module(module), name)
    if not isinstance(command, click.Command):
        raise TypeError(f"{path} is not a click command")
    return command


def _import_added(offer: Offer) -> click.Command:
    """A plugin's command; what it raises while it runs names the plugin.

    Raises:
        OptimError[plugin-failed]: it cannot be imported; the plugin is at fault.
    """
    from optim._engine.plugins.guard import UnrulyError, outliving
    from optim._engine.stdout import stdout_on_stderr

    try:
        with stdout_on_stderr(), outliving("its import"):
            return _named_where_it_breaks(_import(_as_command(offer).path), offer)
    except (Exception, UnrulyError) as error:
        raise OptimError.usage(
            "plugin-failed",
            f"command {offer.name} cannot be loaded",
            f"{_as_command(offer).path}: {describe_exception(error)}",
            f"optim plugins show {offer.plugin.name}",
            offer.plugin.release,
        ) from error


def _named_where_it_breaks(command: click.Command, offer: Offer) -> click.Command:
    """The same command; an exception that is no diagnosis, and nothing that the system refused, is its plugin's."""
    invoke = command.invoke

    def guarded(ctx: click.Context) -> object:
        try:
            return invoke(ctx)
        except (OptimError, click.ClickException, click.exceptions.Exit, click.Abort, OSError):
            raise
        except SystemExit as error:  # the end of a command that is a script: its status, or what went wrong
            if isinstance(error.code, str):
                click.echo(error.code, err=True)
            raise click.exceptions.Exit(error.code if isinstance(error.code, int) else int(bool(error.code))) from error
        except Exception as error:
            raise OptimError(
                "command-failed",
                f"command {offer.name} broke down",
                describe_exception(error),
                "run it as `optim --debug ...`, and report the traceback to the package below, which brings it",
                offer.plugin.release,
                ExitStatus.INTERNAL,
            ) from error

    command.invoke = guarded  # type: ignore[method-assign]  # of this instance: any class of click's
    return command
