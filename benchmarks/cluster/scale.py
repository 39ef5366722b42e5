"""How cost grows with models, workers and the size of models: the tables of benchmarks/notes/scale.md.

    python benchmarks/cluster/scale.py [--trace cluster_trace.json] [--models 10000] [--workers 100] [--page PAGE]

The trace is what ``python benchmarks/cluster/cluster.py trace`` writes: the jobs of some runs, each with its kind, its
seconds on the worker and its bytes. The run on the largest model is multiplied, see scale_simulation.py. Prints one
table for each question, or writes them into ``benchmarks/notes/scale.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scale_simulation import Job, Outcome, Pool, Run, read, simulated

_SMALL = (
    *((False, (1.0,)), (True, (0.2,)), (False, (0.9,)), (False, (0.8, 1.3)), (True, (1.2,)), (False, (0.2, 0.2, 0.4))),
    *((False, (0.9, 1.0, 1.3)), (False, (0.3, 0.4, 0.4)), (False, (0.4,)), (True, (1.8,)), (True, (4.4,))),
    *((True, (5.0,)), (False, (0.4,)), (True, (1.3,))),
)
"""Whether they hold the clock, and seconds of jobs that go side by side: of a run on ``thin`` of
cluster.py, by its ``trace``, on a busy machine. :func:`small` gives them the seconds of a quiet one."""

_SMALL_JOBS_S = 3.7
"""Of its jobs that hold no clock, on a quiet machine; with 2 s of its own and 1.6 to 3 s of clock it takes some 8."""


def blocks(run: Run, models: int, workers: int) -> dict[str, str]:
    """The tables of benchmarks/notes/scale.md in Markdown, by the name of their place there."""
    every = Pool(workers, workers)
    by_url, part = replace(every, has_url=True), models // 10
    ways = {
        "`optim batch --cluster`: a whole run on a worker": (by_url, "batch"),
        "`optim run --cluster`, one for each worker, `--store-url`": (by_url, "jobs"),
        "the same, files carried by the engine": (every, "jobs"),
    }
    clocks = [count for count in (1, 2, 5, 10, 20, 50, 100) if count <= workers]
    by_clocks = [simulated(run, models, replace(by_url, clocks=count), "jobs") for count in clocks]
    several = (1, 10, 20, 50, 100, 200)
    sizes = [("4 MB", 4e6), ("90 MB", 90e6), ("500 MB", 500e6), ("4 GB", 4e9)]
    seconds, clock_seconds = (10, 30, 60, 300), (1.6, 2.3, 3.0)

    def sized(pool: Pool) -> list[str]:
        return [an_hour(part, simulated(run.of_size(size), part, pool, "jobs")) for _, size in sizes]

    return {
        "run": (
            f"The run that is multiplied here is of a model of {run.size_bytes / 1e6:.0f} MB: "
            f"{sum(map(len, run.groups))} jobs, {run.job_s:.0f} s of work, {run.clock_s:.0f} s of them at a clock, "
            f"{sum(one.made_bytes for group in run.groups for one in group) / 1e6:.0f} MB of candidates."
        ),
        "ways": table(
            ["way", "hours", "runs an hour", "workers busy", "clocks busy", "link busy", "scheduler busy"],
            [[name, *whole(models, simulated(run, models, *asked))] for name, asked in ways.items()],
        ),
        "clocks": table(
            ["clocks", *map(str, clocks)],
            [
                ["hours", *(hours(one) for one in by_clocks)],
                ["clocks busy", *(percent(one.clocks) for one in by_clocks)],
                ["workers busy", *(percent(one.workers) for one in by_clocks)],
            ],
        ),
        "workers": table(
            ["workers", *map(str, several)],
            [["runs an hour", *(an_hour(part, simulated(run, part, Pool(n, n), "jobs")) for n in several)]],
        ),
        "sizes": table(
            ["size of a model", *(name for name, _ in sizes)],
            [["runs an hour, by the engine", *sized(every)], ["runs an hour, by a store URL", *sized(by_url)]],
        ),
        "cores": table(
            ["a run's seconds at the clock", *(f"{one} s" for one in clock_seconds)],
            [[f"jobs at a time: {n}", *(more_runs(one, n) for one in clock_seconds)] for n in (2, 4)],
        ),
        "devices": table(
            ["devices", *(f"{one} s" + (" of a clock" if one == seconds[0] else "") for one in seconds)],
            [[str(count), *(f"{models * one / count / 86400:.2g}" for one in seconds)] for count in (1, 10, 100)],
        ),
    }


def small(clock_s: float) -> Run:
    """A run of a small model that holds the clock for so long; its workers see its files."""
    whole_s = {timed: sum(sum(each) for is_timed, each in _SMALL if is_timed is timed) for timed in (False, True)}
    factor = {False: _SMALL_JOBS_S / whole_s[False], True: clock_s / whole_s[True]}
    groups = tuple(tuple(Job(timed, factor[timed] * one, 0.0, 0.0) for one in each) for timed, each in _SMALL)
    return Run(0.0, groups)


def more_runs(clock_s: float, places: int) -> str:
    """How many times as many small runs two at a time finish as one at a time, where so many jobs run at a time."""
    pool = Pool(places, 1)
    one, two = (simulated(small(clock_s), 40, replace(pool, drivers=count), "jobs") for count in (1, 2))
    return f"{one.seconds / two.seconds:.2f}"


def whole(models: int, outcome: Outcome) -> list[str]:
    """The columns of an outcome."""
    shares = (outcome.workers, outcome.clocks, outcome.link, outcome.scheduler)
    return [hours(outcome), an_hour(models, outcome), *map(percent, shares)]


def hours(outcome: Outcome) -> str:
    """How long it took, in two digits."""
    value = outcome.seconds / 3600
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def an_hour(models: int, outcome: Outcome) -> str:
    """Runs an hour."""
    return f"{3600 * models / outcome.seconds:.0f}"


def percent(share: float) -> str:
    """A share of all the time."""
    return f"{100 * min(1.0, share):.0f} %"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("| --- ", "|---").replace("--- |", "---|")


def written(page: str, found: Mapping[str, str]) -> str:
    """A page with its places filled: what stands between ``<!-- simulated: NAME -->`` and ``<!-- end -->``."""
    for name, text in found.items():
        begin, end = f"<!-- simulated: {name} -->\n", "\n<!-- end -->"
        before, _, rest = page.partition(begin)
        _, found_end, after = rest.partition(end)
        if not found_end:
            raise SystemExit(f"the page has no place for {name}")
        page = f"{before}{begin}{text}{end}{after}"
    return page


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, default=Path(__file__).with_name("cluster_trace.json"))
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--page", type=Path, help="benchmarks/notes/scale.md: its tables are written anew.")
    given = parser.parse_args()
    found = blocks(read(given.trace)[-1], given.models, given.workers)
    if given.page is None:
        print("\n\n".join(found.values()))
    else:
        given.page.write_text(written(given.page.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
