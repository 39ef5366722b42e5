"""What a user writes behind a target's name: ``--target qnn:soc=sm8650,fallback=cpu``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from optim._engine.plugins.checks import target_defect
from optim._engine.plugins.guard import UnrulyError, limited
from optim._engine.plugins.plugin import PluginInfo
from optim._engine.stdout import stdout_on_stderr
from optim.errors import ExitStatus, OptimError, describe_exception
from optim.target import Target

_Found = TypeVar("_Found")


def configured(target: Target, name: str, settings: str, plugin: PluginInfo) -> Target:
    """A target with what the user chose, called as the user wrote it.

    Settings are ``key=value``, with commas between. The first may be a value alone, and is then that of ``name``.

    Raises:
        OptimError[bad-target-setting]: the target has nothing to choose, or this is not a ``key=value``.
        OptimError[target-settings-failed]: the target broke, or hung, over it.
        OptimError: what the target itself says of a key or a value.
    """
    pairs = [item.partition("=") for item in settings.split(",") if item.strip()]
    is_bare = bool(pairs) and not pairs[0][1]  # ep:NAME
    if is_bare:
        pairs[0] = "name", "=", pairs[0][0]
    unreadable = _bad(f"cannot read '{name}'", f"'{settings}' is not a key=value", f"--target {target.name}:key=value")
    if target.configure is None:
        raise _bad(f"target {target.name} has no settings", f"'{settings}' was given", f"--target {target.name}")
    if not pairs or not all(key.strip() and value.strip() for key, _, value in pairs):
        raise unreadable
    values = {key.strip(): value.strip() for key, _, value in pairs}
    try:
        with stdout_on_stderr(), limited(plugin.name, "configure"):
            found = target.configure(values)
    except OptimError as error:
        if is_bare and error.reference == "unknown-target-setting":
            raise unreadable from error
        raise
    except UnrulyError as error:
        raise _failed(target, name, str(error), plugin) from error
    except Exception as error:
        raise _failed(target, name, f"configure raised {describe_exception(error)}", plugin) from error
    if defect := target_defect(found, plugin):
        raise _failed(target, name, f"configure {defect}", plugin)
    return replace(found, name=name)


def looking_at_device(target: Target, plugin: PluginInfo) -> Target:
    """A target whose looks at the device that is here are bounded in time, and name its plugin where they break."""
    return replace(
        target,
        identify=_held(target, plugin, "identify", target.identify, (str,)),
        free_memory=_held(target, plugin, "free_memory", target.free_memory, (int, type(None))),
    )


def _held(
    target: Target, plugin: PluginInfo, name: str, look: Callable[[], _Found] | None, kinds: tuple[type, ...]
) -> Callable[[], _Found] | None:
    if look is None:
        return None

    def looked() -> _Found:
        try:
            with stdout_on_stderr(), limited(plugin.name, name):
                found = look()
        except UnrulyError as error:
            raise _unknown_device(target, str(error), plugin) from error
        except Exception as error:
            raise _unknown_device(target, f"{name} raised {describe_exception(error)}", plugin) from error
        if not isinstance(found, kinds):
            raise _unknown_device(target, f"{name} returned {type(found).__name__}, not {kinds[0].__name__}", plugin)
        return found

    return looked


def _unknown_device(target: Target, cause: str, plugin: PluginInfo) -> OptimError:
    return OptimError(
        "target-device-failed",
        f"target {target.name} cannot tell which device is here",
        cause,
        "report this to the package below, which brings the target",
        plugin.release,
        ExitStatus.TARGET_UNAVAILABLE,
    )


def _failed(target: Target, name: str, cause: str, plugin: PluginInfo) -> OptimError:
    return OptimError.usage(
        "target-settings-failed",
        f"'{name}' cannot be used",
        cause,
        f"--target {target.name} without settings; report this to the package below, which brings the target",
        plugin.release,
    )


def _bad(what: str, cause: str, fix: str) -> OptimError:
    return OptimError.usage("bad-target-setting", what, cause, fix)
