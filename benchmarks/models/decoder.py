"""A small Llama that learns English byte by byte from text that Python ships, and its samples; the seed is fixed.

    python benchmarks/models/decoder.py --out FOLDER [--steps 600]

Writes FOLDER/model.onnx, calib.npz, judged.npz, made.json (its perplexity) and torch/, the model as a Hugging Face
folder. A sample is one token behind 127 of a paragraph, with the past that the model itself made of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "decoders"))
from exports import write_samples
from paragraphs import paragraphs, spread
from text_decoder import train

import optim

PAST, CALIBRATION, JUDGED = 127, 16, 8


def main() -> None:
    """Train, export, and draw samples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=600)
    chosen = parser.parse_args()
    out = chosen.out
    halves = [paragraphs(judged) for judged in (False, True)]
    perplexity = train(out / "torch", chosen.steps, *("\n\n".join(half) for half in halves))
    optim.export(out / "torch", out / "exported")
    (graph,) = (out / "exported").rglob("*.onnx")
    onnx.save(onnx.load(graph), out / "model.onnx")
    shutil.rmtree(out / "exported")
    session = onnxruntime.InferenceSession(str(out / "model.onnx"), providers=["CPUExecutionProvider"])
    for name, half, count in zip(("calib", "judged"), halves, (CALIBRATION, JUDGED), strict=True):
        long = [text for text in half if len(text.encode()) > PAST]
        write_samples(out / f"{name}.npz", [sample(session, text) for text in spread(long, count)])
    (out / "made.json").write_text(json.dumps({"steps": chosen.steps, "perplexity_of_a_byte": perplexity}))


def sample(session: Any, text: str) -> dict[str, Any]:
    """One token behind the past of those before it."""
    ids = np.frombuffer(text.encode()[: PAST + 1], np.uint8).astype(np.int64)[None]
    outputs = [one.name for one in session.get_outputs()]
    found = dict(zip(outputs, session.run(None, step(session, ids[:, :PAST], {})), strict=True))
    past = [name for name in (one.name for one in session.get_inputs()) if "past" in name]
    present = [name for name in outputs if name != "logits"]
    return step(session, ids[:, PAST:], {name: found[made] for name, made in zip(past, present, strict=True)})


def step(session: Any, ids: Any, past: dict[str, Any]) -> dict[str, Any]:
    """Inputs for these tokens behind a past; without one it is empty."""
    inputs = {one.name: one.shape for one in session.get_inputs()}
    before = next(iter(past.values())).shape[2] if past else 0
    total = before + ids.shape[1]
    known = {
        "input_ids": ids,
        "attention_mask": np.ones((1, total), np.int64),
        "position_ids": np.arange(before, total)[None],
    }
    empty = {n: np.zeros((1, shape[1], 0, shape[3]), np.float32) for n, shape in inputs.items() if "past" in n}
    return {name: {**empty, **known, **past}[name] for name in inputs}


if __name__ == "__main__":
    main()
