"""What a task answers with a result in place of the original, for models that no library of a wheel runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent.parent
sys.path.append(str(HERE / "models"))

Run = Callable[[dict[str, Any]], list[Any]]

BYTES, TEXTS = 127, 8


def agreement(task: str, original: Run, other: Run) -> str:
    """How many answers are as before."""
    before, after = (TASKS[task](run) for run in (original, other))
    return f"{sum(a == b for a, b in zip(before, after, strict=True))} of {len(before)} {WORDS[task]}"


def nearest(run: Run) -> list[int]:
    """For each held-out sentence of examples/minilm the nearest other one."""
    from sentences import encode

    lines = (HERE.parent / "examples" / "minilm" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    known = [line for line in lines if line and not line.startswith("#")]
    vectors = np.stack([run(encode(text))[0][0].mean(axis=0) for i, text in enumerate(known) if i // 2 % 2])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = vectors @ vectors.T
    np.fill_diagonal(cosine, -1)
    return [int(one) for one in cosine.argmax(axis=1)]


def next_bytes(run: Run) -> list[int]:
    """The likeliest byte behind every prefix of held-out paragraphs."""
    from paragraphs import paragraphs, spread

    layers, heads, width = 4, 2, 32
    empty = np.zeros((1, heads, 0, width), np.float32)
    past = {f"past_key_values.{layer}.{part}": empty for layer in range(layers) for part in ("key", "value")}
    long = [text.encode() for text in paragraphs(judged=True) if len(text.encode()) > BYTES]
    found: list[int] = []
    for text in spread([one.decode() for one in long], TEXTS):
        ids = np.frombuffer(text.encode()[:BYTES], np.uint8).astype(np.int64)[None]
        places = {"attention_mask": np.ones_like(ids), "position_ids": np.arange(BYTES)[None]}
        logits = run({"input_ids": ids, **places, **past})[0]
        found += [int(one) for one in logits.argmax(axis=-1).ravel()]
    return found


TASKS = {"minilm": nearest, "decoder": next_bytes}
WORDS = {"minilm": "nearest sentences as before", "decoder": "next bytes as before"}
