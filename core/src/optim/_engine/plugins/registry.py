"""Everything the installed plugins offer: passes in their order, targets, backends, metrics, commands.

Plugins are asked one by one: an exception belongs to its plugin and costs only that offer. What comes back is checked
before anybody uses it; what does not fit becomes a :class:`Problem`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pluggy

from optim._engine.plugins import checks
from optim._engine.plugins.discovery import ENGINE_PARTS, discover, new_manager
from optim._engine.plugins.guard import UnrulyError, limited
from optim._engine.plugins.offers import Check, Offer, OfferedPass
from optim._engine.plugins.ordering import OrderedPass, order
from optim._engine.plugins.plugin import EnginePart, LoadedPlugin, PluginInfo, Problem, State
from optim._engine.plugins.target_settings import configured, looking_at_device
from optim._engine.stdout import stdout_on_stderr
from optim.backend import Backend
from optim.errors import ExitStatus, OptimError, describe_exception, unknown_name
from optim.hooks import RESERVED_NAMES
from optim.passes import Stage
from optim.target import Target

T = TypeVar("T")


def load_registry(only: Collection[str] | None = None) -> Registry:
    """Load the installed plugins, or ``only`` those of these names."""
    manager = new_manager()
    return Registry(manager, discover(manager, only=only))


def require_target(registry: Registry, name: str, *, beside: bool = False, here: bool = True) -> Target:
    """The target of that name, if it can be used here.

    Args:
        registry: of the plugins.
        name: as the user wrote it, with settings.
        beside: whether it may be one that runs no ONNX model: the source of one, or only a reference.
        here: whether it must be usable on this machine.

    Raises:
        OptimError[unknown-target]: nobody offers it.
        OptimError[target-unavailable]: with the reason of its probe.
        OptimError[target-takes-no-onnx]: it runs sources, or is only a reference.
    """
    target = registry.target(name)
    if target.runs_sources and not beside:
        raise OptimError.usage(
            "target-takes-no-onnx",
            f"target {name} cannot run an ONNX model",
            "it runs the module that a model was exported from",
            f"optim bench FOLDER_OR_FACTORY --beside {name}",
        )
    if not beside and registry.is_reference_only(target):
        raise OptimError.usage(
            "target-takes-no-onnx",
            f"target {name} cannot run an ONNX model",
            "it has only outputs that count as right",
            f"optim verify MODEL --target {name} --other-target cpu",
        )
    if here and (reason := registry.unavailable(target)):
        raise OptimError(
            "target-unavailable",
            f"target {name} cannot be used on this machine",
            reason,
            "optim targets",
            status=ExitStatus.TARGET_UNAVAILABLE,
        )
    return target


class Registry:
    """What the plugins offer; a hook is asked when its answer is first needed, and once.

    Attributes:
        plugins: every plugin found, also those that cannot be used.
        problems: what was wrong with the offers asked for so far.
    """

    def __init__(self, manager: pluggy.PluginManager, plugins: Iterable[LoadedPlugin]) -> None:
        self.plugins = tuple(plugins)
        self.problems: list[Problem] = []
        self._manager = manager
        self._infos = {plugin.name: plugin.info for plugin in self.plugins if plugin.implementation is not None}
        self._passes: list[tuple[Target, list[OfferedPass]]] = []
        self._named: dict[str, dict[str, Offer]] = {}
        self._seen: Callable[[Target], Target] = lambda target: target

    def look_elsewhere(self, seen: Callable[[Target], Target]) -> None:
        """Say from now on what targets are on another machine."""
        self._seen = seen

    def offers(self, target: Target) -> list[OfferedPass]:
        """The passes of all stages for a target, by stage and then by name: not in the order they run."""
        if self.is_reference_only(target):
            return []
        for known, passes in self._passes:
            if known == target:
                return passes
        found = [
            replace(offer, value=OfferedPass(offer.value, stage, offer.plugin))
            for stage in Stage
            for offer in self._ask(stage.hook, partial(checks.pass_defect, stage), _name, target=target)
        ]
        passes = [offer.value for offer in self._without_rivals(found, "pass")]
        passes.sort(key=lambda offered: (tuple(Stage).index(offered.stage), offered.name))
        self._passes.append((target, passes))
        return passes

    def ordered(self, stage: Stage, target: Target) -> list[OrderedPass]:
        """The passes of a stage in the order they run, each with the reason for its place.

        Raises:
            OptimError[order-cycle]: what they ask for contradicts itself.
        """
        return order(offered for offered in self.offers(target) if offered.stage is stage)

    def passes(self, stage: Stage, target: Target) -> list[OfferedPass]:
        """The passes of a stage in the order they run."""
        return [place.offered for place in self.ordered(stage, target)]

    def find_pass(self, name: str, target: Target) -> OfferedPass:
        """The pass of that name.

        Raises:
            OptimError[unknown-pass]: nobody offers it; lists the near ones.
            OptimError[pass-not-for-target]: it is offered for other targets only.
            OptimError[plugin-failed]: its plugin cannot be used, or what the plugin offers under that name cannot.
        """
        offers = self.offers(target)
        for offered in offers:
            if offered.name == name:
                return offered
        self.raise_if_lost("pass", name)
        elsewhere = [other.name for other in self.targets().values() if name in map(_name, self.offers(other))]
        if elsewhere:
            raise OptimError.usage(
                "pass-not-for-target",
                f"pass {name} is not offered for target {target.name}",
                f"its plugin offers it for {', '.join(elsewhere)}",
                f"optim passes list --target {target.name}",
            )
        raise unknown_name("pass", name, map(_name, offers), fix=f"optim passes list --target {target.name}")

    def targets(self) -> dict[str, Target]:
        """All targets by name, available or not."""
        return {name: self._seen(offer.value) for name, offer in self.offered("target").items()}

    def target(self, name: str) -> Target:
        """The target of that name, which may go on with settings of it: ``qnn:soc=sm8650``.

        Raises:
            OptimError[unknown-target]: no usable plugin adds it; lists the near ones.
            OptimError[bad-target-setting]: what stands behind the colon cannot be read.
            OptimError[target-settings-failed]: its plugin broke, or hung, over what stands there.
        """
        known, colon, settings = name.partition(":")
        offer = self.offer("target", known)
        found: Target = offer.value
        chosen = configured(found, name, settings, offer.plugin) if colon else found
        return self._seen(looking_at_device(chosen, offer.plugin))

    def unavailable(self, target: Target) -> str | None:
        """The reason why a target cannot be used here, or None; a probe that raises or hangs is a reason."""
        offer = self.offered("target").get(target.name.partition(":")[0])
        try:
            with stdout_on_stderr(), limited(offer.plugin.name if offer else target.name, "its probe"):
                return target.unavailable()
        except UnrulyError as error:
            return str(error)
        except Exception as error:
            return f"its probe raised {describe_exception(error)}"

    def backend(self, name: str) -> type[Backend]:
        """The backend of that name.

        Raises:
            OptimError[unknown-backend]: no usable plugin adds it; lists the near ones.
        """
        found: type[Backend] = self.offer("backend", name).value
        return found

    def is_reference_only(self, target: Target) -> bool:
        """Whether the backend of a target opens no model; see :attr:`optim.Backend.reference_only`."""
        offer = self.offered("backend").get(target.backend)
        return offer is not None and bool(offer.value.reference_only)

    def offered(self, kind: str) -> Mapping[str, Offer]:
        """What plugins offer of a kind by name; kinds are those of the hooks ``optim_KINDs``."""
        if kind not in self._named:
            check, name_of = _KINDS[kind]
            found = self._ask(f"optim_{kind}s", check, name_of)
            kept = {offer.name: offer for offer in self._without_rivals(found, kind)}
            self._named[kind] = dict(sorted(kept.items()))
        return self._named[kind]

    def looks_after_run(self) -> list[Offer]:
        """The functions that plugins have look at a finished run, by plugin."""
        return self._ask("optim_after_run", checks.function_defect, str)

    def plugin(self, name: str) -> LoadedPlugin:
        """The plugin of that name, also if it cannot be used.

        Raises:
            OptimError[unknown-plugin]: none is installed; lists the near ones.
        """
        if (plugin := self._found(name)) is not None:
            return plugin
        raise unknown_name("plugin", name, (plugin.name for plugin in self.plugins), fix="optim plugins list")

    def _found(self, name: str) -> LoadedPlugin | None:
        return next((plugin for plugin in self.plugins if plugin.name == name), None)

    def require_plugin(self, name: str, what: str) -> None:
        """Refuse what needs one of optim's own plugins that is not there.

        Args:
            name: of the plugin.
            what: cannot be done without it.

        Raises:
            OptimError[plugin-missing]: it is not installed; says what to install.
            OptimError[plugin-failed]: it cannot be used.
        """
        plugin = self._found(name)
        if plugin is None:
            raise OptimError.usage(
                "plugin-missing",
                what,
                f"plugin {name} is not installed",
                f"in a clone of optim: pip install ./{_FOLDERS[name]}",
            )
        if plugin.implementation is None:
            raise _failed(plugin, what)

    def find_part(self, part: EnginePart[T]) -> T | None:
        """Makes what one of optim's own plugins does for core; None where no plugin does it."""
        for path in self.offered(part.kind):
            from optim.options import import_named  # pydantic takes its time

            made: T = import_named(path)()
            return made
        return None

    def part(self, part: EnginePart[T], what: str) -> T:
        """Makes what one of optim's own plugins does for core.

        Args:
            part: that a plugin does.
            what: cannot be done without it.

        Raises:
            OptimError[plugin-missing]: there is none; says what to install.
            OptimError[plugin-failed]: its plugin cannot be used.
        """
        if (made := self.find_part(part)) is not None:
            return made
        self.require_plugin(part.owner, what)
        raise OptimError.usage(
            "plugin-failed", what, f"plugin {part.owner} offers no {part.kind}", "optim plugins doctor"
        )

    def raise_if_lost(self, kind: str, name: str) -> None:
        """Say why something is not there, where that is known, better than that its name is unknown.

        Args:
            kind: ``pass``, ``target``, ``backend``, ``metric``, ``layout``, ``goal`` or ``command``.
            name: what was looked for.

        Raises:
            OptimError[plugin-failed]: the plugin of that pass cannot be used, or what it offers under that name cannot.
            OptimError[unknown-pass]: its plugin is not installed; says what to install. Also unknown-target and so on.
        """
        what = f"{kind} {name} cannot be used"
        is_pass = kind == "pass"
        owner = name.partition(".")[0] if is_pass else RESERVED_NAMES.get(kind, {}).get(name, "")
        plugin = self._found(owner)
        if is_pass and plugin is not None and plugin.implementation is None:
            raise _failed(plugin, what)
        hooks = {stage.hook for stage in Stage} if is_pass else {f"optim_{kind}s"}
        for problem in self.problems:
            if problem.subject == name and problem.hook in hooks:
                raise OptimError.usage(
                    "plugin-failed",
                    what,
                    problem.reason,
                    f"optim plugins show {problem.plugin.name}",
                    problem.plugin.release,
                )
        if owner in _FOLDERS and plugin is None:
            error = unknown_name(
                kind,  # errors: unknown-target, unknown-backend, unknown-metric, unknown-layout
                name,
                (),
                fix=f"in a clone of optim: pip install ./{_FOLDERS[owner]}",
            )
            error.cause = f"it is of plugin {owner}, which is not installed"
            raise error

    def offer(self, kind: str, name: str) -> Offer:
        """What a plugin offers of a kind under a name.

        Raises:
            OptimError[unknown-metric]: no usable plugin offers it; lists the near ones. Also unknown-target and so on.
            OptimError[plugin-failed]: what a plugin offers under that name cannot be used.
        """
        offers = self.offered(kind)
        if name in offers:
            return offers[name]
        self.raise_if_lost(kind, name)
        error = unknown_name(
            kind,  # errors: unknown-target, unknown-backend, unknown-metric, unknown-layout
            name,
            offers,
            fix=_WHERE_LISTED[kind],
        )
        for plugin in self.plugins:
            if plugin.state is State.DISABLED and _may_be_of(kind, name, plugin.name):
                error.cause = f"it is of plugin {plugin.name}, which is disabled: {plugin.reason}"
                error.fix = "optim plugins list"
                error.package = plugin.info.release
                raise error
        if not offers:
            error.cause = f"no plugin that can be used brings a {kind}"
            error.fix = "in a clone of optim: pip install ./plugins   # optim plugins list shows what is installed"
        failed = [plugin.name for plugin in self.plugins if plugin.state in {State.FAILED, State.INCOMPATIBLE}]
        if failed:
            error.cause += f"\nplugins that cannot be used: {', '.join(failed)}"
            error.fix = "optim plugins list"
        for problem in self.problems:
            if problem.hook == f"optim_{kind}s" and not problem.subject:  # what was lost has no name: it may be this
                error.cause += f"\n{problem.plugin.name}: {problem.hook}: {problem.reason}"
                error.fix = "optim plugins doctor"
        raise error

    def _ask(self, hook: str, check: Check, name_of: Callable[[Any], str], **arguments: object) -> list[Offer]:
        """Returns what every plugin returns from a hook, as far as it is sound; by plugin name."""
        offers = []
        with stdout_on_stderr():
            for info, items in self._answers(hook, arguments):
                for item in items:
                    defect = check(item, info)
                    if defect:
                        name = getattr(item, "name", "")
                        subject = name if isinstance(name, str) else ""
                        self._report(Problem(info, hook, defect, subject))
                    else:
                        offers.append(Offer(name_of(item), item, hook, info))
        return offers

    def _report(self, problem: Problem) -> None:
        """Remember a problem; the same one (a hook is asked for each target) only once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def _answers(self, hook: str, arguments: Mapping[str, object]) -> Iterator[tuple[PluginInfo, list[object]]]:
        implementations = getattr(self._manager.hook, hook).get_hookimpls()
        for implementation in sorted(implementations, key=lambda one: str(one.plugin_name)):
            info = self._infos[implementation.plugin_name]
            try:
                with limited(info.name, hook):
                    answer = implementation.function(*(arguments[name] for name in implementation.argnames))
                    items = list(answer) if isinstance(answer, Sequence) and not isinstance(answer, str) else None
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a plugin may raise anything
                why = str(error) if isinstance(error, UnrulyError) else f"raised {describe_exception(error)}"
                self._report(Problem(info, hook, why))
                continue
            if items is None:
                kind = "None" if answer is None else f"something of type {type(answer).__name__}"
                self._report(Problem(info, hook, f"returned {kind}, not a sequence"))
            else:
                yield info, items

    def _without_rivals(self, offers: list[Offer], kind: str) -> list[Offer]:
        """The offers whose name nobody else uses; of the others only that of the plugin whose own name it begins with.

        Every side is told.
        """
        kept, alike = [], defaultdict[str, list[Offer]](list)
        for offer in offers:
            alike[offer.name].append(offer)
        for offer in offers:
            rivals = [other for other in alike[offer.name] if other is not offer]
            owners = [one for one in (offer, *rivals) if _begins_with(offer.name, one.plugin.name)]
            if not rivals or owners == [offer]:
                kept.append(offer)
                continue
            if {one.plugin for one in owners} - {offer.plugin}:
                why = f"is of plugin {owners[0].plugin.name}: call it {offer.plugin.name}-..."
            else:
                others = " and ".join(f"{rival.plugin} in {rival.hook}" for rival in rivals)
                why = f"is also offered by {others}; neither is used"
            self._report(Problem(offer.plugin, offer.hook, f"{kind} {offer.name} {why}", offer.name))
        return kept


def _failed(plugin: LoadedPlugin, what: str) -> OptimError:
    """The error for what cannot be done because a plugin cannot be used."""
    return OptimError.usage(
        "plugin-failed",
        what,
        f"plugin {plugin.name} is {plugin.state}: {plugin.reason}",
        f"optim plugins show {plugin.name}",
        plugin.info.release,
    )


def _may_be_of(kind: str, name: str, plugin: str) -> bool:
    """Whether a name is one that this plugin would have, were it loaded."""
    return RESERVED_NAMES.get(kind, {}).get(name, "") == plugin or _begins_with(name, plugin)


def _begins_with(name: str, plugin: str) -> bool:
    """Whether a target or a metric is called after the plugin, as passes are; a pass's own rivals never are."""
    return name == plugin or name.startswith(f"{plugin}-")


def _name(item: Any) -> str:
    return str(item.name)


_FOLDERS = {
    **dict.fromkeys(("adapters", "cuda", "diagnose", "export", "goals", "layouts", "metrics"), "plugins"),
    **dict.fromkeys(("ort", "record", "report", "tensorrt", "torch"), "plugins"),
    **{name: f"plugins-{name}" for name in ("fleet", "inc", "openvino", "prepost", "qnn")},
}
"""The folder of a clone that has the package of each plugin that docs speak of."""

_WHERE_LISTED = {
    "target": "optim targets",
    "backend": "optim plugins list",
    "metric": "optim metrics; or package.module:function",
    "layout": "optim layouts",
}

_KINDS: dict[str, tuple[Check, Callable[[Any], str]]] = {
    "target": (checks.target_defect, _name),
    "metric": (checks.metric_defect, _name),
    "command": (checks.command_defect, checks.command_verb),
    **{kind: (partial(checks.class_defect, kind), _name) for kind in checks.BASES},
    **dict.fromkeys(ENGINE_PARTS, (checks.function_defect, str)),
}
