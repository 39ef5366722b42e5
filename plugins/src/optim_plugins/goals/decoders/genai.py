"""Answers of onnxruntime-genai, in a lane of its own: another program beside the models of a bench.

It drives its model itself, from the prompt to the last token, so a round is a whole answer and every token is timed.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optim.errors import OptimError
from optim.goal import Figure, GenerationTimes, GoalClock, GoalRequest, Subject, Timer
from optim_plugins.goals.decoders.interface import interface_of
from optim_plugins.goals.decoders.timing import depths_of, past_bytes

_CONFIG_FILE = "genai_config.json"

_BESIDE = 1
"""Tokens on either side of a depth, whose median counts: one alone may meet another program."""


def require_installed(folder: Path) -> None:
    """Refuse a folder that nothing here runs.

    Raises:
        OptimError[runtime-missing]: onnxruntime-genai is not installed.
    """
    if importlib.util.find_spec("onnxruntime_genai") is None:
        raise OptimError.usage(
            "runtime-missing",
            f"nothing here runs {folder}",
            f"it is a folder of onnxruntime-genai, as {_CONFIG_FILE} says, and that is not installed",
            "pip install onnxruntime-genai",
        )


@dataclass(frozen=True, slots=True)
class GenaiClock(GoalClock):
    """Generates with onnxruntime-genai, whatever model the lane has open.

    Attributes:
        folder: of its model.
        prompt: tokens of the prompt.
        new: tokens of the answer.
    """

    folder: str
    prompt: int
    new: int

    def start(self, subject: Subject) -> Timer:
        """The program with its model open."""
        return _Genai(Path(self.folder), GoalRequest(self.prompt, self.new))


class _Genai(Timer):
    def __init__(self, folder: Path, workload: GoalRequest) -> None:
        import onnxruntime_genai

        from optim.onnx import describe_model

        self._genai, self._workload, self._depths = onnxruntime_genai, workload, depths_of(workload)
        self._model = onnxruntime_genai.Model(str(folder))
        config = json.loads((folder / _CONFIG_FILE).read_text(encoding="utf-8"))
        graph = describe_model(folder / config["model"]["decoder"]["filename"], digest=folder.name)
        interface = interface_of(graph.inputs, [info.name for info in graph.outputs])
        is_shared = config["search"].get("past_present_share_buffer", False)
        self._past_bytes = tuple(past_bytes(interface, depth, in_place=is_shared) for depth in self._depths)
        random = np.random.default_rng(0)
        self._ids = random.integers(0, config["model"]["vocab_size"], (1, workload.prompt)).astype(np.int32)
        self.round()  # the first run of a length finds its memory

    def round(self) -> Figure:
        """A whole answer, and one token more, for it is timed at the depth behind the last."""
        work = self._workload
        params = self._genai.GeneratorParams(self._model)
        length = work.prompt + work.new + 1
        params.set_search_options(max_length=length, min_length=length, do_sample=False, batch_size=1)
        stamps = [time.perf_counter()]
        generator = self._genai.Generator(self._model, params)
        generator.append_tokens(self._ids)
        for _ in range(work.new + 1):
            generator.generate_next_token()
            stamps.append(time.perf_counter())
        first_s, *spans = np.diff(stamps).tolist()
        places = [depth - work.prompt for depth in self._depths]
        tokens = tuple(statistics.median(spans[max(0, at - _BESIDE) : at + _BESIDE + 1]) for at in places)
        found = GenerationTimes(work.prompt, work.new, first_s, self._depths, tokens, self._past_bytes)
        return Figure(found.seconds, generation=found)
