"""``optim plugins install`` and ``remove``: plugins beside optim, and the environments of isolated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from optim.cli_kit import PLUGIN_NAME, echo, json_option, print_fields, print_json
from optim.errors import OptimError, unknown_name

if TYPE_CHECKING:
    from optim.engine.installation import Environment, LoadedPlugin


@click.command()
@click.argument("what", metavar="NAME|PATH|WHEEL", type=PLUGIN_NAME)
@click.option(
    "--isolated", is_flag=True, help="Install only the plugin itself here; refuse a plugin that is not isolated."
)
@click.option(
    "--python", default="", metavar="PATH", help="Python interpreter for the environment. [default: this one]"
)
@json_option
def install(what: str, isolated: bool, python: str, as_json: bool) -> None:
    """Install a plugin. An isolated plugin gets an environment of its own.

    NAME is an installed plugin, or pip installs optim-plugin-NAME. Every other package keeps its version. The same
    command continues an interrupted installation. The environment is in the user's data folder (OPTIM_DATA_DIR).
    """
    from optim.engine.installation import load_registry
    from optim_plugins.diagnose.installation.making import install_environment
    from optim_plugins.diagnose.installation.packages import uninstall_package

    before = {one.info.package for one in load_registry().plugins}
    installed, plugins = _plugins(what, alone=isolated)
    answers = []
    for plugin in plugins:
        if plugin.isolation is None and (isolated or not installed):
            if installed and plugin.info.package not in before:  # what was there before stays
                uninstall_package(installed)
            raise OptimError.usage(
                "not-isolated",
                f"plugin {plugin.name} runs in optim's own environment",
                "it needs no other",
                f"optim plugins show {plugin.name}",
                package=plugin.info.release,
            )
        progress = None if as_json else _progress
        answers.append((plugin, install_environment(plugin.isolation, python, progress) if plugin.isolation else None))
    if as_json:
        print_json({"plugins": [_as_fields(plugin, made) for plugin, made in answers]})
        return
    for plugin, made in answers:
        _print_installed(plugin, made)


@click.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Delete the environment of an isolated plugin. The plugin itself stays installed."""
    from optim.engine.installation import installed_environments
    from optim_plugins.diagnose.installation.making import remove_environment

    known = [environment.plugin for environment in installed_environments()]
    if "/" in name or name.startswith(".") or not remove_environment(name):
        raise unknown_name("environment", name, known, fix="optim plugins list")
    if as_json:
        print_json({"removed": name})
    else:
        echo(f"removed the environment of {name}; the plugin itself stays: optim plugins show {name}")


def _plugins(what: str, *, alone: bool) -> tuple[str, list[LoadedPlugin]]:
    """The distribution, where one was installed, and the plugins."""
    from packaging.utils import canonicalize_name

    from optim.engine.installation import load_registry
    from optim_plugins.diagnose.installation.packages import PREFIX, install_package, is_package

    registry = load_registry()
    if not is_package(what) and what in {plugin.name for plugin in registry.plugins}:
        return "", [registry.plugin(what)]
    name = what if is_package(what) or what.startswith(PREFIX) else PREFIX + what
    echo(f"installing {name} beside optim", err=True)
    installed = install_package(name, alone=alone)
    found = [one for one in load_registry().plugins if canonicalize_name(one.info.package) == installed]
    if not found:
        raise OptimError.usage(
            "no-plugin-inside",
            f"{installed} was installed and brings no plugin",
            "it has no entry point in the group optim.plugins",
            f"pip uninstall {installed}",
            package=installed,
        )
    return installed, found


def _progress(done: int, steps: int, what: str) -> None:
    echo(f"[{done}/{steps}] {what}", err=True)


def _print_installed(plugin: LoadedPlugin, made: Environment | None) -> None:
    print_fields(
        [
            ("plugin", plugin.name),
            ("package", plugin.info.release),
            ("state", f"{plugin.state}: {plugin.reason}" if plugin.reason else str(plugin.state)),
            ("runs", "isolated" if made else "here"),
            ("folder", str(made.folder) if made else ""),
            ("python", made.python if made else ""),
            ("size", f"{made.size_bytes / 1e6:.0f} MB in {len(made.requirements)} packages" if made else ""),
        ]
    )


def _as_fields(plugin: LoadedPlugin, made: Environment | None) -> dict[str, object]:
    from optim.engine.installation import environment_fields

    return {
        "plugin": plugin.name,
        "package": plugin.info.package,
        "version": plugin.info.version,
        "state": str(plugin.state),
        "environment": environment_fields(made),
    }
