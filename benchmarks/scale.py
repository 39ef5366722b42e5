"""How cost grows with models, workers and the size of models: the tables of docs/scale.md.

    python benchmarks/scale.py [--trace benchmarks/cluster_trace.json] [--models 10000] [--workers 100] [--page PAGE]

The trace is what ``python benchmarks/cluster.py trace`` writes: the jobs of some runs, each with its kind, its seconds
on the worker and its bytes. The run on the largest model is multiplied, see benchmarks/scale_simulation.py. Prints one
table for each question, or writes them into ``docs/scale.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scale_simulation import Outcome, Pool, Run, read, simulated


def blocks(run: Run, models: int, workers: int) -> dict[str, str]:
    """The tables of docs/scale.md in Markdown, by the name of their place there."""
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
    seconds = (10, 30, 60, 300)

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
        "devices": table(
            ["devices", *(f"{one} s" + (" of a clock" if one == seconds[0] else "") for one in seconds)],
            [[str(count), *(f"{models * one / count / 86400:.2g}" for one in seconds)] for count in (1, 10, 100)],
        ),
    }


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
    parser.add_argument("--page", type=Path, help="docs/scale.md: its tables are written anew.")
    given = parser.parse_args()
    found = blocks(read(given.trace)[-1], given.models, given.workers)
    if given.page is None:
        print("\n\n".join(found.values()))
    else:
        given.page.write_text(written(given.page.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
