"""For plugin ``record`` of optim-plugins: what its answers need of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.feeds.archives import write_archive as write_archive
    from optim._engine.reports.answers import TabledAnswer as TabledAnswer
    from optim._engine.reports.schema import Part as Part
    from optim._engine.reports.words import figure_text as figure_text
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
