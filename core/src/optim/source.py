"""Sources: what the user wants to export, and the modules that a plugin makes of it.

A pass of the stage pre-export loads a source, other passes change it, and an exporter turns each component into a
graph. Core needs no torch: it runs a component through its ``run``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from optim.arrays import Array, Feeds, Outputs
from optim.model import TensorInfo
from optim.target import Target

Weights: TypeAlias = Literal["copy", "link"]

CONFIG_FILE = "config.json"
"""File that marks a folder as a Hugging Face model."""

MODULES_FILE = "modules.json"
"""File that marks a folder as a model of sentence-transformers."""

ADAPTER_FILE = "adapter_config.json"
"""File that marks a folder as a PEFT adapter."""


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """A source as the user named it. It only has JSON values, because it goes from process to process.

    Attributes:
        spec: ``package.module:factory``, or a folder with ``config.json`` and weights.
        arguments: keyword arguments of the factory.
        dynamic: names of the dimensions by input; an empty name leaves a dimension fixed.
        state: arguments that carry state: the module returns their next values, which its next step gets.
        rename: name in the graph, by input or output of the module.
        task: task of a Hugging Face model; empty: the task of its architecture.
        weights: ``copy``: the graph has data files of its own; ``link``: the graph points into the user's files.
        allow_pickle: whether optim may read weights from a pickle, which runs code.
        trust_remote_code: whether optim may run code in the folder.
        seed: random seed.
        max_drift: largest drift of each output of the graph from the source; None: rounding only.
    """

    spec: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    dynamic: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    state: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    task: str = ""
    weights: Weights = "copy"
    allow_pickle: bool = False
    trust_remote_code: bool = False
    seed: int = 0
    max_drift: float | None = None

    @property
    def folder(self) -> Path | None:
        """The folder, if the source is a folder."""
        path = Path(self.spec)
        return path if path.is_dir() else None


@dataclass(frozen=True, slots=True)
class TrialStep:
    """One run of a trial.

    Attributes:
        feeds: input arrays by name. From the second step on, without the state that the previous step returns.
        valid: boolean array by output, broadcastable to the output: values that count. All values of an absent output
            count.
    """

    feeds: Feeds
    valid: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trial:
    """Inputs for comparing an exported graph with its module, in shapes that the exporter has not seen.

    Attributes:
        name: name in messages, e.g. ``left padding, 3 steps``.
        steps: one step; for a decoder, a prefill and decode steps, each with the state that the previous step returned.
    """

    name: str
    steps: tuple[TrialStep, ...]


@dataclass(frozen=True, slots=True)
class Generation:
    """Greedy generation of the source's own library for a prompt.

    Attributes:
        prompt: ``input_ids`` and ``attention_mask`` of a decoder, or inputs of the encoder if there is one.
        tokens: int64, shape (batch, new tokens). Rows end with padding after the end of the text.
    """

    prompt: Feeds
    tokens: Array


@dataclass(frozen=True, slots=True)
class Component:
    """A module that becomes one graph.

    Attributes:
        name: ``model`` for the only component, else e.g. ``encoder``, ``decoder``.
        module: ``torch.nn.Module`` in evaluation mode. Its forward takes one list, the tensors of ``inputs``, and
            returns a tuple, the tensors of ``outputs``.
        inputs: inputs in order. A dimension with a name should be dynamic.
        outputs: outputs in order, with the shapes that are known.
        example: inputs for the exporter: sizes of at least 2, no two equal by accident, and a padded row.
        state: by output, the input that takes its value in the next step.
        trials: makes new inputs for comparing the graph with the module.
        run: runs the module on arrays.
    """

    name: str
    module: Any
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    example: Feeds
    trials: Callable[[], Iterable[Trial]]
    run: Callable[[Feeds], Outputs]
    state: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """A source on its way to graphs. Passes may change its modules in place.

    Attributes:
        request: the request of the user.
        components: modules to export; empty until a pass has loaded the source.
        facts: JSON values for ``export.json``: task, architecture, token ids that end a text.
        weight_files: safetensors files whose tensors the modules map into memory.
        generations: makes greedy generations with the source's own library; None: the source does not generate.
    """

    request: SourceRequest
    components: tuple[Component, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    weight_files: tuple[Path, ...] = ()
    generations: Callable[[], Iterable[Generation]] | None = None


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The context of passes over sources, and of exporters.

    Attributes:
        target: where the model will run.
        scratch: an empty folder. optim removes it afterwards.
        log: logger of the pass. The report shows messages of level INFO or above, with the notes of the step.
        report_progress: reports progress, called with a share in 0..1 and a few words.
    """

    target: Target
    scratch: Path
    log: logging.Logger
    report_progress: Callable[[float, str], None]
