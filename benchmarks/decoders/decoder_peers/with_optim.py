"""optim: a run folder, opened by ``optim.load``; what it is built with is an argument."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import serve


def build(model: Path, out: Path) -> None:
    """A run folder, as the options behind MODEL and OUT say."""
    words = ["run", model, "-o", out, "--goal", "generate", *sys.argv[4:]]
    subprocess.run([sys.executable, "-m", "optim", *map(str, words)], check=True)


class Optim:
    """What ``optim.load`` opens."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        import optim

        self._decoder = optim.load(folder)
        self.version = f"onnxruntime {onnxruntime.__version__}"

    def answer(self, prompt: list[int], new: int) -> Iterator[int]:
        """As :class:`serve.Peer`."""
        self._decoder.facts.pop("eos", None)
        for token in self._decoder.stream([prompt], max_new_tokens=new):
            yield int(token[0])

    def scores(self, prompt: list[int]) -> np.ndarray:
        """As :class:`serve.Peer`."""
        session, ids = self._decoder.session, np.asarray([prompt], np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(ids.size)[None]}
        names = {info.name for info in session.get_inputs()}
        past = self._decoder.interface.zeros(1, 0)
        return session.run(["logits"], {**{name: given[name] for name in names & given.keys()}, **past})[0][0, -1]


if __name__ == "__main__":
    serve.main(build, Optim)
