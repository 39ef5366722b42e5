"""What every kit asks of what is offered in a stage: a name that fits, options with words, an order that resolves."""

from __future__ import annotations

from typing import Any

from optim._engine.plugins.checks import pass_defect
from optim._engine.plugins.plugin import PluginInfo
from optim.options import PassOptions, options_class
from optim.passes import Stage
from optim.target import Target
from optim.testing.ordering import order_defect


def require_name(offered: Any, stage: Stage) -> None:
    """Require what the registry checks when a plugin offers it."""
    plugin = str(getattr(offered, "name", "")).partition(".")[0]
    defect = pass_defect(offered, stage, PluginInfo(plugin, "", "", ""))
    assert not defect, defect


def require_words(offered: Any) -> None:
    """Require a description of every option."""
    cls = options_class(offered)
    assert issubclass(cls, PassOptions), f"{cls.__name__} must derive from optim.PassOptions"
    bare = [name for name, one in cls.model_fields.items() if not (one.description or "").strip()]
    assert not bare, f"say in Field(description=...), with the unit, what these options are: {', '.join(bare)}"


def require_order(offered: Any, stage: Stage, target: Target) -> None:
    """Require names in before and after that are well formed and contradict nobody."""
    defect = order_defect(offered, stage, target)
    assert not defect, defect
