"""Which of the installed plugins may be loaded at all; one that may not is listed as disabled and never imported.

- ``OPTIM_DISABLE_PLUGINS=ort,qnn``, or ``optim --disable-plugin ort``: all but these.
- ``OPTIM_ALLOW_PLUGINS=ort,optim-plugin-qnn/qnn``: only these, by name, or by package and name.
- ``plugins.toml`` with ``allow = ["ort"]`` in the machine's configuration folder (``/etc/xdg/optim`` on Linux): the
  same for every user of a locked-down machine. What a user allows on top of it stays disabled, and no variable of the
  environment moves it. It keeps a plugin that somebody installed from being imported; who may run any Python of their
  own is not held by it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from optim._engine.plugins.plugin import PluginInfo
from optim.errors import OptimError

DISABLE_VARIABLE = "OPTIM_DISABLE_PLUGINS"
"""Environment variable: plugins that optim must not import: ``name,name``."""

_ALLOW_VARIABLE = "OPTIM_ALLOW_PLUGINS"
"""Environment variable: the only plugins that optim may import: ``name,package/name``. The variable cannot add a plugin
that the file ``plugins.toml`` of the machine leaves out."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What may be loaded.

    Attributes:
        disabled: names that may not.
        allowed: by who says so, what alone may; every one of these lists must have a plugin.
    """

    disabled: frozenset[str]
    allowed: tuple[tuple[str, frozenset[str]], ...]

    def refusal(self, plugin: PluginInfo) -> str:
        """Returns why a plugin may not be loaded, or nothing."""
        if plugin.name in self.disabled:
            return f"by {DISABLE_VARIABLE}"
        names = {plugin.name, f"{plugin.package}/{plugin.name}"}
        return next((f"not allowed by {origin}" for origin, allowed in self.allowed if not names & allowed), "")


def current_permission() -> Permission:
    """Returns what the environment and the machine's configuration say.

    Raises:
        OptimError[bad-allow-list]: the configuration cannot be read: nothing is allowed by mistake.
    """
    path = allow_file()
    names = _read(path)
    allowed = [] if names is None else [(str(path), frozenset(names))]
    if _ALLOW_VARIABLE in os.environ:
        allowed.append((_ALLOW_VARIABLE, _split(_ALLOW_VARIABLE)))
    return Permission(disabled_names(), tuple(allowed))


def disable(names: Iterable[str]) -> None:
    """Disable plugins for this process and every process that it starts."""
    os.environ[DISABLE_VARIABLE] = ",".join(sorted({*disabled_names(), *names}))


def disabled_names() -> frozenset[str]:
    """Names of plugins that the environment disables, installed or not."""
    return _split(DISABLE_VARIABLE)


def allow_file() -> Path:
    """Returns where a machine's own allow list lies: not where ``XDG_CONFIG_DIRS`` says, which any user may set."""
    if sys.platform == "win32":
        from platformdirs import site_config_path

        return site_config_path("optim", appauthor=False) / "plugins.toml"
    folder = "/Library/Application Support" if sys.platform == "darwin" else "/etc/xdg"
    return Path(folder, "optim", "plugins.toml")


def _split(variable: str) -> frozenset[str]:
    return frozenset(name.strip() for name in os.environ.get(variable, "").split(",") if name.strip())


def _read(path: Path) -> list[str] | None:
    """The names in the file; None where there is no file. One that may not be read is not taken for none."""
    try:
        text = path.read_text(encoding="utf-8")
        import tomllib  # few machines have the file, and every command comes here

        allow = tomllib.loads(text)["allow"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, RecursionError) as error:
        cause = "it has no key 'allow'" if isinstance(error, KeyError) else str(error)
        raise _bad_list(path, cause) from error
    if not isinstance(allow, list) or not all(isinstance(name, str) for name in allow):
        raise _bad_list(path, f"'allow' must be a list of names, not {allow!r}")
    return allow


def _bad_list(path: Path, cause: str) -> OptimError:
    return OptimError.usage(
        "bad-allow-list", f"the list of allowed plugins, {path}, cannot be used", cause, 'allow = ["ort"]'
    )
