"""The originals and their samples, made once, each checked: what judges is not what calibrates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from apart import check_apart
from plan import HERE, WORK, Model
from samples import samples_of

WHEELS = WORK / "wheels"
JUDGED = "8"


def made(model: Model, *, tiny: bool = False) -> dict[str, Any]:
    """Make a model unless it is there; its samples, counted and by digest.

    Raises:
        SamplesOverlapError: a judging sample is one of calibration.
    """
    if not model.judged.is_file():
        print(f"{model.name}: making the original", flush=True)
        model.folder.mkdir(parents=True, exist_ok=True)
        MAKERS[model.source](model, tiny)
    return check_apart(samples_of(str(model.calib)), samples_of(str(model.judged)))


def in_wheel(model: Model, tiny: bool) -> None:
    """Its own library runs, and what it feeds the model is noted."""
    from libraries import environment, in_library

    in_library(environment(WHEELS), model.name, "record", str(model.folder))
    (model.folder / "unseen.npz").rename(model.judged)


def sentences(model: Model, tiny: bool) -> None:
    """MiniLM of examples/minilm."""
    script("sentences.py", "--out", str(model.folder))


def decoder(model: Model, tiny: bool) -> None:
    """Trained here."""
    script("decoder.py", "--out", str(model.folder), "--steps", "10" if tiny else "600")


def exported(model: Model, tiny: bool) -> None:
    """From its configuration."""
    words = ["--out", str(model.folder), "--judged", JUDGED, "--outliers", *(["--tiny"] if tiny else [])]
    script("exports.py", model.name, *words)
    (model.folder / f"{model.name}-dynamo.onnx").rename(model.path)
    for name in ("calib", "judged"):
        (model.folder / f"{model.name}.{name}.npz").rename(model.folder / f"{name}.npz")


def script(name: str, *words: str) -> None:
    """Run a script of benchmarks/models.

    Raises:
        SystemExit: it failed.
    """
    if subprocess.run([sys.executable, str(HERE / "models" / name), *words], check=False).returncode:
        raise SystemExit(f"{name} failed; its error stands above")


MAKERS = {"wheel": in_wheel, "minilm": sentences, "decoder": decoder, "export": exported}


def torch_source(model: Model) -> str:
    """What modules.py opens for this model; empty where there is no torch module."""
    known = {"minilm": "minilm", "decoder": str(Path(model.folder / "torch")), "export": model.name}
    return known.get(model.source, "")
