"""``optim plugins``: what is installed, what it provides, what failed and why."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

import click

from optim.cli_kit.names import PLUGIN_NAME
from optim.cli_kit.output import echo, json_option, print_fields, print_json, print_table
from optim.errors import OptimError, describe_exception, some_of

if TYPE_CHECKING:
    from optim._engine.plugins.survey import SurveyedPlugin
    from optim.isolation.environments import Environment

_ADDED = "optim.plugins.commands"
"""Entry points of this group are commands of ``optim plugins`` from other distributions of this repository."""

_DISTRIBUTIONS = {
    "doctor": ("plugins", "Find what is wrong with this installation"),
    "install": ("plugins", "Install a plugin"),
    "new": ("testing", "Write the package of a new plugin"),
    "remove": ("plugins", "Delete the environment of an isolated plugin"),
}
"""Folders of the distributions that have these commands, and what the commands do."""

_STYLES = {
    "failed": "red",
    "incompatible": "red",
    "unavailable": "yellow",
    "not-installed": "yellow",
    "disabled": "dim",
}


class _PluginsGroup(click.Group):
    """Commands of core, and those that another distribution adds."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names; also those of distributions that are not installed."""
        added = importlib.metadata.entry_points(group=_ADDED).names
        return sorted({*super().list_commands(ctx), *added, *_DISTRIBUTIONS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command of another distribution only if it is called or listed."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        for entry in importlib.metadata.entry_points(group=_ADDED, name=cmd_name):
            try:
                command: click.Command = entry.load()
            except Exception as error:  # of another version than core, or half of it is there
                not_loaded = OptimError.usage(
                    "plugin-failed",
                    f"command plugins {cmd_name} cannot be loaded",
                    f"{entry.value}: {describe_exception(error)}",
                    "install optim-core and the package below at the same version",
                    entry.dist.name if entry.dist else "",
                )
                return _stand_in(cmd_name, "It cannot be loaded.", not_loaded)
            return command
        if cmd_name not in _DISTRIBUTIONS:
            return None
        folder, does = _DISTRIBUTIONS[cmd_name]
        missing = OptimError.usage(
            f"{folder}-missing",  # errors: plugins-missing, testing-missing
            f"optim plugins {cmd_name} is a command of optim-{folder}",
            f"optim-{folder} is not installed",
            f"in a clone of optim: pip install ./{folder}",
        )
        about = f"{does}; needs optim-{folder}.\n\nIn a clone of optim: pip install ./{folder}"
        return _stand_in(cmd_name, about, missing)


def _stand_in(name: str, about: str, error: OptimError) -> click.Command:
    """Returns a command that is listed, and raises the error whatever it is given."""

    @click.command(name, help=about, context_settings={"ignore_unknown_options": True})
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def refused(words: tuple[str, ...]) -> None:
        raise error

    return refused


@click.group(cls=_PluginsGroup)
def plugins() -> None:
    """List, show, check, install and create plugins."""


@plugins.command("list")
@json_option
@click.option("--verbose", is_flag=True, help="Also print where each plugin comes from, its hooks and its passes.")
def list_command(as_json: bool, verbose: bool) -> None:
    """List the installed plugins. A plugin that cannot be used has its reason in column state."""
    print_plugins(as_json=as_json, verbose=verbose)


@plugins.command("show")
@click.argument("name", type=PLUGIN_NAME)
@json_option
@click.pass_context
def show_command(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show everything about one plugin."""
    from optim._engine.plugins.registry import load_registry
    from optim._engine.plugins.survey import survey_plugins

    registry = load_registry()
    registry.plugin(name)
    found = [one for one in survey_plugins(registry) if one.plugin.name == name]
    if as_json:
        print_json({"plugins": [_as_fields(one) for one in found]})
        return
    debug = bool(ctx.find_root().params.get("debug"))
    for one in found:
        _print_plugin(one, debug=debug)


def print_plugins(*, as_json: bool, verbose: bool) -> None:
    """Print the list of plugins; ``optim --plugins list`` comes here too."""
    from optim._engine.plugins.registry import load_registry
    from optim._engine.plugins.survey import survey_plugins

    found = survey_plugins(load_registry())
    if as_json:
        print_json({"plugins": [_as_fields(one) for one in found]})
    elif not found:
        echo("no plugin is installed; in a clone of optim: pip install ./plugins")
    elif verbose:
        for one in found:
            _print_plugin(one, debug=False)
    else:
        rows = [_row(one) for one in found]
        print_table(
            ("plugin", "package", "runs", "hooks", "passes", "targets", "state"),
            rows,
            styles=[_STYLES.get(one.plugin.state, "") for one in found],
        )
        _print_problems(found)
        _print_environments(found)


def _print_environments(found: list[SurveyedPlugin]) -> None:
    """Environments of plugins that are gone, and of other versions of a runtime; and how to remove them."""
    from optim.isolation.environments import installed_environments

    for left in installed_environments():
        if left.plugin not in {one.plugin.name for one in found}:
            holds = some_of(left.requirements, 2)
            echo(f"\nno plugin above has this environment: {left.plugin} ({_size(left)}, with {holds})")
            echo(f"  to remove it: optim plugins remove {left.plugin}")


def _size(environment: Environment) -> str:
    return f"{environment.size_bytes / 1e6:.0f} MB"


def _row(one: SurveyedPlugin) -> tuple[str, ...]:
    hooks = (hook.removeprefix("optim_").replace("_", "-") for hook in one.plugin.hooks)
    passes = (item.offered.name.partition(".")[2] for item in one.passes)
    plugin = one.plugin
    return (
        plugin.name,
        plugin.info.release,
        _runs(one),
        ", ".join(hooks),
        ", ".join(passes),
        ", ".join(one.names["targets"]),
        f"{plugin.state}: {plugin.reason}" if plugin.reason else str(plugin.state),
    )


def _runs(one: SurveyedPlugin) -> str:
    if one.runs != "isolated":
        return one.runs
    return f"isolated, {_size(one.environment)}" if one.environment else "isolated, not made"


def _print_problems(found: list[SurveyedPlugin]) -> None:
    problems = [str(problem) for one in found for problem in one.problems]
    warnings = [f"{one.plugin.info}: {warning}" for one in found for warning in one.plugin.warnings]
    for heading, lines in (("not used", problems), ("warnings", warnings)):
        if lines:
            echo(f"\n{heading}:")
            for line in lines:
                echo(f"  {line}")


def _print_plugin(one: SurveyedPlugin, *, debug: bool) -> None:
    info = one.plugin.info
    print_fields(
        [
            ("plugin", info.name),
            ("package", info.release + (", editable" if info.editable else "")),
            ("entry point", info.entry_point),
            ("location", info.location),
            ("runs", _runs(one)),
            ("environment", _environment(one.environment)),
            ("state", str(one.plugin.state)),
            ("reason", one.plugin.reason),
            ("hooks", ", ".join(one.plugin.hooks)),
            ("passes", "\n".join(_pass_lines(one))),
            *((kind, ", ".join(names)) for kind, names in one.names.items() if names),
            ("not used", "\n".join(f"{problem.hook}: {problem.reason}" for problem in one.problems)),
            ("warning", "\n".join(one.plugin.warnings)),
            ("traceback", one.plugin.traceback.rstrip() if debug else ""),
        ]
    )
    echo()


def _environment(made: Environment | None) -> str:
    if made is None:
        return ""
    versions = (requirement.replace("==", " ") for requirement in made.requirements)
    return f"{made.folder}\nPython {made.python}, {_size(made)}\n{', '.join(versions)}"


def _pass_lines(one: SurveyedPlugin) -> list[str]:
    lines = []
    for item in sorted(one.passes, key=lambda item: item.running):
        place = f", place {item.place}" if item.place else ""
        lines.append(f"{item.offered.name} ({item.offered.stage}{place})")
        for side in ("before", "after"):
            names = getattr(item.offered.pass_class, side)
            marked = [f"{name} (not there)" if name in item.unresolved else name for name in names]
            lines += [f"  {side} {', '.join(marked)}"] if names else []
    return lines


def _as_fields(one: SurveyedPlugin) -> dict[str, object]:
    info = one.plugin.info
    return {
        "name": info.name,
        "package": info.package,
        "version": info.version,
        "entry_point": info.entry_point,
        "location": info.location,
        "editable": info.editable,
        "runs": one.runs,
        "environment": environment_fields(one.environment),
        "state": str(one.plugin.state),
        "reason": one.plugin.reason,
        "warnings": list(one.plugin.warnings),
        "hooks": list(one.plugin.hooks),
        "passes": [item.offered.name for item in one.passes],
        "unresolved": {item.offered.name: list(item.unresolved) for item in one.passes if item.unresolved},
        **{kind: list(names) for kind, names in one.names.items()},
        "problems": [{"hook": problem.hook, "reason": problem.reason} for problem in one.problems],
    }


def environment_fields(made: Environment | None) -> dict[str, object] | None:
    """An environment as ``--json`` gives it."""
    if made is None:
        return None
    return {
        "folder": str(made.folder),
        "python": made.python,
        "size_bytes": made.size_bytes,
        "requirements": list(made.requirements),
    }
