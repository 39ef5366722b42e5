"""What every kit of a stage asks: a name that fits, options with words, an order that resolves, light imports."""

from __future__ import annotations

import re
from abc import ABCMeta
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import pytest

from optim.engine.testing import OfferedPass, PluginInfo, load_registry, order, pass_defect
from optim.errors import OptimError
from optim.options import PassOptions, options_class
from optim.passes import Pass, Stage
from optim.providers import CPU
from optim.source_passes import AnyPass
from optim.target import Target
from optim_testing.imports import imports_of
from optim_testing.kit import Kit

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*|:\*)")


class StageConformance(Kit):
    """Common parts of ``PassConformance`` and of the kits of exporters and passes over sources.

    Attributes:
        stage: stage that the plugin offers it for.
        max_drift: largest drift that it may cause. There is no default, so that the author decides.
        options: options that have no default, or do nothing by default, as a user would write them.
    """

    stage: ClassVar[Stage]
    max_drift: ClassVar[float]
    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture
    def offered(self) -> Any:
        """The class that the plugin offers; each kit calls it by its own name."""
        raise NotImplementedError

    @pytest.fixture
    def target(self) -> Target:
        """Target that the model would run on."""
        return Target("cpu", "ort", CPU, device="CPU")

    def test_its_name_and_attributes_fit(self, offered: Any) -> None:
        """What the registry checks when a plugin offers it."""
        plugin = str(getattr(offered, "name", "")).partition(".")[0]
        defect = pass_defect(self.stage, offered, PluginInfo(plugin, "", "", ""))
        assert not defect, defect

    def test_its_options_are_documented(self, offered: Any) -> None:
        """Every option has a description."""
        require_words(offered)

    def test_its_order_can_be_resolved(self, offered: Any, target: Target) -> None:
        """Names in before and after are well formed and contradict nobody."""
        defect = _order_defect(offered, self.stage, target)
        assert not defect, defect

    def test_importing_it_loads_nothing_heavy(self, offered: Any) -> None:
        """Every command of optim imports it, and starts as late as its imports are slow."""
        heavy = imports_of(offered.__module__)
        assert not heavy, (
            f"importing {offered.__module__} loads {', '.join(heavy)}: import them inside functions, "
            "and name the options by 'module:Class'"
        )


def require_words(offered: Any) -> None:
    """Require a description of every option."""
    cls = options_class(offered)
    assert issubclass(cls, PassOptions), f"{cls.__name__} must derive from optim.PassOptions"
    bare = [name for name, one in cls.model_fields.items() if not (one.description or "").strip()]
    assert not bare, f"say in Field(description=...), with the unit, what these options are: {', '.join(bare)}"


def _order_defect(pass_class: AnyPass, stage: Stage, target: Target) -> str:
    """Why ``before`` and ``after`` cannot hold; empty where they can."""
    named = (*pass_class.before, *pass_class.after)
    strange = [name for name in named if not _NAME.fullmatch(name)]
    if strange:
        return f"{', '.join(strange)}: before and after name passes ('plugin.kebab-case') or whole plugins ('plugin:*')"
    plugin = pass_class.name.partition(".")[0]
    others = [
        offered
        for offered in load_registry().offers(target)
        if offered.stage is stage and offered.name != pass_class.name
    ]
    try:
        mine = OfferedPass(pass_class, stage, PluginInfo(plugin, "", "", ""))
        order([*others, mine, *_stand_ins(pass_class, others)])
    except OptimError as error:
        if pass_class.name in error.what:  # a quarrel among others is theirs
            return f"{error.what}: {error.cause}"
    return ""


def _stand_ins(pass_class: AnyPass, others: list[OfferedPass]) -> list[OfferedPass]:
    """Passes of plugins that are not installed, as far as this one names them, so that a contradiction still shows."""
    there = {offered.name for offered in others} | {pass_class.name}
    missing = {name for name in (*pass_class.before, *pass_class.after) if ":" not in name} - there
    return [OfferedPass(_absent(name), Stage.FUSE, PluginInfo(name.partition(".")[0], "", "", "")) for name in missing]


def _absent(name: str) -> type[Pass]:
    absent: Any = ABCMeta("Absent", (Pass,), {"name": name, "before": (), "after": ()})
    return cast(type[Pass], absent)
