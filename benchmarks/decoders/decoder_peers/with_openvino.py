"""OpenVINO GenAI: int4 by optimum-intel and NNCF."""

from __future__ import annotations

import importlib.metadata
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import serve


def build(model: Path, out: Path) -> None:
    """A folder of the exporter, with its defaults for int4: groups of 128, head and table in int8."""
    words = ["-m", model, "--task", "text-generation-with-past", "--weight-format", "int4", out]
    export = [Path(sys.executable).parent / "optimum-cli", "export", "openvino", *words]
    subprocess.run([*map(str, export)], check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})


class OpenVINO:
    """Its pipeline for answers, and the graph itself for scores, which the pipeline keeps to itself."""

    def __init__(self, folder: Path) -> None:
        import openvino_genai

        self._folder = folder
        self._pipeline = openvino_genai.LLMPipeline(str(folder), "CPU")
        self.version = importlib.metadata.version("openvino-genai")

    def answer(self, prompt: list[int], new: int) -> Iterator[int]:
        """As :class:`serve.Peer`."""
        import openvino
        import openvino_genai

        ids = np.asarray([prompt], np.int64)
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = new, True, False
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        came: queue.SimpleQueue[int] = queue.SimpleQueue()

        class Streamer(openvino_genai.StreamerBase):  # type: ignore[misc] # the package has no types
            def write(self, token: int | list[int]) -> openvino_genai.StreamingStatus:
                for one in token if isinstance(token, list) else [token]:
                    came.put(one)
                return openvino_genai.StreamingStatus.RUNNING

            def end(self) -> None:
                """Nothing is left."""

        thread = threading.Thread(target=self._pipeline.generate, args=(inputs, config, Streamer()))
        thread.start()
        for _ in range(new):
            yield came.get(timeout=600)
        thread.join()

    def scores(self, prompt: list[int]) -> np.ndarray:
        """As :class:`serve.Peer`."""
        import openvino

        core = openvino.Core()
        request = core.compile_model(self._folder / "openvino_model.xml", "CPU").create_infer_request()
        ids = np.asarray([prompt], np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(ids.size)[None]}
        request.infer({**given, "beam_idx": np.zeros(1, np.int32)})
        return np.array(request.get_tensor("logits").data[0, -1])


if __name__ == "__main__":
    serve.main(build, OpenVINO)
