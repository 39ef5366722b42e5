"""A plan: which steps go before and after a model, as plain values that a lock file and another process can hold.

A plan is made from a preset or from explicit lists, and then read by three: :mod:`optim_prepost.compose` builds the
graph from it, :mod:`optim_prepost.reference` computes the same with Pillow, NumPy and tokenizers, and
:mod:`optim_prepost.web` makes a page for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Port:
    """An input of the composed model: its name, ONNX element type in lower case, and sizes or names of sizes."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """An input of a step that is not the output of the step before it at the same place.

    Attributes:
        producer: label of an earlier step.
        output: place among its outputs.
        input: place among the inputs of the step that the link belongs to.
    """

    producer: str
    output: int
    input: int


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step.

    Attributes:
        kind: class in onnxruntime-extensions or here, or ``package.module:Class``.
        params: keyword arguments of its constructor, JSON values.
        label: what links call it; the kind unless it was named.
        links: inputs that come from elsewhere than the step before.
    """

    kind: str
    params: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    links: tuple[Link, ...] = ()

    @property
    def name(self) -> str:
        """The label, or what stands for it."""
        return self.label or str(self.params.get("name") or self.kind.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class PlanResult:
    """An output of the composed model: its name, and the step and place it comes from."""

    name: str
    producer: str
    output: int = 0


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Steps around a model.

    Attributes:
        inputs: of the composed model.
        pre: steps before the model, in order.
        post: steps after it.
        results: outputs of the composed model; empty: whatever nothing else takes.
        opset: at least this version of the standard operators.
        preset: that made the plan, or empty.
        task: what a page needs to show results: labels, sizes, the tokenizer; JSON values.
        samples: folder or file with raw samples of the user's own, or empty.
    """

    inputs: tuple[Port, ...]
    pre: tuple[PlannedStep, ...] = ()
    post: tuple[PlannedStep, ...] = ()
    results: tuple[PlanResult, ...] = ()
    opset: int = 18
    preset: str = ""
    task: Mapping[str, Any] = field(default_factory=dict)
    samples: str = ""

    @property
    def steps(self) -> tuple[PlannedStep, ...]:
        """All of them, in order."""
        return self.pre + self.post
