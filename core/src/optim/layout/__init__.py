"""Layouts: how a delivered model lies on disk for programs that are not optim's."""

from __future__ import annotations

from optim.layout.contract import Laid, Layout, Result
from optim.layout.placing import place_graph, require_provider

__all__ = ["Laid", "Layout", "Result", "place_graph", "require_provider"]
