"""Fits what a step is expected to gain from recorded runs, and says whether a search would do better with it.

    python benchmarks/search/fit_priors.py --out priors.json         # fits, evaluates, prints the tables
    python benchmarks/search/fit_priors.py --no-replay               # without the regret of a search that goes by a fit
    python benchmarks/search/fit_priors.py --only drift              # the chance to keep within a drift budget alone

For each pass, and each of its options beside the names of nodes, the *gain* is the logarithm of the latency without the
step to that with it. It is fitted as a mean that is shrunk towards that of the stage, on the kernels of a processor,
with the share of multiplications that are products as the one feature: three figures for each pass. The JSON names
them, with the spread, the drift that the step had, and the models and processors that they come from.

The *growth* of a lossy model is its drift on all samples to that on the few that it was explored on. The chance that
it grows by a factor ``g`` or more is ``g ** -tail``, as the search has it. The tail is fitted; each model counts once.
It is judged by the chance to keep within a budget of 1.05 to 3 times the drift on few samples.

*Leaving out* fits on all traces but those of one model, or one processor, and judges on these. The regret is that of
``regret.py`` on recorded rounds; there the fit of gains takes the place of the gain by kernels and of the guess by
stage, and the fit of growths that of the tail.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

from regret import TRACES, _subject, _trace, proven, row_of, verdict_of
from trace_file import Trace

from optim._engine.gate.drift import OutputComparison, worst_drift
from optim._engine.jobs.offer import Proposal
from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.promise import GUESSES
from optim._engine.search.plan import Planned
from optim._engine.search.select import selection
from optim._engine.search.select.repair import Guess
from optim._engine.search.state import Candidate
from optim.jobs.wire import from_wire
from optim.passes import Stage

_OF_NODES = frozenset({"keep", "finer", "leave_out"})
"""Options that name nodes or patterns of one model."""

_SHRINK = 2.0
"""Observations of other models that a mean of the wider group counts for."""

_TIMES = (1.05, 1.1, 1.25, 1.5, 2.0, 3.0)
"""Budgets that the chance is judged by, to the drift on few samples."""

_LEAST_CHANCE = 0.01
"""A chance of 0 or 1 would have an infinite loss if it is wrong."""

MOST_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Observation:
    """The gain of one step on one model.

    Attributes:
        model: name of the trace's model.
        kernels: of the processor: ``avx2`` or ``avx512-vnni``.
        stage: of the pass.
        name: of the pass.
        options: as text, without names of nodes.
        products: share of the multiplications that are products, 0..1.
        gain: logarithm of the latency without the step to that with it.
        drift: that it had.
    """

    model: str
    kernels: str
    stage: str
    name: str
    options: str
    products: float
    gain: float
    drift: float


@dataclass
class Fit:
    """Expectations of steps.

    Attributes:
        of_stage: mean gain by stage and kernels.
        of_pass: mean gain, change with the share of products, spread, and mean drift, by pass and kernels.
        of_options: the mean gain beside that of the pass, by pass, kernels and options.
        models: that it was fitted on.
        kernels: of the processors.
        tail: of the growth of drift from few samples to all.
    """

    of_stage: dict[str, float] = field(default_factory=dict)
    of_pass: dict[str, list[float]] = field(default_factory=dict)
    of_options: dict[str, float] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    tail: float = 0.0

    def gain(self, stage: str, name: str, options: str, kernels: str, products: float) -> float | None:
        """The gain to expect; None for a stage that no trace has."""
        stages = [self.of_stage[key] for key in (f"{stage}|{kernels}", stage) if key in self.of_stage]
        known = self.of_pass.get(f"{name}|{kernels}") or self.of_pass.get(name)
        if known is None:
            return stages[0] if stages else None
        beside = self.of_options.get(f"{name}|{kernels}|{options}", self.of_options.get(f"{name}|{options}", 0.0))
        return known[0] + known[1] * (products - known[4]) + beside


def kernels_of(trace: Trace) -> str:
    """The class of the processor."""
    return "avx512-vnni" if "avx512_vnni" in trace.header["machine"]["instruction_sets"] else "avx2"


def options_of(options: Mapping[str, object]) -> str:
    """Options as text, without names of nodes."""
    return json.dumps({name: value for name, value in sorted(options.items()) if name not in _OF_NODES})


def _products(trace: Trace) -> float:
    works = [one["answer"].get("work", {}) for one in trace.actions if one["name"] == "ingest" and "answer" in one]
    counted = [one["answer"]["shares"] for one in trace.actions if one["name"] == "work_job" and "answer" in one]
    found = (counted or works or [{}])[-1]
    return float(found.get("MatMul", 0.0))


def _ratio_of(row: Mapping[str, Any]) -> float | None:
    """Latency ratio of a row; traces before December 2026 have it without its interval."""
    timing = row.get("timing")
    return timing["value"] if timing else row.get("ratio")


def observations(paths: Iterable[Path]) -> list[Observation]:
    """One for each pass, its options and each model on a processor: the mean of what the traces say."""
    found: dict[tuple[str, ...], list[tuple[float, float, float]]] = defaultdict(list)
    for path in paths:
        trace = _trace(path)
        for row in trace.end["rows"]:
            step, ratio = row["step"], _ratio_of(row)
            if not ratio or not row["parent_ratio"] or row["behind"] or step["role"] != "improve":
                continue
            if step["options"].get("keep") or step["options"].get("finer"):
                continue
            drift = (row["drift"] or {}).get("relative_error") or 0.0
            gain = -math.log(ratio / row["parent_ratio"])
            model = path.stem.partition("-0.")[0].partition("-lossless")[0]
            key = (model, kernels_of(trace), step["stage"], step["pass_name"], options_of(step["options"]))
            found[key].append((gain, min(drift, 10.0), _products(trace)))
    return [
        Observation(*key, products=those[0][2], gain=mean(one[0] for one in those), drift=mean(one[1] for one in those))
        for key, those in sorted(found.items())
    ]


def fit(rows: Sequence[Observation]) -> Fit:
    """Means from wide to narrow, each shrunk towards the wider one."""
    result = Fit(models=sorted({one.model for one in rows}), kernels=sorted({one.kernels for one in rows}))

    def group(key: Callable[[Observation], str]) -> dict[str, list[Observation]]:
        found: dict[str, list[Observation]] = defaultdict(list)
        for one in rows:
            found[key(one)].append(one)
        return found

    overall = mean(one.gain for one in rows)
    for key, those in (group(lambda one: one.stage) | group(lambda one: f"{one.stage}|{one.kernels}")).items():
        result.of_stage[key] = _shrunk([one.gain for one in those], overall)
    for key, those in (group(lambda one: one.name) | group(lambda one: f"{one.name}|{one.kernels}")).items():
        wider = result.of_pass.get(key.partition("|")[0], [result.of_stage[those[0].stage]])[0]
        centre = mean(one.products for one in those)
        level = _shrunk([one.gain for one in those], wider)
        spread_of_products = sum((one.products - centre) ** 2 for one in those)
        covariance = sum((one.products - centre) * (one.gain - level) for one in those)
        slope = covariance / (spread_of_products + _SHRINK)
        left = [one.gain - level - slope * (one.products - centre) for one in those]
        spread = math.sqrt((sum(error**2 for error in left) + 0.1) / (len(left) + 1))
        figures = (level, slope, spread, mean(one.drift for one in those), centre)
        result.of_pass[key] = [round(figure, 4) for figure in figures]
    both = group(lambda one: f"{one.name}|{one.options}") | group(lambda one: f"{one.name}|{one.kernels}|{one.options}")
    for key, those in both.items():
        left = [one.gain - (_of_pass(result, one) or 0.0) for one in those]
        result.of_options[key] = round(_shrunk(left, 0.0), 4)
    return result


def _of_pass(known: Fit, one: Observation) -> float | None:
    figures = known.of_pass.get(f"{one.name}|{one.kernels}") or known.of_pass.get(one.name)
    return None if figures is None else figures[0] + figures[1] * (one.products - figures[4])


def _shrunk(values: Sequence[float], towards: float) -> float:
    return (sum(values) + _SHRINK * towards) / (len(values) + _SHRINK)


def error_of(known: Fit, rows: Sequence[Observation]) -> tuple[float, float]:
    """The root of the mean squared error of the fit, and of the guess by stage that the search begins with."""
    fitted, guessed = [], []
    for one in rows:
        guess = GUESSES.get(Stage(one.stage), 0.0)
        found = known.gain(one.stage, one.name, one.options, one.kernels, one.products)
        fitted.append((one.gain - (guess if found is None else found)) ** 2)
        guessed.append((one.gain - guess) ** 2)
    return math.sqrt(mean(fitted)), math.sqrt(mean(guessed))


def errors_left_out(rows: Sequence[Observation], by: str) -> list[str]:
    """A line for each model, or processor, that was left out."""
    lines = []
    for name in sorted({getattr(one, by) for one in rows}):
        inside, outside = [[one for one in rows if (getattr(one, by) != name) is is_in] for is_in in (True, False)]
        if inside:
            fitted, guessed = error_of(fit(inside), outside)
            lines.append(f"| {name} | {len(outside)} | {guessed:.3f} | {fitted:.3f} |")
    return lines


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of the drift of one lossy model.

    Attributes:
        model: name of the trace's model.
        kernels: of the processor.
        times: what counts of the drift on all samples, to the drift on few.
    """

    model: str
    kernels: str
    times: float


def growths(paths: Iterable[Path]) -> list[Growth]:
    """One for each lossy candidate that was compared on all samples; of one growth on one model one."""
    found = set()
    for path in paths:
        trace = _trace(path)
        few = next((len(one["answer"]["explored"]) for one in trace.actions if one["name"] == "prepare"), 0)
        races = [one for one in trace.actions if one["name"] == "race_job" and "answer" in one]
        for race in races if few and not trace.header["asked"]["lossless"] else ():
            for asked, lane in zip(race["request"]["lanes"], race["answer"]["lanes"], strict=True):
                if lane["ready"] is None or len(asked["compared"]) <= few:
                    continue
                outputs = [from_wire(OutputComparison, one) for one in lane["ready"]["comparisons"]]
                free = [one for one in outputs if one.limit is None and one.mismatched is None and not one.is_rounding]
                explored = max((max(one.by_sample[:few]) for one in free), default=0.0)
                drift = worst_drift(free)
                if explored > 0 and math.isfinite(drift.relative_error):
                    times = max(drift.relative_error, drift.foreseen) / explored
                    found.add(Growth(_model_of(path), kernels_of(trace), round(times, 3)))
    return sorted(found, key=lambda one: (one.model, one.kernels, one.times))


def tail_of(rows: Sequence[Growth]) -> float:
    """The tail by the greatest likelihood, with each model counted once."""
    models: dict[str, list[float]] = defaultdict(list)
    for one in rows:
        models[one.model].append(math.log(max(1.0, one.times)))
    return 1.0 / max(1e-9, mean(mean(logs) for logs in models.values()))


def scores_of(chances: Sequence[float], held: Sequence[bool]) -> tuple[float, float]:
    """The mean logarithmic loss and the mean squared error (Brier) of chances."""
    bounded = [min(1.0 - _LEAST_CHANCE, max(_LEAST_CHANCE, chance)) for chance in chances]
    losses = [-math.log(chance if is_held else 1.0 - chance) for chance, is_held in zip(bounded, held, strict=True)]
    return mean(losses), mean((chance - is_held) ** 2 for chance, is_held in zip(chances, held, strict=True))


def chances_left_out(rows: Sequence[Growth], by: str) -> list[str]:
    """A line for each model, or processor, that was left out, and their mean: of three ways to foresee."""
    lines, scores = [], []
    for name in sorted({getattr(one, by) for one in rows}):
        inside, outside = [[one for one in rows if (getattr(one, by) != name) is is_in] for is_in in (True, False)]
        if not inside:
            continue
        tail = tail_of(inside)
        rate = mean(one.times <= times for one in inside for times in _TIMES)
        held = [one.times <= times for one in outside for times in _TIMES]
        ways = [
            [rate] * len(held),
            [1.0 - times**-selection._TAIL for _ in outside for times in _TIMES],
            [1.0 - times**-tail for _ in outside for times in _TIMES],
        ]
        scores.append([score for way in ways for score in scores_of(way, held)])
        figures = " | ".join(f"{score:.2f}" for score in scores[-1])
        lines.append(f"| {name} | {len(outside)} | {tail:.2f} | {figures} |")
    means = " | ".join(f"{mean(column):.3f}" for column in zip(*scores, strict=True))
    return [*lines, f"| mean | {len(rows)} | {tail_of(rows):.2f} of all | {means} |"]


def verdict_with(path: Path, others: Sequence[Path], known: Fit | float | None) -> object:
    """The result of a search that goes by a fit of gains, or by a tail; by what it has if there is none."""
    if known is None:
        return verdict_of(path, None, others)
    if isinstance(known, float):
        with mock.patch.object(selection, "_TAIL", known):
            return verdict_of(path, None, others)
    kernels, products = kernels_of(_trace(path)), _products(_trace(path))

    own_guess = Expander.guess

    def guess(self: Expander, planned: Planned, parent: Candidate, proposals: Sequence[Proposal]) -> Guess:
        found = own_guess(self, planned, parent, proposals)
        step = found.attempt.step
        gain = known.gain(str(step.stage), step.pass_name, options_of(step.options), kernels, products)
        if gain is not None and not planned.forced:
            self.promises.expect(step, gain)
        return found

    with mock.patch.object(Expander, "guess", guess):
        return verdict_of(path, None, others)


def regrets(paths: Sequence[Path], of: Callable[[Path], str], fitted: Callable[[str], Fit | float]) -> list[str]:
    """The regret without a fit, and with the one that what the trace is of was left out of."""
    groups: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        groups[_subject(_trace(path))].append(path)
    judged = [path for path in paths if not _trace(path).header["asked"]["named"]]
    beside = [[other for other in groups[_subject(_trace(path))] if other != path] for path in judged]
    fits = {name: fitted(name) for name in {of(path) for path in judged}}
    with ProcessPoolExecutor(2) as pool:
        plain = list(pool.map(verdict_with, judged, beside, [None] * len(judged)))
        other_way = list(pool.map(verdict_with, judged, beside, [fits[of(path)] for path in judged]))
    lines, pairs = [], []
    for path, one, other in zip(judged, plain, other_way, strict=True):
        known = proven([_trace(each) for each in groups[_subject(_trace(path))]])
        before, after = row_of(path, known, [one]), row_of(path, known, [other])
        counts = before.counts and after.counts
        if counts:
            pairs.append((before.regret, after.regret, before.seconds, after.seconds))
        if not counts or abs(before.regret - after.regret) > 1e-9:
            unknown = "" if counts else f", {after.unknown:.0%} unknown: does not count"
            lines.append(f"| {path.stem} | {before.regret:.3f} | {after.regret:.3f}{unknown} |")
    means = [mean(one[place] for one in pairs) for place in range(4)]
    lines.append(f"| mean of {len(pairs)} of {len(judged)} that count in both | {means[0]:.4f} | {means[1]:.4f} |")
    lines.append(f"| worst | {max(one[0] for one in pairs):.3f} | {max(one[1] for one in pairs):.3f} |")
    lines.append(f"| seconds | {means[2]:.1f} | {means[3]:.1f} |")
    return lines


def main() -> int:
    """Fit, evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, help="[default: benchmarks/search/traces/*.trace]")
    parser.add_argument("--out", type=Path, help="file for the fit on all traces")
    parser.add_argument("--no-replay", action="store_true", help="only the errors of the fits")
    parser.add_argument("--only", choices=("gains", "drift"), help="one of the two fits")
    chosen = parser.parse_args()
    paths = [path.resolve() for path in chosen.traces] or sorted(TRACES.glob("*.trace"))
    rows, grown = observations(paths), growths(paths)
    if chosen.out:
        whole = replace(fit(rows), tail=round(tail_of(grown), 3))
        text = json.dumps(asdict(whole), indent=1, sort_keys=True)
        if len(text) > MOST_BYTES:
            print(f"the fit has {len(text):,} bytes, more than {MOST_BYTES:,}", file=sys.stderr)
            return 1
        chosen.out.write_text(text + "\n")
    of_path: dict[str, Callable[[Path], str]] = {"model": _model_of, "kernels": lambda path: kernels_of(_trace(path))}
    if chosen.only != "drift":
        for by in of_path:
            print(f"\n| {by} left out | steps | error of the guess by stage | error of the fit |\n|---|--:|--:|--:|")
            print("\n".join(errors_left_out(rows, by)))
    if chosen.only != "gains":
        for by in of_path:
            ways = ("constant rate", "today's tail", "fitted tail")
            print(f"\n| {by} left out | growths | tail | " + " | ".join(f"{way}: loss | Brier" for way in ways) + " |")
            print("|---|--:|--:|--:|--:|--:|--:|--:|--:|\n" + "\n".join(chances_left_out(grown, by)))
    for by, of in of_path.items() if not chosen.no_replay else ():
        fits: dict[str, Callable[[str], Fit | float]] = {
            "gains": lambda name, by=by: fit([one for one in rows if getattr(one, by) != name]),
            "drift": lambda name, by=by: tail_of([one for one in grown if getattr(one, by) != name]),
        }
        for what, fitted in fits.items():
            if chosen.only in (None, what):
                print(f"\n| trace, {by} left out | regret | regret with the fit of {what} |\n|---|--:|--:|")
                print("\n".join(regrets(paths, of, fitted)))
    return 0


def _model_of(path: Path) -> str:
    return path.stem.partition("-0.")[0].partition("-lossless")[0]


if __name__ == "__main__":
    sys.exit(main())
