"""What makes a module or an object a plugin: the hook API that it names, and hooks that exist.

pluggy accepts a misspelt hook without a word until ``check_pending``, and may leave a plugin registered whose hooks
do not fit. Here every defect of a plugin is found when it is registered, named, and its plugin unregistered.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

import pluggy

from optim import hooks as contract
from optim._engine.plugins.plugin import LoadedPlugin, PluginInfo, State
from optim.hooks import OptimHooks, hookspec

_PREFIX = "optim_"


ENGINE_PARTS = ("adapter_opener", "deliverer", "generator", "pipeline", "recorder", "renderer")
"""Parts that only distributions of this repository bring. Each is a protocol in the module that has its ``EnginePart``.
The hook ``optim_KINDs`` names classes for it. Their exchange with core may change with every release."""


@hookspec
def _classes() -> Sequence[str]:  # type: ignore[empty-body]
    """``package.module:Class`` of what does it; the first is used."""


EngineHooks = type("EngineHooks", (), {f"{_PREFIX}{kind}s": _classes for kind in ENGINE_PARTS})
_HOOKS = {name for spec in (OptimHooks, EngineHooks) for name in vars(spec) if name.startswith(_PREFIX)}


def new_manager() -> pluggy.PluginManager:
    """A plugin manager that knows optim's hooks and no plugin yet."""
    manager = pluggy.PluginManager("optim")
    manager.add_hookspecs(OptimHooks)
    manager.add_hookspecs(EngineHooks)
    return manager


def register(manager: pluggy.PluginManager, info: PluginInfo, implementation: object) -> LoadedPlugin:
    """Registers a plugin with ``manager`` if it keeps the contract; otherwise leaves no trace of it there."""
    state, reason = _check_api(implementation)
    if reason:
        return LoadedPlugin(info, state, reason)
    try:
        manager.register(implementation, info.name)
        reason = _hook_defect(manager, implementation)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        reason = reason or " ".join(str(error).split())
    except ValueError:
        return LoadedPlugin(info, State.FAILED, f"is the same object as plugin '{manager.get_name(implementation)}'")
    if reason:
        if manager.is_registered(implementation):  # which pluggy releases leave it registered differs
            manager.unregister(implementation)
        return LoadedPlugin(info, State.FAILED, reason)
    hooks = tuple(sorted(caller.name for caller in manager.get_hookcallers(implementation) or ()))
    warnings = tuple(_deprecated(implementation, hooks))
    return LoadedPlugin(info, hooks=hooks, implementation=implementation, warnings=warnings)


def _deprecated(implementation: object, hooks: tuple[str, ...]) -> Iterator[str]:
    """Yields what this plugin uses that the next hook API will not have."""
    api = getattr(implementation, "OPTIM_HOOK_API", contract.HOOK_API)
    if api < contract.HOOK_API:
        yield f"was written for hook API {api}, which the next minor release refuses: it is {contract.HOOK_API} now"
    for name in hooks:
        if name in contract.DEPRECATED_HOOKS:
            yield f"{name} goes with hook API {contract.HOOK_API + 1}: {contract.DEPRECATED_HOOKS[name]}"


def _check_api(implementation: object) -> tuple[State, str]:
    if inspect.isclass(implementation):
        return State.FAILED, f"its entry point names the class {implementation.__name__}: name an instance or a module"
    api = getattr(implementation, "OPTIM_HOOK_API", None)
    if api is None:
        return State.FAILED, f"does not say OPTIM_HOOK_API = {contract.HOOK_API}, the hook API that it was written for"
    if type(api) is not int:
        return State.FAILED, f"OPTIM_HOOK_API must be a whole number, not {api!r}"
    if not contract.OLDEST_HOOK_API <= api <= contract.HOOK_API:
        older = "an older" if api < contract.HOOK_API else "a newer"
        return State.INCOMPATIBLE, f"was written for {older} hook API, {api}; this optim has {contract.HOOK_API}"
    return State.OK, ""


def _hook_defect(manager: pluggy.PluginManager, implementation: object) -> str:
    """Returns why a registered plugin's functions are not the hooks it meant, or nothing."""
    callers = manager.get_hookcallers(implementation) or []
    for name in sorted(caller.name for caller in callers):
        if name not in _HOOKS:
            return _misspelt(name)
    for caller in callers:
        for found in caller.get_hookimpls():
            if found.plugin is implementation and (found.wrapper or found.hookwrapper):
                return f"{caller.name} is a hook wrapper; optim calls hooks one by one, so there is nothing to wrap"
    return _undecorated(manager, implementation)


def _undecorated(manager: pluggy.PluginManager, implementation: object) -> str:
    for name in dir(implementation):
        if not name.startswith(_PREFIX) or not inspect.isroutine(getattr(implementation, name, None)):
            continue
        if manager.parse_hookimpl_opts(implementation, name) is None:
            return f"{name} lacks the decorator optim.hookimpl" if name in _HOOKS else _misspelt(name)
    return ""


def _misspelt(name: str) -> str:
    import difflib  # only a defect needs it

    near = difflib.get_close_matches(name, sorted(_HOOKS), n=1)
    return f"there is no hook {name}" + (f"; did you mean {near[0]}?" if near else "")
