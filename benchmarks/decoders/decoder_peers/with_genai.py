"""onnxruntime-genai: int4 by its own model builder."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import serve


def build(model: Path, out: Path) -> None:
    """A model folder, with the builder's defaults for the CPU: blocks of 32, symmetric, plain rounding."""
    cache = out.parent / "genai-cache"
    words = ["-i", model, "-o", out, "-p", "int4", "-e", "cpu", "-c", cache]
    subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", *map(str, words)], check=True)


class Genai:
    """Its generator."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime_genai

        self._genai = onnxruntime_genai
        self._model = onnxruntime_genai.Model(str(folder))
        self.version = importlib.metadata.version("onnxruntime-genai")

    def answer(self, prompt: list[int], new: int) -> Iterator[int]:
        """As :class:`serve.Peer`."""
        generator = self._generator(prompt, new)
        for _ in range(new):
            generator.generate_next_token()
            yield generator.get_next_tokens()[0]

    def scores(self, prompt: list[int]) -> np.ndarray:
        """As :class:`serve.Peer`."""
        return np.array(self._generator(prompt, 1).get_logits()).reshape(-1)

    def _generator(self, prompt: list[int], new: int) -> object:
        params = self._genai.GeneratorParams(self._model)
        length = len(prompt) + new
        params.set_search_options(max_length=length, min_length=length, do_sample=False, batch_size=1)
        generator = self._genai.Generator(self._model, params)
        generator.append_tokens(np.asarray([prompt], np.int32))
        return generator


if __name__ == "__main__":
    serve.main(build, Genai)
