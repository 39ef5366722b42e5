"""For plugin ``goals`` of optim-plugins: what driving decoders and timing their answers needs of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.backends.own_session import OwnSession as OwnSession
    from optim._engine.backends.own_session import bindable as bindable
    from optim.decoders.conventions import carried_by_name as carried_by_name
    from optim.decoders.conventions import file_shares_past as file_shares_past
    from optim.decoders.conventions import one_kept as one_kept
    from optim.decoders.conventions import shares_past as shares_past
    from optim.jobs.resources import free_memory_bytes as free_memory_bytes
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
