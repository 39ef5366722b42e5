"""optim beside four plain peers at its default budget and seconds, on architectures that nothing else here is made of.

    python benchmarks/peers/peer_cases.py --work FOLDER                                  # five cases: 25 minutes
    python benchmarks/as_avx2.py python benchmarks/peers/peer_cases.py --work FOLDER --only deberta
    python benchmarks/peers/peer_cases.py --work FOLDER --only fnet xlnet                # any of models/configs.py
    python benchmarks/peers/peer_cases.py --work FOLDER --only opt ast --peers-only      # where to look next

Each model has random weights (models/configs.py). The peers are those of curve.py. ``optim run`` starts from an empty
cache and leaves its trace in FOLDER. All results take turns in one race, and are compared on eight samples that nobody
calibrated on. If a peer within the budget is faster by more than both intervals, the report lists optim's own
candidates of that kind and how the search left them. The exit status is 1 then.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from curve import HERE, PEERS, Figures, Given, Made, compare, conclude, measure, peer, run
from samples import samples_of

from optim._engine.search.settings import DEFAULT_MAX_DRIFT

CASES = ("deberta", "fnet", "xlnet", "roformer", "segformer")


def main() -> int:
    """A table for each case, then who is ahead."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="models and traces, kept")
    parser.add_argument("--only", nargs="+", default=CASES, metavar="MODEL", help="names of models/configs.py")
    parser.add_argument("--search-seconds", default="auto")
    parser.add_argument("--peers-only", action="store_true", help="what optim has to beat")
    chosen = parser.parse_args()
    work = chosen.work.resolve()
    make = [sys.executable, str(HERE / "models" / "configs.py"), *chosen.only, "--out", str(work)]
    subprocess.run(make, check=True)
    level = [compared(name, work, "" if chosen.peers_only else chosen.search_seconds) for name in chosen.only]
    return 0 if all(level) else 1


def compared(name: str, work: Path, search_seconds: str) -> bool:
    """Print what all make of a model; whether nobody is ahead of optim, and optim keeps within the budget.

    Without ``search_seconds`` only the peers are compared.
    """
    given = Given(*(work / name / file for file in ("model.onnx", "calib.npz", "unseen.npz")))
    trace, budget = work / f"{name}-peers.trace", f"{DEFAULT_MAX_DRIFT:g}"
    print(f"\n{name}: load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found = [one for tool in PEERS if (one := peer(tool, given.model, given.calib, Path(folder))) is not None]
        if search_seconds:
            found.append(run(given.model, given.calib, budget, search_seconds, Path(folder), "--trace", str(trace)))
        drifts = compare(given.model, found, samples_of(str(given.feeds)))
        ratios = measure(given.model, found, given.feeds)
    figures = {one.name: Figures(*ratios[one.name], drifts[one.name]) for one in found}
    print(table(found, figures), flush=True)
    if not search_seconds:
        return True
    good = conclude(budget, figures)
    if not good:
        print(fate(trace))
    return good


def table(found: list[Made], figures: dict[str, Figures]) -> str:
    """A row for each result."""
    lines = ["| result | ratio | 95 % | drift | made in s | |", "|---|--:|---|--:|--:|---|"]
    for one in found:
        row = figures[one.name]
        span = f"{row.low:.2f} to {row.high:.2f}"
        lines.append(f"| {one.name} | {row.ratio:.2f} | {span} | {row.drift:.4f} | {one.seconds:.0f} | {one.said} |")
    return "\n".join(lines)


def fate(trace: Path) -> str:
    """How the search left its candidates: by pass, how many, and why."""
    last = json.loads(gzip.decompress(trace.read_bytes()).decode().splitlines()[-1])
    ends = Counter((row["step"]["pass_name"], row["status"], row["reason"][:70]) for row in last["end"]["rows"])
    return "\n".join(
        f"  {count} x {name}: {status}, {reason}" for (name, status, reason), count in ends.most_common(12)
    )


if __name__ == "__main__":
    sys.exit(main())
