"""What every peer does in a process of its own: it builds a model, and answers the benchmark's questions.

A worker is started as ``WORKER build MODEL OUT`` or ``WORKER serve OUT``; questions and answers are lines of JSON.

    {"prompt": [5, 6, 7], "new": 16}  ->  {"first_s": 0.1, "token_s": 0.02, "tokens": [..]}
    {"scores": [5, 6, 7]}             ->  {"scores": "base64 of float32"}
"""

from __future__ import annotations

import base64
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np


class Peer(Protocol):
    """A program that has opened its model."""

    version: str

    def answer(self, prompt: list[int], new: int) -> Iterator[int]:
        """Tokens as they come, greedily, and exactly so many: an end of text is none."""

    def scores(self, prompt: list[int]) -> np.ndarray:
        """Of the token behind a prompt, up to a constant."""


def main(build: Callable[[Path, Path], None], open_model: Callable[[Path], Peer]) -> None:
    """Build or serve, as the command says."""
    if sys.argv[1] == "build":
        build(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    peer = open_model(Path(sys.argv[2]))
    print(json.dumps({"version": peer.version}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answered(peer, json.loads(line))), file=answers, flush=True)


def _answered(peer: Peer, asked: dict[str, Any]) -> dict[str, Any]:
    if "scores" in asked:
        found = np.asarray(peer.scores(asked["scores"]), np.float32)
        return {"scores": base64.b64encode(found.tobytes()).decode()}
    stamps, tokens = [time.perf_counter()], []
    for token in peer.answer(asked["prompt"], asked["new"]):
        stamps.append(time.perf_counter())
        tokens.append(int(token))
    spans = np.diff(stamps).tolist()
    return {"first_s": spans[0], "token_s": statistics.median(spans[1:]), "tokens": tokens}
