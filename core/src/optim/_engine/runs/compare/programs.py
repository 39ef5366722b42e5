"""Folders of onnxruntime-genai among the models of a bench: that program generates beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.goals.generating import GENERATE, GENERATOR
from optim._engine.plugins.registry import Registry
from optim._engine.runs.mark import read_mark
from optim._engine.sources.naming import is_genai_folder
from optim.errors import OptimError
from optim.goal import GoalRequest

if TYPE_CHECKING:
    from optim._engine.jobs.lane import LaneClock
    from optim._engine.reports.answers import TimedModel


def is_program(path: Path) -> bool:
    """Whether a folder is onnxruntime-genai's alone; a run folder that is one too opens as a run folder."""
    return is_genai_folder(path) and read_mark(path) is None


def require_programs(paths: Sequence[Path], *, generate: bool) -> None:
    """Refuse a folder of onnxruntime-genai that cannot be timed.

    Raises:
        OptimError[conflicting-request]: it comes first, or answers are not timed.
    """
    for path in filter(is_program, paths):
        if path == paths[0] or not generate:
            raise OptimError.usage(
                "conflicting-request",
                f"{path} cannot be timed {'first' if generate else 'without --generate'}",
                "it is a folder of onnxruntime-genai, which answers prompts and takes no input samples",
                f"optim bench MODEL {path} --generate prompt=512,new=128",
            )


def clock_of_program(registry: Registry, path: Path, asked: GoalRequest) -> LaneClock:
    """Returns the clock that times the answers of a program that drives its own model.

    Raises:
        OptimError[runtime-missing]: that program is not installed.
        OptimError[plugin-missing]: no plugin times it.
    """
    from optim._engine.jobs.lane import LaneClock

    generator = registry.part(GENERATOR, f"answers of {path} cannot be timed")
    return LaneClock.of(GENERATE, generator.program_clock(path, asked))


def size_of_program(path: Path) -> int:
    """Bytes of its graph and weights."""
    return sum(file.stat().st_size for file in path.iterdir() if file.name.endswith((".onnx", ".data")))


def answers_only(timed: TimedModel) -> TimedModel:
    """The figures of its lane without those of the model that the lane has open."""
    unknown = {"latency_ms": None, "latency_ratio": None, "latency_ratio_ci": None, "peak_memory_bytes": None}
    return timed.model_copy(update={**unknown, "shapes": ()})
