"""Layouts: how a delivered model lies on disk for programs that are not optim's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.layout.contract import Laid as Laid
    from optim.layout.contract import Layout as Layout
    from optim.layout.contract import Result as Result
    from optim.layout.opening import Opened as Opened
    from optim.layout.opening import open_laid as open_laid
    from optim.layout.placing import LARGEST_GRAPH as LARGEST_GRAPH
    from optim.layout.placing import TOKENIZERS as TOKENIZERS
    from optim.layout.placing import carry_files as carry_files
    from optim.layout.placing import place_graph as place_graph
    from optim.layout.placing import require_provider as require_provider
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
