"""optim at several budgets beside the best peer within each, on one model, in about five minutes.

    python benchmarks/curve.py minilm                         # also bert-base, vit-base
    python benchmarks/curve.py vit-base --budgets 0.036 --search-seconds 60

Makes the model (benchmarks/models/exports.py) unless it lies in --folder already, runs a few quick peers and
``optim run`` at each budget, on samples for calibration, then times all results in one race with the original and
compares them, on another sample. The full comparison is ``make bench``. The exit status is 1 where a peer within a
budget is faster than what optim delivers by more than both intervals.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from optimize import optim

HERE = Path(__file__).resolve().parent
BUDGETS = {"minilm": ("0.05", "0.1"), "bert-base": ("0.01", "0.026"), "vit-base": ("0.01", "0.036")}
PEERS = ("ort-dynamic-best", "ort-static-products", "ort-8-bits", "onnxscript")
"""Those that came nearest to the front on these models; each takes 5 to 30 s."""

HEADS = {"minilm": ("12", "384"), "bert-base": ("12", "768"), "vit-base": ("12", "768")}


@dataclass(frozen=True)
class Made:
    """A result.

    Attributes:
        name: of the peer, or ``optim`` with its budget.
        path: a model or a run folder.
        said: what the run said of itself.
        seconds: that it took.
    """

    name: str
    path: Path
    said: str
    seconds: float


@dataclass(frozen=True)
class Figures:
    """What a result came to: latency ratio with its interval, and drift."""

    ratio: float
    low: float
    high: float
    drift: float


def main() -> int:
    """Print a line for each result, then one for each budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(BUDGETS))
    parser.add_argument("--budgets", nargs="+", metavar="DRIFT")
    parser.add_argument("--search-seconds", default="60")
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".cache" / "bench" / "models")
    chosen = parser.parse_args()
    model = chosen.folder / f"{chosen.model}-dynamo.onnx"
    if not model.is_file():
        maker = [sys.executable, str(HERE / "models" / "exports.py"), chosen.model, "--out", str(chosen.folder)]
        subprocess.run(maker, check=True)
    budgets = chosen.budgets or BUDGETS[chosen.model]
    with tempfile.TemporaryDirectory() as folder:
        calib = model.with_name(f"{chosen.model}.calib.npz")
        made = [one for name in PEERS if (one := peer(name, model, calib, Path(folder))) is not None]
        made += [run(model, calib, budget, chosen.search_seconds, Path(folder)) for budget in budgets]
        print(f"made {', '.join(one.name for one in made)}; timing them", flush=True)
        figures = measure(model, made, model.with_name(f"{chosen.model}.feeds.npz"))
    print("| result | ratio | 95 % | drift | made in s | |\n|---|---|---|---|---|---|")
    for one in made:
        found = figures[one.name]
        print(
            f"| {one.name} | {found.ratio:.3f} | {found.low:.3f} to {found.high:.3f} | {found.drift:.4f} "
            f"| {one.seconds:.0f} | {one.said} |"
        )
    behind = [budget for budget in budgets if not conclude(budget, figures)]
    return 1 if behind else 0


def peer(name: str, model: Path, calib: Path, folder: Path) -> Made | None:
    """What a peer makes of the model; None where it fails."""
    out, started = folder / name, time.monotonic()
    heads, hidden = HEADS[model.stem.removesuffix("-dynamo")]
    command = [sys.executable, str(HERE / "peers" / "peer.py"), name, str(model), str(out), "--calib", str(calib)]
    done = subprocess.run(
        [*command, "--heads", heads, "--hidden", hidden], capture_output=True, check=False, cwd=folder
    )
    shutil.rmtree(out / "work", ignore_errors=True)
    if done.returncode:
        print(f"{name}: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}")
        return None
    return Made(name, out / "model.onnx", "", time.monotonic() - started)


def run(model: Path, calib: Path, budget: str, search_seconds: str, folder: Path) -> Made:
    """What optim makes of it within a budget, from an empty cache."""
    out, started = folder / f"optim-{budget}", time.monotonic()
    words = ("--data", str(calib), "--max-drift", budget, "--search-seconds", search_seconds, "--fresh")
    report = optim("run", str(model), "-o", str(out), *words)
    seconds = time.monotonic() - started
    if "error" in report:
        raise SystemExit(f"optim at {budget}: {report['error']['what']}")
    steps = [step["pass"] for step in report["steps"] if step["status"] == "kept"]
    path = out if report["result"] else model
    return Made(f"optim {budget}", path, f"{report['status']}: {' + '.join(steps)}", seconds)


def measure(model: Path, made: list[Made], feeds: Path) -> dict[str, Figures]:
    """All of them timed together, and each compared."""
    paths = [str(one.path) for one in made]
    timed = optim("bench", str(model), *paths, "--data", str(feeds), "--seconds", "60")["models"][1:]
    figures = {}
    for one, found in zip(made, timed, strict=True):
        if found["error"]:
            figures[one.name] = Figures(*[float("inf")] * 4)
            continue
        compared = optim("verify", str(model), str(one.path), "--data", str(feeds), "--max-drift", "1e9")
        drift = (compared.get("drift") or {}).get("relative_l2")
        low, high = found["latency_ratio_ci"]
        figures[one.name] = Figures(found["latency_ratio"], low, high, float("inf") if drift is None else drift)
    return figures


def conclude(budget: str, figures: dict[str, Figures]) -> bool:
    """Print who is ahead within a budget; whether it is not a peer."""
    ours = figures[f"optim {budget}"]
    within = {name: one for name, one in figures.items() if name in PEERS and one.drift <= float(budget)}
    name = min(within, key=lambda name: within[name].ratio, default="")
    if not name:
        print(f"{budget}: {ours.ratio:.3f} at {ours.drift:.4f}; no peer keeps within it")
        return True
    best = within[name]
    behind = best.high < ours.low
    word = "behind" if behind else "ahead of" if ours.high < best.low else "level with"
    print(f"{budget}: {ours.ratio:.3f} at {ours.drift:.4f}, {word} {name}, {best.ratio:.3f} at {best.drift:.4f}")
    return not behind


if __name__ == "__main__":
    sys.exit(main())
