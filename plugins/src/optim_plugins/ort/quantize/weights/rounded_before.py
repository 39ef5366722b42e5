"""Weights that were rounded by samples before: a repair applies the pass again and again, with other nodes kept.

What a product is given is measured in the model as it was, so the weights of those that are not kept come out the same
each time, and rounding them is most of what applying the pass takes.
"""

from __future__ import annotations

from typing import TypeAlias

from optim import Context, MeasuringContext, Model
from optim_plugins.ort.quantize.weights.block_plan import Rounding
from optim_plugins.ort.quantize.weights.block_weights import BlockWeight

Known: TypeAlias = dict[tuple[str, str, bool, Rounding], BlockWeight | None]
"""By the product's name, the weight's, whether it is transposed, and how it is rounded."""


class RoundedBefore:
    """Those of one model, as long as it is measured; another model's take their place."""

    def __init__(self) -> None:
        self._digest = ""
        self._known: Known = {}

    def of(self, model: Model, context: Context) -> Known:
        """Returns what is known of a model, to be added to; nothing is kept where the pass is applied once."""
        if not isinstance(context, MeasuringContext):
            return {}
        if model.digest != self._digest:
            self._digest, self._known = model.digest, {}
        return self._known
