"""Adapters of a model: files of their weights, what fits which model, and sessions that run with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.adapters.adapter_file import ONNX_ADAPTER as ONNX_ADAPTER
    from optim.adapters.adapter_file import Adapter as Adapter
    from optim.adapters.adapter_file import read_adapter as read_adapter
    from optim.adapters.adapter_file import require_format as require_format
    from optim.adapters.adapter_file import write_adapter as write_adapter
    from optim.adapters.fit import not_taken as not_taken
    from optim.adapters.fit import require_fit as require_fit
    from optim.adapters.session import AdaptedSession as AdaptedSession
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
