"""Feeds made up from the graph, where the user gives none: of the usual sizes, or of those that the user names.

Each input gets values that are plausible for what it is for, consistent with the other inputs, and every assumption
is recorded. A sample that the model refuses is left out; a model that refuses the usual sizes is tried with others.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from optim._engine.feeds.dimensions import HINTS, Measure, PlannedInput, Setting, fit_setting, plan_model, symbol_sizes
from optim._engine.feeds.feedset import SYNTHESIZED, FeedSet, FeedWriter, InputAssumption
from optim._engine.feeds.roles import InputRole
from optim._engine.feeds.settings import MOST_BYTES, NAN, Check, find_settings, refusal_of, sample_bytes
from optim._engine.feeds.values import describe_values, is_guessed, make_sample
from optim.arrays import Array, Feeds
from optim.decoders.conventions import carried_by_name
from optim.errors import OptimError, unknown_name
from optim.model import Model

SAMPLES = 8
"""Made up for a run: from four on, their spread tells what to expect of others; more take longer and tell little."""

_REFUSALS_SHOWN = 3


def synthesize_feeds(
    model: Model,
    folder: Path,
    seed: int,
    *,
    samples: int = SAMPLES,
    check: Check | None = None,
    within_s: float = math.inf,
) -> FeedSet:
    """Make up the feeds of a run.

    Args:
        model: reads its graph, no weights.
        folder: where to keep them.
        seed: the same seed gives the same feeds.
        samples: how many; the first has batch 1 and no padding, and is what latency is measured on.
        check: runs the model, to leave out what it refuses, and to give a decoder a past of its own. Without it the
            usual sizes are believed, and a decoder gets no sample without a past.
        within_s: seconds after which nothing more is looked for: there are fewer samples then.

    Raises:
        OptimError[feeds-not-found]: an input that nothing can be made up for, or every attempt was refused.
    """
    plans = plan_model(model)
    end = time.monotonic() + within_s
    settings, refused = find_settings(model, plans, seed, check, end)
    samples = samples if time.monotonic() < end else min(samples, len(settings))
    pasts = OwnPasts(model, plans, check)
    with FeedWriter(folder) as writer:
        for index in range(samples):
            setting = settings[index % len(settings)]
            feeds = make_sample(plans, setting, np.random.default_rng([seed, index]))
            if check is not None and index >= len(settings) and refusal_of(feeds, check) not in ("", NAN):
                setting, feeds = settings[0], make_sample(plans, settings[0], np.random.default_rng([seed, 0]))
            if time.monotonic() < end:
                feeds = pasts.put_into(feeds, setting, np.random.default_rng([seed, samples + index]))
            writer.add(feeds)
        used = [settings[index % len(settings)] for index in range(samples)]
        return writer.finish(SYNTHESIZED, _assumptions(plans, used, refused, pasts.made))


def sized_feeds(model: Model, sizes: Mapping[str, int], seed: int, *, number: int = 0, mask: str = "") -> Feeds:
    """One sample whose dimensions have these sizes; the others are as in feeds that are made up.

    Args:
        model: whose inputs they are.
        sizes: by the name of a dimension in the model, or by what it counts: batch, sequence, past, height, ...
        seed: of the values.
        number: of the sample; each has other values.
        mask: what the mask hides, see :class:`optim._engine.feeds.dimensions.Setting`.

    Raises:
        OptimError[unknown-dimension]: no dimension that is free has such a name.
        OptimError[conflicting-request]: two names are of one size.
        OptimError[bad-grid]: the model takes no such size, or its inputs would fill too much memory.
        OptimError[no-mask]: the model has no mask, or a past, behind which nothing can be hidden at the end.
    """
    plans = plan_model(model)
    _require_mask(plans, mask)
    named: dict[str, str] = {}
    for name in sizes:
        other = named.setdefault(_field(plans, name), name)
        if other != name:
            raise OptimError.usage(
                "conflicting-request",
                f"{other} and {name} cannot have sizes of their own",
                "inputs are made with one size for both",
                f"leave {name} out",
            )
    fields: dict[str, Any] = {field: sizes[name] for field, name in named.items()}
    fitted = fit_setting(plans, replace(Setting(), mask=mask, **fields))
    for field, name in named.items():
        at_most = getattr(fitted, field)
        if at_most != sizes[name]:
            raise _bad(f"{name} cannot be {sizes[name]}", f"the model takes {at_most}")
    if (needed := sample_bytes(plans, fitted)) > MOST_BYTES:
        text = " ".join(f"{name}={size}" for name, size in sizes.items())
        raise _bad(
            f"inputs of {text} would be too large",
            f"they take {needed >> 20} MiB, and at most {MOST_BYTES >> 20} are made",
        )
    numbers = [seed, math.prod(sizes.values()), *([number] if number else [])]
    return make_sample(plans, fitted, np.random.default_rng(numbers))


def _require_mask(plans: Sequence[PlannedInput], mask: str) -> None:
    roles = {plan.role for plan in plans}
    what = f"--mask {mask} does not fit this model"
    if mask and InputRole.MASK not in roles:
        raise OptimError.usage("no-mask", what, "none of its inputs is a mask", "leave --mask out")
    if mask == "end" and InputRole.PAST in roles:
        cause = "the new tokens of a decoder come last"
        raise OptimError.usage("no-mask", what, cause, "--mask start hides the beginning")


def _field(plans: Sequence[PlannedInput], name: str) -> str:
    """The field of a setting that gives a dimension its size."""
    free = {
        symbol: measure
        for plan in plans
        for symbol, measure in zip(plan.symbols, plan.measures, strict=True)
        if isinstance(symbol, str)
    }
    hinted = next((measure for pattern, measure in HINTS if re.search(pattern, name.lower())), None)
    measure = free.get(name) or (hinted if hinted in free.values() else None)
    if measure is not None and hasattr(Setting, measure):
        return measure
    raise unknown_name("dimension", name, sorted(free), fix="optim inspect MODEL shows the dimensions of its inputs")


def _bad(what: str, cause: str) -> OptimError:
    return OptimError.usage("bad-grid", what, cause, "leave this size out, or name another")


def _assumptions(
    plans: Sequence[PlannedInput],
    used: Sequence[Setting],
    refused: Sequence[tuple[Setting, str]],
    own: Mapping[str, int],
) -> tuple[InputAssumption, ...]:
    """What was made up, and how; ``own`` counts samples with a past that the model made, by input."""
    past = any(plan.role is InputRole.PAST for plan in plans)
    deep = sum(setting.past > 0 for setting in used)
    texts = {plan.info.name: describe_values(plan, past=past) for plan in plans}
    for name, count in own.items():
        rest = f" in {count} of {deep} samples with a past, else {texts[name]}" if count < deep else ""
        texts[name] = f"what the model keeps of random tokens{rest}"
    guessed = {plan.info.name for plan in plans if is_guessed(plan)}
    found = [InputAssumption(name, text, name in guessed) for name, text in texts.items()]
    found += _sizes_used(plans, used)
    if any(setting.padded for setting in used):
        padded = sum(setting.padded for setting in used)
        found.append(InputAssumption("", f"{padded} of {len(used)} samples are padded, the first is not"))
    for setting, why in refused[:_REFUSALS_SHOWN]:
        found.append(
            InputAssumption("", f"not used, because the model refuses it: {_sizes_text(setting)} ({why[:200]})")
        )
    return tuple(found)


def _sizes_used(plans: Sequence[PlannedInput], used: Sequence[Setting]) -> Iterator[InputAssumption]:
    """The sizes of dimensions that are not fixed; those that always agree are named together."""
    sizes = [symbol_sizes(plans, setting) for setting in used]
    measures = {symbol: measure for plan in plans for symbol, measure in zip(plan.symbols, plan.measures, strict=True)}
    groups: dict[tuple[Measure, tuple[int, ...]], list[str]] = {}
    for symbol in sizes[0]:
        groups.setdefault((measures[symbol], tuple(size[symbol] for size in sizes)), []).append(symbol)
    for (measure, values), symbols in groups.items():
        names = symbols[0] + (f" (and {len(symbols) - 1} others)" if len(symbols) > 1 else "")
        text = f"dimension {names} is {', '.join(map(str, dict.fromkeys(values)))}"
        text += ": past and new tokens together" if measure is Measure.TOTAL else ""
        yield InputAssumption("", text, guessed=measure in (Measure.HEIGHT, Measure.WIDTH))


def _sizes_text(setting: Setting) -> str:
    parts = [f"batch {setting.batch}", f"length {setting.length}"]
    parts += [f"past {setting.past}"] if setting.past else []
    parts += ["padded"] if setting.padded else []
    return ", ".join(parts)


class OwnPasts:
    """Gives samples the model's own past: it reads random tokens, and its keys and values are the past.

    Args:
        run: runs it on feeds. It raises where the model refuses them.

    Attributes:
        made: how many samples got one, by the name of the input.
    """

    def __init__(self, model: Model, plans: Sequence[PlannedInput], run: Check | None) -> None:
        pasts = [plan.info.name for plan in plans if plan.role is InputRole.PAST]
        outputs = [info.name for info in model.outputs]
        self._takers = carried_by_name(pasts, outputs) if pasts and run is not None else {}
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
            found = self._run(prompt)
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


def _fits(own: Array | None, noise: Array) -> bool:
    return own is not None and own.shape == noise.shape and own.dtype == noise.dtype and bool(np.isfinite(own).all())
