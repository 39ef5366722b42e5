"""The opener of core: what ``optim.load`` does with adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optim import AdapterInput
from optim_plugins.adapted import AdaptedSession, not_taken
from optim_plugins.adapted.session import Adapters
from optim_plugins.adapted.supply import share_out, supplied_arrays


class AdaptedOpener:
    """Opens models with adapters."""

    supplied = staticmethod(supplied_arrays)
    share_out = staticmethod(share_out)

    def adapted(self, session: Any, inputs: Sequence[AdapterInput], adapter: Adapters | None) -> AdaptedSession:
        """A session whose runs take adapters, with the one that its runs bring.

        Raises:
            OptimError[adapter-not-taken]: the model takes none.
        """
        if not inputs:
            raise not_taken("an adapter")
        found = AdaptedSession(session, inputs)
        if adapter is not None and not any(one.supplied_by for one in inputs):
            found.default = found.adapters(adapter)
        return found
