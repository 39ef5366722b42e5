"""Whether a pass can be put in order, alone and with the passes that are installed."""

from __future__ import annotations

import re
from abc import ABCMeta
from typing import Any, cast

from optim._engine.plugins.offers import OfferedPass
from optim._engine.plugins.ordering import order
from optim._engine.plugins.plugin import PluginInfo
from optim._engine.plugins.registry import load_registry
from optim.errors import OptimError
from optim.passes import Pass, Stage
from optim.source_passes import AnyPass
from optim.target import Target

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*|:\*)")


def order_defect(pass_class: AnyPass, stage: Stage, target: Target) -> str:
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
