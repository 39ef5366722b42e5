"""Pasts of synthesized samples, made by the decoder: it reads random tokens, and its keys and values are the past.

Noise is like no past: heads attend to it as they never do to text, so results drift by more on it than in use, and
ranges that passes find are the noise's. A decoder that takes no prompt, or returns another past than it takes, gets
noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from optim._engine.feeds.dimensions import PlannedInput
from optim._engine.feeds.roles import InputRole
from optim._engine.feeds.settings import Setting
from optim._engine.feeds.values import make_sample
from optim.arrays import Array, Feeds
from optim.decoders.conventions import carried_by_name
from optim.model import Model


class OwnPasts:
    """Gives samples the model's own past.

    Args:
        run: runs it on feeds; its outputs by name, or in the model's order. It raises where the model refuses them.

    Attributes:
        made: how many samples got one, by the name of the input.
    """

    def __init__(self, model: Model, plans: Sequence[PlannedInput], run: Callable[[Feeds], object] | None) -> None:
        pasts = [plan.info.name for plan in plans if plan.role is InputRole.PAST]
        self._outputs = [info.name for info in model.outputs]
        self._takers = carried_by_name(pasts, self._outputs) if pasts and run is not None else {}
        self._plans, self._run = plans, run
        self.made: dict[str, int] = {}

    def put_into(self, feeds: Feeds, setting: Setting, rng: np.random.Generator) -> Feeds:
        """The sample behind tokens that the model has read; as it is where there is no past, or none can be made."""
        if not self._takers or not setting.past or self._run is None:
            return feeds
        prompt = self._prompt(feeds, setting, rng)
        if any(prompt[taker].size for taker in self._takers.values()):
            return feeds  # a cache of fixed size: a step on noise is no prompt
        try:
            found = self._by_name(self._run(prompt))
        except Exception:  # whatever a runtime raises where a model takes no prompt
            self._takers = {}
            return feeds
        own = {taker: found[giver] for giver, taker in self._takers.items() if _fits(found.get(giver), feeds[taker])}
        self.made.update({taker: self.made.get(taker, 0) + 1 for taker in own})
        return {**feeds, **own}

    def _prompt(self, feeds: Feeds, setting: Setting, rng: np.random.Generator) -> Feeds:
        """As many tokens as the past has, the same of them hidden."""
        prompt = dict(make_sample(self._plans, replace(setting, length=setting.past, past=0, padded=False), rng))
        masks = [plan for plan in self._plans if plan.role is InputRole.MASK and not plan.source]
        for plan in masks:
            name = plan.info.name
            hidden = feeds[name][:, : setting.past]
            if hidden.ndim != 2 or hidden.shape != prompt[name].shape:
                continue
            prompt[name] = hidden
            counted = np.maximum(np.cumsum(hidden != 0, axis=1) - 1, 0)
            for other in self._plans:
                if other.role is InputRole.POSITIONS and prompt[other.info.name].shape == counted.shape:
                    most = np.iinfo(np.int64).max if other.rows is None else other.rows - 1
                    prompt[other.info.name] = np.minimum(counted, most).astype(prompt[other.info.name].dtype)
        return prompt

    def _by_name(self, outputs: object) -> Mapping[str, Array]:
        if isinstance(outputs, Mapping):
            return outputs
        return dict(zip(self._outputs, outputs, strict=True)) if isinstance(outputs, list | tuple) else {}


def _fits(own: Array | None, noise: Array) -> bool:
    return own is not None and own.shape == noise.shape and own.dtype == noise.dtype and bool(np.isfinite(own).all())
