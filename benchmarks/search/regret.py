"""What today's search loses against the best that is known: a table, from traces, without running a model.

    python benchmarks/search/regret.py                                # the traces in benchmarks/search/traces
    python benchmarks/search/regret.py some.trace other.trace --seeds 5
    python benchmarks/search/regret.py --beside HEAD~3                # another revision's policy too
    python benchmarks/search/regret.py --model model.onnx some.trace  # refuses a trace of another model
    python benchmarks/search/regret.py --presets                      # means with the seconds of presets
    python benchmarks/search/regret.py --experience --seeds 3         # means with chains of earlier runs
    python benchmarks/search/regret.py --completed                    # all traces of a model as one book
    python benchmarks/search/regret.py --completed policy.py:Beam     # another order, in that book

Each trace is replayed as it was recorded, and with its rounds drawn anew for each seed. What it lacks other traces of
the same model answer; those for which passes were named do nothing else. The *best* is the lowest ratio of a chain that
was proven in any trace of the same model on the same processor, if its drift is within the budget of the row; a chain
has the median of its proven ratios. *Regret* is the difference of logarithms: 0.10 means that the search delivers what
takes 1.1 times as long as the best. A replay with more than 10 % unknown seconds does not count, and its row says so.

*Experience* is what the recorded runs of the same request on the same processor delivered: on the two nearest of the
other models, or on the model itself, as if it was exported again. Traces hold no shapes of weights, so the operators
that multiply tell what is near; a real run tries no chain of a model whose weights have other shapes. *Records that
lie* have the two slowest chains of the trace, and say that each took a tenth of the original's time. *Seconds to 95 %*
are those until a model is timed that has 95 % of the gain that the search without experience delivers; the whole run if
none is.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import runpy
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean, median, mode
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from completed import Completed
from replay import MOST_UNKNOWN, replay
from trace_file import Trace, read_trace

from optim._engine.graphs.ingest import ingest
from optim._engine.plugins.registry import Registry, load_registry
from optim._engine.search.experience import Architecture, Experience, WonStep
from optim._engine.search.settings import DEFAULT_MAX_DRIFT, PRESETS, SearchSeconds
from optim._engine.search.taste import SAME, WORTH
from optim.errors import OptimError

TRACES = Path(__file__).with_name("traces")

WORSE = math.log(1.05)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one replay delivers.

    Attributes:
        status: e.g. ``improved``.
        digest: of the delivered model; empty: none.
        ratio: that the search measured.
        seconds: simulated.
        unknown: share of them.
        found: seconds, digest and ratio of what was timed on the way, and kept within the budget so far.
        estimated: share of the seconds whose answers were estimated.
    """

    status: str
    digest: str
    ratio: float
    seconds: float
    unknown: float
    found: tuple[tuple[float, str, float], ...] = ()
    estimated: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """A trace and what its replays come to.

    Attributes:
        name: of the trace.
        budget: drift that the run was asked to keep within.
        budget_s: seconds that the run had.
        recorded: ratio that the run itself delivered.
        ratio: of what the policy delivers, as recorded.
        best: of all proven chains.
        chain: the passes of the best.
        regret: of the policy.
        seconds: that it used.
        unknown: share of them.
        same: whether it delivers the very model that the run did.
        mean_regret: over the seeds that count.
        changes: share of these seeds that come to another status than most.
        others: share of these seeds that deliver another model than as recorded.
        seeds: that count.
    """

    name: str
    budget: str
    budget_s: float
    recorded: float
    ratio: float
    best: float
    chain: str
    regret: float
    seconds: float
    unknown: float
    same: bool
    mean_regret: float
    changes: float
    others: float
    seeds: int

    @property
    def counts(self) -> bool:
        """Whether the trace knows enough of what the policy asks."""
        return self.unknown <= MOST_UNKNOWN


@cache
def _registry() -> Registry:
    return load_registry()


@cache
def _trace(path: Path) -> Trace:
    return read_trace(path)


def verdict_of(
    path: Path,
    seed: int | None,
    others: Sequence[Path] = (),
    asked_s: SearchSeconds | None = None,
    records: Sequence[Experience] | None = None,
) -> Verdict:
    """The result of this revision's search on a trace; ``others`` answer what the trace lacks. See ``replay``.

    With other seconds than its own a trace may be put together from races that do not fit: then all is unknown.
    """
    try:
        found = replay(_trace(path), _registry(), seed, [_trace(other) for other in others], asked_s, records)
    except OptimError:
        if asked_s is None:
            raise
        return Verdict("cannot be replayed", "", 1.0, 0.0, 1.0)
    result = found.outcome.result
    digest = "" if result is None else result.candidate.digest
    ratio = (result and result.ratio) or 1.0
    return Verdict(str(found.outcome.status), digest, ratio, found.seconds, found.unknown, found.found)


@dataclass(frozen=True, slots=True)
class Known:
    """A chain that was proven in some trace.

    Attributes:
        ratio: the median of its proven ratios.
        drift: the greatest that was measured; 0 if a lossless run proved it, and above 0 if a step is lossy.
        chain: its passes.
    """

    ratio: float
    drift: float
    chain: str


def proven(traces: Sequence[Trace]) -> dict[str, Known]:
    """The proven chains of a model, by the digest of what they make; the original is one."""
    found: dict[str, list[Any]] = defaultdict(list)
    lossy = {row["step"]["pass_name"] for trace in traces for row in trace.end["rows"] if row["step"]["lossy"]}
    for trace in traces:
        for point in trace.end["points"]:
            if point["proven"] and point["within"] and point["ratio"]:
                drift = 0.0 if trace.header["asked"]["lossless"] else float(point["drift"] or 0.0)
                if any(step["pass"] in lossy for step in point["chain"]):  # no lossless run tries it
                    drift = max(drift, sys.float_info.min)
                found[point["digest"]].append({**point, "drift": drift})
    known = {traces[0].end["model"]: Known(1.0, 0.0, "original")}
    for digest, points in found.items():
        if digest not in known:
            chain = " + ".join(step["pass"].removeprefix("ort.") for step in points[0]["chain"])
            drifts = [point["drift"] for point in points]
            drift = max(drifts) if all(drifts) else 0.0
            known[digest] = Known(median(point["ratio"] for point in points), drift, chain)
    return known


def _limit(trace: Trace) -> float:
    """Drift that the run was asked to keep within; 0: lossless."""
    asked = trace.header["asked"]
    return 0.0 if asked["lossless"] else asked["max_drift"] or DEFAULT_MAX_DRIFT


def row_of(path: Path, known: Mapping[str, Known], verdicts: Sequence[Verdict]) -> Row:
    """The row of a trace.

    Args:
        path: of it.
        known: proven chains of its model by digest.
        verdicts: as recorded, then those of the seeds.
    """
    trace = _trace(path)
    best = min((one for one in known.values() if one.drift <= _limit(trace)), key=lambda one: one.ratio)

    def ratio(verdict: Verdict) -> float:
        found = known.get(verdict.digest)
        return found.ratio if found else verdict.ratio

    def regret(verdict: Verdict) -> float:
        return max(0.0, math.log(ratio(verdict) / best.ratio))

    first, counted = verdicts[0], [one for one in verdicts[1:] if one.unknown <= MOST_UNKNOWN]
    delivered = trace.end["delivered"] or ""
    usual = mode(one.status for one in counted) if counted else ""
    return Row(
        name=path.stem,
        budget="lossless" if trace.header["asked"]["lossless"] else f"{_limit(trace):g}",
        budget_s=trace.end["announced_s"],
        recorded=known[delivered].ratio if delivered in known else 1.0,
        ratio=ratio(first),
        best=best.ratio,
        chain=best.chain,
        regret=regret(first),
        seconds=first.seconds,
        unknown=first.unknown,
        same=first.digest == delivered,
        mean_regret=mean(map(regret, counted)) if counted else math.nan,
        changes=mean(one.status != usual for one in counted) if counted else math.nan,
        others=mean(one.digest != first.digest for one in counted) if counted else math.nan,
        seeds=len(counted),
    )


def rows_of(paths: Sequence[Path], seeds: int) -> list[Row]:
    """A row for each trace of the whole policy, on all processors; where passes were named only answers are taken."""
    groups = _groups(paths)
    judged = _judged(paths)
    tasks = [(path, seed, _others(path, groups)) for path in judged for seed in (None, *range(seeds))]
    each = 1 + seeds
    found = _verdicts(tasks, chunk=each)
    return [
        row_of(path, known, found[place * each : (place + 1) * each])
        for place, (path, known) in enumerate(_with_known(judged, groups))
    ]


def _groups(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """The traces of each subject."""
    groups: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        groups[_subject(_trace(path))].append(path)
    return groups


def _judged(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if not _trace(path).header["asked"]["named"]]


def _others(path: Path, groups: Mapping[str, Sequence[Path]]) -> list[Path]:
    return [other for other in groups[_subject(_trace(path))] if other != path]


def _with_known(judged: Sequence[Path], groups: Mapping[str, Sequence[Path]]) -> list[tuple[Path, dict[str, Known]]]:
    known = {subject: proven([_trace(path) for path in those]) for subject, those in groups.items()}
    return [(path, known[_subject(_trace(path))]) for path in judged]


def _verdicts(tasks: Sequence[tuple[Any, ...]], chunk: int = 1) -> list[Verdict]:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(verdict_of, *zip(*tasks, strict=True), chunksize=chunk))


def completed_text(paths: Sequence[Path], policy: str) -> str:
    """A row for each trace, with all traces of its model as one book: today's search, and that of ``policy``, if any.

    A model that no trace proved has the ratio of its races, or the estimated one.
    """
    groups, judged = _groups(paths), _judged(paths)
    names = ["today", policy] if policy else ["today"]
    tasks = [(path, _others(path, groups), "" if name == "today" else name) for path in judged for name in names]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(_completed, *zip(*tasks, strict=True), chunksize=len(names)))
    lines = ["| trace | best | " + " | ".join(f"{name} | estimated" for name in names) + " |"]
    lines.append("|---|--:|" + "--:|--:|" * len(names))
    rows = []
    for place, (path, known) in enumerate(_with_known(judged, groups)):
        found = verdicts[place * len(names) : (place + 1) * len(names)]
        rows.append([(row_of(path, known, [one]), one.estimated) for one in found])
        cells = " | ".join(f"{row.regret:.3f} | {estimated:.0%}" for row, estimated in rows[-1])
        lines.append(f"| {path.stem} | {rows[-1][0][0].best:.2f} | {cells} |")
    for title, some in (
        ("all rows", rows),
        (
            "rows whose answers are recorded, all but 5 % of the seconds",
            [r for r in rows if all(e <= 0.05 for _, e in r)],
        ),
    ):
        each = list(zip(*some, strict=True))
        figures = [
            f"{mean(row.regret for row, _ in of):.4f} in {mean(row.seconds for row, _ in of):.1f} s" for of in each
        ]
        text = ", ".join(f"{name} {figure}" for name, figure in zip(names, figures, strict=False))
        worse = [r[0][0].name for r in some if r[-1][0].regret > r[0][0].regret + WORSE]
        lines.append(
            f"\n{title}: {len(some)}; mean regret of {text}; {len(worse)} worse by more than 5 %: {', '.join(worse)}"
        )
    return "\n".join(lines)


def _completed(path: Path, others: Sequence[Path], policy: str) -> Verdict:
    """The result on a trace with all others as one book, by today's search or by the class ``file.py:Name``."""
    beam = None
    if policy:
        file, _, name = policy.partition(":")
        beam = runpy.run_path(file)[name]
    found = replay(_trace(path), _registry(), None, [_trace(one) for one in others], of_place=Completed, policy=beam)
    result = found.outcome.result
    digest = "" if result is None else result.candidate.digest
    ratio = found.likely or (result and result.ratio) or 1.0
    return Verdict(str(found.outcome.status), digest, ratio, found.seconds, found.unknown, found.found, found.estimated)


def presets_text(paths: Sequence[Path]) -> str:
    """A line for each preset, and one for each trace that counts with every preset and differs by more than 1 %."""
    groups, judged = _groups(paths), _judged(paths)
    rows = {}
    for preset, asked_s in PRESETS.items():
        found = _verdicts([(path, None, _others(path, groups), asked_s) for path in judged])
        pairs = zip(_with_known(judged, groups), found, strict=True)
        rows[preset] = [row_of(path, known, [one]) for (path, known), one in pairs]
    in_all = [all(each) for each in zip(*([row.counts for row in those] for those in rows.values()), strict=True)]
    lines = [
        f"| preset | traces that count | mean regret | seconds | of the {sum(in_all)} that count in all | seconds |"
    ]
    lines.append("|---|--:|--:|--:|--:|--:|")
    for preset, those in rows.items():
        counted = [row for row in those if row.counts]
        shared = [row for row, is_in in zip(those, in_all, strict=True) if is_in]
        figures = [
            f"{mean(r.regret for r in some):.3f} | {mean(r.seconds for r in some):.0f}" for some in (counted, shared)
        ]
        lines.append(f"| {preset} | {len(counted)} of {len(those)} | {' | '.join(figures)} |")
    lines += ["", "| trace that differs | " + " | ".join(rows) + " |", "|---|" + "--:|" * len(rows)]
    for place, path in enumerate(judged):
        regrets = [those[place].regret for those in rows.values()]
        if in_all[place] and max(regrets) - min(regrets) > SAME:
            lines.append(f"| {path.stem} | " + " | ".join(f"{regret:.3f}" for regret in regrets) + " |")
    return "\n".join(lines)


def experience_text(paths: Sequence[Path], seeds: int) -> str:
    """A line for a search without experience, with that of other models, and with that of the model itself.

    Then what records that lie cost, over the seeds: one draw of the rounds moves the seconds of a run by a fifth.
    """
    groups, judged = _groups(paths), _judged(paths)
    own = [record_of(path) for path in judged]
    near = [_nearest(path, judged) for path in judged]
    ways = {
        "none": [[] for _ in judged],
        "what won on the nearest other models": near,
        "what won on the model itself": [[one] if one is not None else [] for one in own],
        "two records that lie": [lies_of(path) for path in judged],
    }
    found = {
        way: _verdicts(
            [(path, None, _others(path, groups), None, some) for path, some in zip(judged, each, strict=True)]
        )
        for way, each in ways.items()
    }
    lines, pairs = [], _with_known(judged, groups)
    rows = {
        way: [row_of(path, known, [one]) for (path, known), one in zip(pairs, those, strict=True)]
        for way, those in found.items()
    }
    places = [
        place
        for place, row in enumerate(rows["none"])
        if all(those[place].counts for those in rows.values()) and row.ratio < WORTH and own[place] is not None
    ]
    lines.append(
        f"| experience, {len(places)} traces with a gain | seconds to 95 % of it | seconds | mean regret | worst |"
    )
    lines.append("|---|--:|--:|--:|--:|")
    for way, those in rows.items():
        to_95 = [_seconds_to_95(found[way][place], pairs[place][1], rows["none"][place].ratio) for place in places]
        some = [those[place] for place in places]
        seconds, regret = mean(row.seconds for row in some), mean(row.regret for row in some)
        worst = max(row.regret for row in some)
        lines.append(f"| {way} | {mean(to_95):.1f} | {seconds:.1f} | {regret:.3f} | {worst:.3f} |")
    return "\n".join([*lines, "", _cost_of_lies([judged[place] for place in places], groups, seeds)])


def _cost_of_lies(paths: Sequence[Path], groups: Mapping[str, Sequence[Path]], seeds: int) -> str:
    """How much longer runs take with records that lie: on average, and where it is most."""
    tasks = [
        (path, seed, _others(path, groups), None, some)
        for path in paths
        for some in ([], lies_of(path))
        for seed in range(seeds)
    ]
    seconds = [one.seconds for one in _verdicts(tasks)]
    sums = [sum(seconds[at : at + seeds]) for at in range(0, len(seconds), seeds)]
    more = {path.stem: lying / plain - 1 for path, plain, lying in zip(paths, sums[::2], sums[1::2], strict=True)}
    worst = max(more, key=lambda name: more[name])
    return (
        f"Records that lie change the seconds by {mean(more.values()):+.0%} on average over {seeds} seeds, "
        f"and by {more[worst]:+.0%} at most ({worst})."
    )


def _seconds_to_95(verdict: Verdict, known: Mapping[str, Known], ratio: float) -> float:
    """Seconds until something was timed that has 95 % of a gain, by its proven ratio if it has one."""
    enough = ratio**0.95
    times = [at for at, digest, timed in verdict.found if (known[digest].ratio if digest in known else timed) <= enough]
    return min([*times, verdict.seconds])


def record_of(path: Path) -> Experience | None:
    """The record of a run's result, as a cache has it; None if the original was delivered."""
    delivered = _trace(path).end["delivered"]
    return next((_record(path, point) for point in _points(path) if point["digest"] == delivered), None)


def lies_of(path: Path) -> list[Experience]:
    """Records of the two slowest chains of a trace that say that each won with a tenth of the original's time."""
    slowest = sorted(_points(path), key=lambda point: -point["ratio"])[:2]
    return [replace(_record(path, point), ratio=0.1) for point in slowest]


def _points(path: Path) -> list[dict[str, Any]]:
    return [point for point in _trace(path).end["points"] if point["chain"] and point["ratio"]]


def _record(path: Path, point: Mapping[str, Any]) -> Experience:
    """The record of one chain of a run."""
    trace = _trace(path)
    works = [one["answer"].get("work", {}) for one in trace.actions if one["name"] == "ingest" and "answer" in one]
    return Experience(
        model=trace.end["model"],
        day="",
        architecture=Architecture((works or [{}])[-1], 1),
        processor="",
        kernels=" ".join(trace.header["machine"]["instruction_sets"]),
        target=trace.header["asked"]["target"],
        goal=trace.header["asked"]["goal"],
        budget=str(_limit(trace)),
        asked="",
        made_with="",
        searched_s=trace.end["announced_s"],
        chain=tuple(WonStep(step["pass"], step["options"]) for step in point["chain"]),
        ratio=point["ratio"],
    )


def _nearest(path: Path, judged: Sequence[Path]) -> list[Experience]:
    """The winners on other models with the same budget and processor, the nearest first."""
    this = record_of(path)
    if this is None:
        return []
    records = [one for other in judged if (one := record_of(other)) is not None and one.model != this.model]
    alike = [one for one in records if (one.budget, one.kernels) == (this.budget, this.kernels)]
    return sorted(alike, key=lambda one: -this.architecture.likeness(one.architecture))[:2]


def _subject(trace: Trace) -> str:
    """The model, the processor, the target and the goal: figures of others say nothing of it."""
    asked = {name: trace.header["asked"][name] for name in ("target", "goal", "metric", "max_loss")}
    return json.dumps([trace.end["model"], trace.header["machine"]["instruction_sets"], asked], sort_keys=True)


def text_of(rows: Sequence[Row]) -> str:
    """The table, and what all rows together say."""
    lines = [
        "| trace | budget | run | policy | best | regret | seconds | unknown "
        "| over seeds | other verdict | other model | best chain |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        policy = f"{row.ratio:.2f}" + ("" if row.same else " (another)")
        unknown = f"{row.unknown:.0%}" + ("" if row.counts else ", does not count")
        seeds = "- | - | -"
        if row.seeds:
            seeds = f"{row.mean_regret:.3f} | {row.changes:.0%} of {row.seeds} | {row.others:.0%}"
        lines.append(
            f"| {row.name} | {row.budget}, {row.budget_s:.0f} s | {row.recorded:.2f} | {policy} | {row.best:.2f} | "
            f"{row.regret:.3f} | {row.seconds:.0f} s | {unknown} | {seeds} | {row.chain} |"
        )
    counted = [row for row in rows if row.counts]
    if counted:
        worst = max(counted, key=lambda row: row.regret)
        changes = [row.changes for row in counted if row.seeds]
        lines.append(
            f"\nmean regret {mean(row.regret for row in counted):.3f} of {len(counted)} traces that count, "
            f"{len(rows) - len(counted)} do not; worst {worst.regret:.3f}, {worst.name}"
            + (f"; {mean(changes):.0%} of the seeds come to another verdict" if changes else "")
        )
    return "\n".join(lines)


def of_revision(revision: str, paths: Sequence[Path], seeds: int) -> list[Row]:
    """The rows of the policy of another revision, which must have this script."""
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory(prefix="regret-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "-C", str(root), "worktree", "add", "--detach", "--quiet", tree, revision], check=True)
        try:
            sources = os.pathsep.join(str(tree / part / "src") for part in ("core", "plugins"))
            words = [*map(str, paths), "--seeds", str(seeds), "--json"]
            run = subprocess.run(
                [sys.executable, str(next(tree.glob("benchmarks/**/regret.py"))), *words],
                env={**os.environ, "PYTHONPATH": sources},
                stdout=subprocess.PIPE,
                check=True,
            )
        finally:
            subprocess.run(["git", "-C", str(root), "worktree", "remove", "--force", tree], check=True)
    return [Row(**row) for row in json.loads(run.stdout)]


def beside(rows: Sequence[Row], others: Sequence[Row]) -> str:
    """How this policy stands beside another, on the rows that count in both."""
    pairs = [(one, other) for one, other in zip(rows, others, strict=True) if one.counts and other.counts]
    if not pairs:
        return "no row counts in both"
    worse = [one.name for one, other in pairs if one.regret > other.regret + WORSE]
    no_worse = [(one, other) for one, other in pairs if one.regret <= other.regret + 1e-9]
    halved = sum(one.seconds <= other.seconds / 2 for one, other in no_worse)
    regret, theirs = (mean(row.regret for row in each) for each in zip(*pairs, strict=True))
    return (
        f"of {len(pairs)} rows that count in both: mean regret {regret:.3f}, the other's {theirs:.3f}; "
        f"{len(worse)} worse by more than 5 %{': ' + ', '.join(worse) if worse else ''}; "
        f"{halved} with no more regret in half the seconds"
    )


def require_model(model: Path, paths: Sequence[Path]) -> None:
    """Refuse traces of other models.

    Raises:
        OptimError[trace-of-other-model]: one is.
    """
    with tempfile.TemporaryDirectory(prefix="regret-") as folder:
        digest = ingest(model, Path(folder)).digest
    for path in paths:
        _trace(path).require_model(digest)


def main() -> int:
    """Print the table, or the rows as JSON; an error has its own exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, help="[default: benchmarks/search/traces/*.trace]")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--beside", metavar="REVISION", help="another policy, on the same traces")
    parser.add_argument("--model", type=Path, help="what the traces have to be of")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--presets", action="store_true", help="with the seconds of each --preset")
    parser.add_argument(
        "--completed", nargs="?", const="", metavar="FILE:CLASS", help="with what no trace has estimated"
    )
    parser.add_argument("--experience", action="store_true", help="with chains of earlier runs tried first")
    chosen = parser.parse_args()
    paths = [path.resolve() for path in chosen.traces] or sorted(TRACES.glob("*.trace"))
    if not paths:
        parser.error(f"there is no trace in {TRACES}: python benchmarks/search/record.py makes some")
    try:
        if chosen.model:
            require_model(chosen.model, paths)
        if chosen.completed is not None:
            print(completed_text(paths, chosen.completed))
            return 0
        if chosen.presets or chosen.experience:
            print(presets_text(paths) if chosen.presets else experience_text(paths, chosen.seeds))
            return 0
        rows = rows_of(paths, chosen.seeds)
    except OptimError as error:
        print(error, file=sys.stderr)
        return int(error.status)
    if chosen.json:
        found: list[dict[str, Any]] = [asdict(row) for row in rows]
        print(json.dumps(found))
        return 0
    print(text_of(rows))
    if chosen.beside:
        others = of_revision(chosen.beside, paths, chosen.seeds)
        print(f"\n{chosen.beside}\n\n{text_of(others)}\n\n{beside(rows, others)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
