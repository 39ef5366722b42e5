"""Layouts: how a delivered model lies on disk for programs that are not optim's."""

from __future__ import annotations

from optim.layout.contract import Laid, Layout, Result
from optim.layout.placing import place_graph, require_provider
from optim.layout.settings import disabled_as_config
from optim.layout.source_files import TOKENIZERS, carry_files

__all__ = [
    "TOKENIZERS",
    "Laid",
    "Layout",
    "Result",
    "carry_files",
    "disabled_as_config",
    "place_graph",
    "require_provider",
]
