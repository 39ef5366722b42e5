"""Whether a run keeps its seconds and says the same each time: one command again and again, each from an empty cache.

    python benchmarks/runs/repeats.py model.onnx=feeds.npz:0.05 other.onnx=:lossless --times 5 --search-seconds 30
    python benchmarks/runs/repeats.py model.onnx=feeds.npz:0.05 --search-seconds auto
    python benchmarks/runs/repeats.py FOLDER/*.onnx --times 1 --search-seconds 40 --beside 8
    python benchmarks/runs/repeats.py model.onnx=:lossless -- --stage fuse

The second takes five repeats with default seconds; what follows ``--`` goes to ``optim run``. Each argument is a model,
its feeds (none: made up) and its budget (none: the default). ``--beside`` has so many other programs compute. Nobody
else should run optim then:
waiting for another run's clock counts here. A line for each run, then one for each model: its verdicts, the range of
its ratios, and the most seconds beside what was given or announced. Ratio and drift are the run's own; with ``--anew``
those of ``optim bench`` and ``optim verify`` on what it delivered. The exit status is 1 where verdicts of a model
differ, or a run took 20 % more than that.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from commands import busy, fresh_run, optim

KEPT = 1.2
"""A run is promised to take no more than so many times its seconds."""


@dataclass(frozen=True)
class Repeat:
    """One run.

    Attributes:
        verdict: its status, or what went wrong.
        ratio: of what was delivered to the original; 1 where nothing was.
        drift: of what was delivered.
        seconds: that the command took, its start and end included.
        promised: what was given or announced; None where the run failed.
        undecided: whether it was delivered though noise left it open.
    """

    verdict: str
    ratio: float
    drift: float
    seconds: float
    promised: float | None
    undecided: bool = False

    @property
    def over(self) -> float:
        """The command's time in those that were promised."""
        return self.seconds / self.promised if self.promised else float("nan")


def main() -> int:
    """Repeat each command; 1 where a promise was not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[=FEEDS][:BUDGET]")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--search-seconds", default="30")
    parser.add_argument("--beside", type=int, default=0, help="programs that compute meanwhile")
    parser.add_argument("--anew", action="store_true", help="time and compare what is delivered once more")
    own = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    chosen, words = parser.parse_args(own), sys.argv[len(own) + 2 :]
    words = ["--search-seconds", chosen.search_seconds, *words]
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before, {chosen.beside} programs beside")
    kept = True
    with busy(chosen.beside):
        for argument in chosen.models:
            found = []
            for _ in range(chosen.times):
                found.append(repeat(argument, words, anew=chosen.anew))
                print(line(argument, found[-1]), flush=True)
            kept &= conclude(argument, found)
    return 0 if kept else 1


def repeat(argument: str, words: Sequence[str], *, anew: bool) -> Repeat:
    """One run of a command from an empty cache."""
    model, feeds, budget = parts(argument)
    data = ["--data", feeds] if feeds else []
    limit = ["--lossless"] if budget == "lossless" else ["--max-drift", budget] if budget else []
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out"
        report, seconds = fresh_run(model, *words, *data, *limit, "-o", out)
        if "error" in report:
            return Repeat(f"{report['error']['ref']}", 1.0, 0.0, seconds, None)
        result = report["result"] or {}
        drift = (result.get("drift") or {}).get("relative_error") or 0.0
        ratio = result.get("latency_ratio") if report["status"] == "improved" else 1.0
        if anew and result:
            ratio = optim("bench", model, out, *data)["models"][1]["latency_ratio"]
            drift = optim("verify", model, out, *data, "--max-drift", "9")["drift"]["relative_error"]
    promised, reason = report["search"]["budget_seconds"], report["reason"]
    return Repeat(report["status"], ratio or 1.0, drift, seconds, promised, undecided="undecided" in reason)


def parts(argument: str) -> tuple[str, str, str]:
    """A model, its feeds and its budget; the last two may be empty."""
    model, equals, rest = argument.partition("=")
    if not equals:
        return argument, "", ""
    feeds, _, budget = rest.rpartition(":")
    return model, feeds, budget


def line(argument: str, one: Repeat) -> str:
    """A run in one line."""
    promised = f"{one.promised:4.0f}" if one.promised else "   ?"
    name = Path(parts(argument)[0]).name[-36:]
    figures = f"ratio {one.ratio:5.3f}  drift {one.drift:8.2g}  {one.seconds:5.0f} s of {promised} ({one.over:.2f})"
    return f"{name:36s} {one.verdict:14s} {figures}  load {os.getloadavg()[0]:.1f}{', undecided' * one.undecided}"


def conclude(argument: str, found: Sequence[Repeat]) -> bool:
    """Print what all runs of a model come to; returns whether its promises were kept."""
    verdicts = Counter(one.verdict for one in found)
    said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    ratios = sorted(one.ratio for one in found)
    over = max(one.over for one in found)
    kept = len(verdicts) == 1 and over <= KEPT
    print(f"  -> {said}; ratio {ratios[0]:.3f} to {ratios[-1]:.3f}; at most {over:.2f} of its seconds", flush=True)
    return kept


if __name__ == "__main__":
    sys.exit(main())
