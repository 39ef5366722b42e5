"""What both passes that set options of a provider of NVIDIA's have in common."""

from __future__ import annotations

from typing import Protocol

from optim import APPLICABLE, Applicable, Model, OptimError, Pass, Target

ON = "True"
"""An option of the TensorRT provider that is on: in Python it takes True and False alone, unlike CUDA's 1 and 0."""


class _MayRecord(Protocol):
    """Options with a CUDA graph among them."""

    @property
    def cuda_graph(self) -> bool | None:
        """Whether the calls of one run are recorded, and replayed in the next."""


class ProviderSettings(Pass):
    """Session settings that only a GPU reads."""

    session_only = True

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Always."""
        return APPLICABLE

    def refuse_for(self, options: _MayRecord, model: Model, target: Target) -> None:
        """A CUDA graph of a model whose sizes may change."""
        dynamic = [info.name for info in model.inputs if info.is_dynamic]
        if options.cuda_graph and dynamic:
            raise OptimError.usage(
                "dynamic-cuda-graph",
                "a CUDA graph cannot be made of this model",
                f"input {dynamic[0]} is dynamic, and a CUDA graph has fixed sizes",
                '--with "ort.fix-shapes" makes it fixed',
                "optim-plugins",
            )

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """On a GPU: elsewhere the settings are written and never read."""
        if target.timed:
            return APPLICABLE
        return Applicable.no("nothing is timed without a GPU, and these settings change nothing else")
