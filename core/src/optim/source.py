"""What comes before a model: a source as the user named it, and the modules that a plugin made of it.

A source is loaded by a pass of the stage pre-export, changed by others, and each of its components is turned into a
graph by an exporter. Modules stay opaque here: core needs no torch, and runs a component through its ``run``.
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
"""What makes a folder a Hugging Face model."""

MODULES_FILE = "modules.json"
"""What makes a folder one of sentence-transformers."""

ADAPTER_FILE = "adapter_config.json"
"""What makes a folder a PEFT adapter."""


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """A source as the user named it; JSON values only, for it goes from process to process.

    Attributes:
        spec: ``package.module:factory``, or a folder with ``config.json`` and weights.
        arguments: keyword arguments of the factory.
        dynamic: by input, a name for each dimension; an empty name leaves it fixed.
        state: arguments of the module that are its memory: what it returns for them is fed to its next step.
        rename: by input or output of the module, its name in the graph.
        task: of a Hugging Face model; empty: what its architecture is for.
        weights: ``copy``: the graph has data files of its own; ``link``: it points into the user's files.
        allow_pickle: weights may be read from a pickle, which runs code.
        trust_remote_code: code in the folder may be run.
        seed: of everything random.
        max_drift: of each output of the graph from the source's; None: what rounding explains.
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
        """The folder, where it is one."""
        path = Path(self.spec)
        return path if path.is_dir() else None


@dataclass(frozen=True, slots=True)
class TrialStep:
    """One run of a trial.

    Attributes:
        feeds: by input; from the second step on without what the step before it carries over.
        valid: by output, what counts: boolean, broadcastable to the output; an output that is absent counts whole.
    """

    feeds: Feeds
    valid: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trial:
    """Feeds that an exported graph must give the module's outputs on, in shapes that the exporter has not seen.

    Attributes:
        name: what a message calls it, e.g. ``left padding, 3 steps``.
        steps: of a decoder, a prefill and decode steps, each fed the state that the one before it returned.
    """

    name: str
    steps: tuple[TrialStep, ...]


@dataclass(frozen=True, slots=True)
class Generation:
    """What the source's own greedy generation gives for a prompt.

    Attributes:
        prompt: ``input_ids`` and ``attention_mask`` of a decoder; inputs of the encoder where there is one.
        tokens: int64, shape (batch, new tokens); rows end with padding after the end of text.
    """

    prompt: Feeds
    tokens: Array


@dataclass(frozen=True, slots=True)
class Component:
    """A module that becomes one graph.

    Attributes:
        name: ``model`` where it is the only one, else e.g. ``encoder``, ``decoder``.
        module: ``torch.nn.Module`` in evaluation mode. Its forward takes one list, the tensors of :attr:`inputs`, and
            returns a tuple, the tensors of :attr:`outputs`.
        inputs: in order; a dimension with a name is meant to be dynamic.
        outputs: in order, as far as shapes are known.
        example: what the exporter runs the module on: sizes of at least 2, no two alike by accident, a padded row.
        state: by output, the input that takes it in the next step.
        trials: what the graph is verified on, made anew by each call.
        run: the module on arrays.
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
    """A source on its way to graphs. Modules may be changed in place: nobody else holds them.

    Attributes:
        request: what the user asked for.
        components: empty until a pass has loaded it.
        facts: JSON values that go into ``export.json``: task, architecture, token ids that end a text.
        weight_files: safetensors files whose tensors the modules map into memory.
        generations: greedy generation by the source's own library; None where it generates nothing.
    """

    request: SourceRequest
    components: tuple[Component, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    weight_files: tuple[Path, ...] = ()
    generations: Callable[[], Iterable[Generation]] | None = None


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What passes over sources and exporters are given beside their source.

    Attributes:
        target: where the model will run.
        scratch: an empty folder, removed afterwards.
        log: the pass's logger; what it says at INFO or above lands in the report, with the notes of its step.
        report_progress: called with a share in 0..1 and a few words.
    """

    target: Target
    scratch: Path
    log: logging.Logger
    report_progress: Callable[[float, str], None]
