"""Layouts: how a delivered model lies on disk for programs that are not optim's."""

from __future__ import annotations

from optim.layout.contract import Laid, Layout, Result
from optim.layout.placing import place_graph, require_provider
from optim.layout.settings import disabled_as_config

__all__ = ["Laid", "Layout", "Result", "disabled_as_config", "place_graph", "require_provider"]
