"""optim at several budgets beside the best peer within each, on one model, in about five minutes.

    python benchmarks/peers/curve.py minilm                  # also bert-base, vit-base, gpt2, t5, whisper, deberta
    python benchmarks/peers/curve.py t5 --budgets lossless 0.025 --search-seconds auto

Makes the model (benchmarks/models/exports.py; the encoders of T5-small and Whisper base, and a DeBERTa-v2, by
encoders.py, six layers each) unless it lies in --folder already, runs a few quick peers and ``optim run`` at each
budget, on samples for calibration, then times all results in one race with the original, and compares them on eight
samples that nobody calibrated on (benchmarks/models/unseen.py). Drift is the gate's: the worst over outputs and
samples; beside it stand the least and the greatest of single samples. A result is within a budget where all eight are.
The full comparison is ``make bench``. The exit status is 1 where a peer within a budget is faster than what optim
delivers by more than both intervals, or where optim's is beyond its budget on these samples.
``--drift-only`` leaves timing out, for a busy machine.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from commands import fresh_run, optim
from samples import samples_of

HERE = Path(__file__).resolve().parents[1]

LOSSLESS, ROUNDING = "lossless", 1e-4
"""A budget, and the drift of what changes nothing but rounding."""

BUDGETS = {
    "minilm": ("0.05", "0.1"),
    "bert-base": ("0.01", "0.026"),
    "vit-base": ("0.01", "0.036"),
    "gpt2": ("0.03",),
    "t5": (LOSSLESS, "0.025"),
    "whisper": ("0.01",),
    "deberta": ("0.05",),
}
PEERS = ("ort-dynamic-best", "ort-static-products", "ort-8-bits", "onnxscript")
"""Those that came nearest to the front on these models; each takes 5 to 30 s."""

ENCODERS, LAYERS = ("t5", "whisper", "deberta"), "6"
"""Models of encoders.py, and how deep they are made: T5 and Whisper as they are published."""


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
class Given:
    """A model, what tools may look at, and what is timed."""

    model: Path
    calib: Path
    feeds: Path


@dataclass(frozen=True)
class Figures:
    """What a result came to: latency ratio with its interval, and drift of each unseen sample."""

    ratio: float
    low: float
    high: float
    drifts: tuple[float, ...]

    @property
    def drift(self) -> float:
        """The worst, as the gate counts it."""
        return max(self.drifts)


def main() -> int:
    """Print a line for each result, then one for each budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(BUDGETS))
    parser.add_argument("--budgets", nargs="+", metavar="DRIFT")
    parser.add_argument("--search-seconds", default="60")
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".cache" / "bench" / "models")
    parser.add_argument("--drift-only", action="store_true", help="time nothing")
    chosen = parser.parse_args()
    given, unseen = made_in(chosen.folder, chosen.model), chosen.folder / f"{chosen.model}.unseen.npz"
    make("unseen.py", chosen.model, chosen.folder)
    budgets = chosen.budgets or BUDGETS[chosen.model]
    with tempfile.TemporaryDirectory() as folder:
        made = [one for name in PEERS if (one := peer(name, given.model, given.calib, Path(folder))) is not None]
        made += [run(given.model, given.calib, budget, chosen.search_seconds, Path(folder)) for budget in budgets]
        print(f"made {', '.join(one.name for one in made)}; measuring them", flush=True)
        drifts = compare(given.model, made, samples_of(str(unseen)))
        timed = {} if chosen.drift_only else measure(given.model, made, given.feeds)
        figures = {one.name: Figures(*timed.get(one.name, (math.nan,) * 3), drifts[one.name]) for one in made}
    print("| result | ratio | 95 % | drift | of single samples | made in s | |\n|---|---|---|---|---|---|---|")
    for one in made:
        found = figures[one.name]
        print(
            f"| {one.name} | {found.ratio:.3f} | {found.low:.3f} to {found.high:.3f} | {found.drift:.4f} "
            f"| {min(found.drifts):.4f} to {found.drift:.4f} | {one.seconds:.0f} | {one.said} |"
        )
    behind = [budget for budget in budgets if not conclude(budget, figures)]
    return 1 if behind else 0


def made_in(folder: Path, name: str) -> Given:
    """A model and its samples, made where they are not there."""
    if name in ENCODERS:
        given = Given(folder / f"{name}.onnx", folder / f"{name}.npz", folder / f"{name}.npz")
        script, words = "encoders.py", ("--layers", LAYERS)
    else:
        given = Given(folder / f"{name}-dynamo.onnx", folder / f"{name}.calib.npz", folder / f"{name}.feeds.npz")
        script, words = "exports.py", ()
    if not given.model.is_file():
        make(script, name, folder, *words)
    return given


def make(script: str, name: str, folder: Path, *words: str) -> None:
    """Run a script of benchmarks/models."""
    command = [sys.executable, str(HERE / "models" / script), name, "--out", str(folder), *words]
    subprocess.run(command, check=True)


def peer(name: str, model: Path, calib: Path, folder: Path) -> Made | None:
    """Makes the model by a peer; returns None if that fails, or if onnxruntime does not take it."""
    out, started = folder / name, time.monotonic()
    command = [sys.executable, str(HERE / "peers" / "peer.py"), name, str(model), str(out), "--calib", str(calib)]
    done = subprocess.run(command, capture_output=True, check=False, cwd=folder)
    shutil.rmtree(out / "work", ignore_errors=True)
    if done.returncode:
        print(f"{name}: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}")
        return None
    made = Made(name, out / "model.onnx", "", time.monotonic() - started)
    return made if _opens(made) else None


def _opens(result: Made) -> bool:
    """Whether onnxruntime takes what a peer made; else it is said."""
    try:
        open_model(result.path)
    except Exception as error:
        print(f"{result.name} made a model that does not open: {str(error).splitlines()[0][:160]}")
        return False
    return True


def run(model: Path, calib: Path, budget: str, search_seconds: str, folder: Path, *words: str) -> Made:
    """What optim makes of it within a budget, or lossless, from an empty cache."""
    out = folder / f"optim-{budget}"
    limit = ("--lossless",) if budget == LOSSLESS else ("--max-drift", budget)
    told = ("--data", str(calib), *limit, "--search-seconds", search_seconds, *words)
    report, seconds = fresh_run(str(model), "-o", str(out), *told)
    if "error" in report:
        raise SystemExit(f"optim at {budget}: {report['error']['what']}")
    steps = [step["pass"] for step in report["steps"] if step["status"] == "kept"]
    path = out if report["result"] else model
    return Made(f"optim {budget}", path, f"{report['status']}: {' + '.join(steps)}", seconds)


def compare(model: Path, made: list[Made], samples: Sequence[dict[str, Any]]) -> dict[str, tuple[float, ...]]:
    """The drift of each result on every sample; infinite where it does not run."""
    import optim as framework
    from optim.drift import compare_outputs

    expected = outputs(open_model(model), samples)
    found = {}
    for one in made:
        try:
            session = framework.load(one.path) if one.path.is_dir() else open_model(one.path)
            got = outputs(session, samples)
        except Exception as error:
            print(f"{one.name}: {error}")
            found[one.name] = (math.inf,)
            continue
        del session
        compared = compare_outputs(zip(expected, got, strict=True))
        found[one.name] = tuple(map(max, zip(*(output.by_sample for output in compared), strict=True)))
    return found


def open_model(path: Path) -> Any:
    """A session of onnxruntime with its defaults."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def outputs(session: Any, samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a session gives for each sample, by name."""
    names = [one.name for one in session.get_outputs()]
    return [dict(zip(names, session.run(None, sample), strict=True)) for sample in samples]


def measure(model: Path, made: list[Made], feeds: Path) -> dict[str, tuple[float, float, float]]:
    """The latency ratio of each with its interval, all of them timed together."""
    paths = [str(one.path) for one in made]
    answer = optim("bench", str(model), *paths, "--data", str(feeds), "--seconds", "60")
    if "error" in answer:
        raise SystemExit(f"optim bench: {answer['error']['what']}: {answer['error']['cause']}")
    return {
        one.name: (math.inf,) * 3
        if found["error"]
        else (found["latency_ratio"], *(found["latency_ratio_ci"] or (0.0, math.inf)))
        for one, found in zip(made, answer["models"][1:], strict=True)
    }


def conclude(budget: str, figures: Mapping[str, Figures]) -> bool:
    """Print who is ahead within a budget; whether it is optim, or nobody, and within the budget."""
    ours, most = figures[f"optim {budget}"], ROUNDING if budget == LOSSLESS else float(budget)
    beyond = ours.drift > most
    if beyond:
        print(f"{budget}: what optim delivered drifts by {ours.drift:.4f} on a sample that it did not see")
    within = {name: one for name, one in figures.items() if not name.startswith("optim ") and one.drift <= most}
    if math.isnan(ours.ratio):
        print(f"{budget}: {', '.join(within) or 'no peer'} within it, optim at {ours.drift:.4f}")
        return not beyond
    name = min(within, key=lambda name: within[name].ratio, default="")
    if not name:
        print(f"{budget}: {ours.ratio:.3f} at {ours.drift:.4f}; no peer keeps within it")
        return not beyond
    best = within[name]
    behind = best.high < ours.low
    word = "behind" if behind else "ahead of" if ours.high < best.low else "level with"
    print(f"{budget}: {ours.ratio:.3f} at {ours.drift:.4f}, {word} {name}, {best.ratio:.3f} at {best.drift:.4f}")
    return not behind and not beyond


if __name__ == "__main__":
    sys.exit(main())
