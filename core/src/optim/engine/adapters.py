"""For plugin ``adapters`` of optim-plugins: what its files need of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.feeds.archives import read_archive as read_archive
    from optim._engine.feeds.archives import write_archive as write_archive
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
