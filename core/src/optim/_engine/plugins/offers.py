"""Offers of plugins, each with its plugin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from optim._engine.plugins.plugin import PluginInfo
from optim.passes import Pass, Stage
from optim.source_passes import AnyPass


@dataclass(frozen=True, slots=True)
class OfferedPass:
    """A pass with where it comes from."""

    pass_class: AnyPass
    stage: Stage
    plugin: PluginInfo

    @property
    def name(self) -> str:
        """The name of the pass, e.g. ``ort.clean``."""
        return self.pass_class.name

    @property
    def over_models(self) -> type[Pass]:
        """Its class, of a stage that changes models.

        Raises:
            TypeError: it is of a stage before there is a model.
        """
        if not issubclass(self.pass_class, Pass):
            raise TypeError(f"{self.name} is not a pass over models")
        return self.pass_class


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that one plugin offers.

    Attributes:
        name: what users call it.
    """

    name: str
    value: Any
    hook: str
    plugin: PluginInfo


Check = Callable[[Any, PluginInfo], str]
"""Why a value that a hook returned cannot be used; empty where it can."""
