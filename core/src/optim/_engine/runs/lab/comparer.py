"""The questions of core to the plugin that compares models without a search: is one right, and which is faster?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from optim._engine.plugins.plugin import EnginePart

if TYPE_CHECKING:
    from optim._engine.reports.answers import Benchmark, Verification
    from optim._engine.runs.lab.conditions import Conditions
    from optim._engine.search.settings import RunSettings


class ModelComparer(Protocol):
    """Compares models. A class of it is made without arguments."""

    def verify(
        self, reference: Path, other: Path, conditions: Conditions, asked: RunSettings, *, other_target: str
    ) -> Verification:
        """Compare every output of ``other`` with ``reference`` on the same samples.

        Raises:
            OptimError: a model, the samples or the target cannot be used.
        """

    def bench(
        self,
        models: Sequence[Path],
        conditions: Conditions,
        *,
        seconds: float,
        beside: Sequence[str],
        asked: RunSettings,
    ) -> Benchmark:
        """Time models in turns, each in a process of its own.

        Args:
            models: ``.onnx`` files, run folders, or sources, which are exported; behind the first, to which ratios are,
                also folders of onnxruntime-genai, where answers are asked for.
            conditions: under which all run; of one model on several targets too.
            seconds: of racing, at most.
            beside: targets that run the source of the first model itself, e.g. ``torch-eager``.
            asked: a goal, whose own clock has its turn in each round too.

        Raises:
            OptimError[not-timed]: time means nothing on the target.
            OptimError[conflicting-request]: several models on several targets.
            OptimError[not-a-source]: ``beside`` is given, and the first model was not exported from anything.
            OptimError: a model or the samples cannot be used.
        """


COMPARER: EnginePart[ModelComparer] = EnginePart("comparer", "diagnose")
"""The part of a plugin that compares models; without one, an error names the plugin to install."""
