"""Decoders: metadata of their graphs, and the object that ``optim.load`` returns for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.decoders.conventions import KEPT_LOGITS as KEPT_LOGITS
    from optim.decoders.conventions import LOGITS as LOGITS
    from optim.decoders.conventions import name_shared_past as name_shared_past
    from optim.decoders.decoder import Decoder as Decoder
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
