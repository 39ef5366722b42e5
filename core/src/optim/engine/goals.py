"""For plugin ``goals`` of optim-plugins: what timing the answers of a decoder needs of the engine.

Each name is imported when it is first used: every run loads the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.backends.own_session import bindable as bindable
    from optim._engine.generation.decoder import session_interface as session_interface
    from optim._engine.generation.known_decoders import require_decoder as require_decoder
    from optim._engine.generation.known_decoders import require_generating as require_generating
    from optim._engine.generation.timing import WorkloadTimer as WorkloadTimer
    from optim._engine.generation.workload import Workload as Workload
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
