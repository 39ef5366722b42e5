"""How far a model's outputs are from the reference model's on the same feeds.

What the drift of an output is, :mod:`optim._engine.gate.outputs` defines. A model's drift is the worst over outputs and
samples.

A budget that is just held on eight samples is broken by every third of the next ones. Drifts of samples of one kind lie
close together, so their mean and spread tell where the next will be (:func:`foresee`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

_LEAST_SAMPLES = 4
"""Fewer show no spread: then the worst that was seen counts."""

_PROBABILITY = 0.99

FLOOR, FACTOR, CAP = 1e-4, 10.0, 1e-2
"""Rounding explains a drift below the floor, or below the factor times what was measured, but nothing above the cap."""

SCORES = re.compile("logit|score|prob|class", re.IGNORECASE)
"""Names of outputs of which the largest number of a row is the answer."""

DIFFERENCES = ("0", "1e-4", "1e-3", "1e-2", "0.1", "1")
"""Errors, in scales of the output, that elements are counted above."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The figures of a model, each of its worst output over all samples.

    Attributes:
        relative_error: unitless, >= 0; infinite where NaN or infinity appeared, or where shapes differ.
        max_abs: in the output's unit.
        cosine: of the flattened output, 1 is the same direction.
        foreseen: drift that a further sample stays below; no more than ``relative_error`` where few were seen.
    """

    relative_error: float
    max_abs: float
    cosine: float
    foreseen: float = 0.0

    def worst(self, other: Drift) -> Drift:
        """The worse of each figure."""
        return Drift(
            max(self.relative_error, other.relative_error),
            max(self.max_abs, other.max_abs),
            min(self.cosine, other.cosine),
            max(self.foreseen, other.foreseen),
        )


NO_DRIFT = Drift(0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """One output of one model against the reference; the figures are those of equal arrays where none are given.

    Attributes:
        dtype: numpy name in the candidate.
        shape: in the candidate.
        compared: elements compared; padding is left out.
        relative_error: the drift, see the module.
        cosine: of the flattened arrays.
        sqnr_db: signal to quantization noise ratio, 20 log10(||reference|| / ||difference||), in dB.
        max_ulp: largest distance in units in the last place of the larger of the two, None for other than floats.
        top1_agreement: share of rows whose largest element is at the same place, None below two columns.
        problem: what makes it incomparable or infinitely far, or empty.
        limit: drift that this output alone is held to, in place of the budget; None for most.
        each: drift of every sample, where several were compared; empty for one.
        overflowed: whether NaN or infinity appeared in an output that is as it should be otherwise.
        where: the slice whose drift is the worst; empty where it is that of the whole output.
        sample: whose drift is the worst; empty where only one was compared.
        accepted: whether the user accepts the share of elements that differ: then it does not count in a drift.
        above: elements whose error is above each of :data:`DIFFERENCES`.
        rounding_excess: how many times what rounding explains the drift is; up to 1 the outputs are equal but for it.
        mismatched: share of elements that differ, of texts and whole numbers; None for floats.
        unjudged: why an error of the usual kind could not show on these samples; empty where it could.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    compared: int = 0
    relative_error: float = 0.0
    max_abs: float = 0.0
    cosine: float = 1.0
    sqnr_db: float = math.inf
    max_ulp: float | None = None
    top1_agreement: float | None = None
    problem: str = ""
    limit: float | None = None
    each: tuple[float, ...] = ()
    overflowed: bool = False
    where: str = ""
    above: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIFFERENCES, 0))
    rounding_excess: float = 0.0
    mismatched: float | None = None
    unjudged: str = ""
    sample: str = ""
    accepted: bool = False

    @property
    def is_rounding(self) -> bool:
        """Whether rounding explains all of it."""
        return self.rounding_excess <= 1 and not self.problem

    @property
    def place(self) -> str:
        """Where the drift is the worst, for a message."""
        return f"output '{self.name}'" + (f", {self.where}," if self.where else "")

    @property
    def question(self) -> str:
        """What the drift is the answer to, e.g. ``output 'logits', column 3``."""
        if self.mismatched is not None:
            return f"output '{self.name}', {100 * self.mismatched:.3g} % of which differ"
        return self.place.rstrip(",")

    @property
    def drift(self) -> Drift:
        """The figures that the gate looks at."""
        return Drift(self.relative_error, self.max_abs, self.cosine, self.foreseen)

    @property
    def foreseen(self) -> float:
        """Drift that a further sample stays below."""
        return max(self.relative_error, foresee(self.each))

    @property
    def by_sample(self) -> tuple[float, ...]:
        """Drift of every sample."""
        return self.each or (self.relative_error,)

    def worst(self, other: OutputComparison) -> OutputComparison:
        """The same output over two samples: the worse of each figure."""
        return replace(
            self,
            compared=self.compared + other.compared,
            relative_error=max(self.relative_error, other.relative_error),
            max_abs=max(self.max_abs, other.max_abs),
            cosine=min(self.cosine, other.cosine),
            sqnr_db=min(self.sqnr_db, other.sqnr_db),
            max_ulp=_both(max, self.max_ulp, other.max_ulp),
            top1_agreement=_both(min, self.top1_agreement, other.top1_agreement),
            problem=self.problem or other.problem,
            each=(*self.by_sample, *other.by_sample),
            overflowed=self.overflowed if self.problem else other.overflowed,
            above={limit: count + other.above.get(limit, 0) for limit, count in self.above.items()},
            where=self.where if self.relative_error >= other.relative_error else other.where,
            sample=self.sample if self.relative_error >= other.relative_error else other.sample,
            rounding_excess=max(self.rounding_excess, other.rounding_excess),
            mismatched=_both(max, self.mismatched, other.mismatched),
            unjudged=self.unjudged or other.unjudged,
            accepted=self.accepted and other.accepted,
        )


def _held_to_the_budget(comparisons: Iterable[OutputComparison]) -> list[OutputComparison]:
    """Outputs without a limit of their own, and without a mismatch that the user accepts."""
    return [one for one in comparisons if one.problem or (one.limit is None and not one.accepted)]


def worst_drift(comparisons: Iterable[OutputComparison]) -> Drift:
    """The drift of a model: the worst of every figure over the outputs that are held to the budget."""
    total = NO_DRIFT
    for comparison in _held_to_the_budget(comparisons):
        total = total.worst(comparison.drift)
    return total


def worst_question(comparisons: Iterable[OutputComparison]) -> str:
    """The question whose answer is a model's drift; empty where rounding explains every answer."""
    asked = [one for one in _held_to_the_budget(comparisons) if not one.is_rounding]
    return max(asked, key=lambda one: one.relative_error).question if asked else ""


def is_rounding(comparisons: Iterable[OutputComparison]) -> bool:
    """Whether rounding explains every output but those with a limit of their own."""
    return all(one.is_rounding for one in comparisons if one.limit is None or one.problem)


def not_judged(comparisons: Iterable[OutputComparison]) -> str:
    """Why an output could not show a difference on these samples; empty where all could."""
    reasons = [f"output '{one.name}': {one.unjudged}" for one in comparisons if one.unjudged]
    return f"{'; '.join(reasons)}; give --data on which this output differs" if reasons else ""


def merge_samples(
    total: Mapping[str, OutputComparison], sample: Iterable[OutputComparison]
) -> dict[str, OutputComparison]:
    """Fold one sample's comparisons into the worst so far, by output."""
    merged = dict(total)
    for comparison in sample:
        merged[comparison.name] = merged[comparison.name].worst(comparison) if comparison.name in merged else comparison
    return merged


def foresee(values: Sequence[float]) -> float:
    """The value that one further sample stays below: see :func:`optim.drift.foresee`."""
    from statistics import NormalDist, fmean, stdev

    worst, freedom = max(values, default=0.0), len(values) - 1.0
    if len(values) < _LEAST_SAMPLES or not math.isfinite(worst):
        return worst
    # Student's t, within 2 % for three degrees of freedom and more: Abramowitz and Stegun, Handbook of Mathematical
    # Functions, 26.7.5
    z = NormalDist().inv_cdf(_PROBABILITY)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    student = z + sum(term / freedom**power for power, term in enumerate(terms, 1))
    return max(worst, fmean(values) + student * stdev(values) * math.sqrt(1 + 1 / len(values)))


def _both(choose: Callable[[float, float], float], a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return a if b is None else b
    return choose(a, b)


@dataclass(frozen=True, slots=True)
class BatchDrift:
    """How far a sample's answer moves with what it is run with: other samples in a batch, or padding.

    Attributes:
        batched: drift between a sample alone and in a batch, the worst sample and output; None where that was
            not measured.
        padded: the same between a sample as it is and padded; None likewise.
        rows: samples in the batch.
        padding: positions that were added.
        notes: why something was not measured.
    """

    batched: float | None = None
    padded: float | None = None
    rows: int = 0
    padding: int = 0
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """The greater of both; 0 where neither was measured."""
        return max(self.batched or 0.0, self.padded or 0.0)
