"""The hooks: the whole contract between the core and a plugin.

A plugin is a module (or object) named by an entry point of group ``optim.plugins``; it sets
``OPTIM_HOOK_API = 1`` and decorates functions of these names with ``optim.hookimpl``. A hook *gathers*: it returns
what the plugin offers for a target. The core then orders what all plugins offered and runs it.

| stage             | hook                       | returns          |
|-------------------|----------------------------|------------------|
| pre-export        | optim_pre_export           | SourcePass types |
| export            | optim_export               | Exporter types   |
| fuse              | optim_fuse                 | Pass types       |
| quantize          | optim_quantize             | Pass types       |
| convert-precision | optim_convert_precision    | Pass types       |
| tune              | optim_tune                 | Pass types       |
| post-process      | optim_post_process         | Pass types       |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from optim.backend import Backend
    from optim.goal import Goal
    from optim.layout import Layout
    from optim.metric import Metric, MetricFamily
    from optim.origin import Origin
    from optim.passes import Pass
    from optim.source_passes import Exporter, SourcePass
    from optim.target import Target
    from optim.workplace import Cluster

HOOK_API = 1
"""Version of this contract; a plugin names the one it was written for in ``OPTIM_HOOK_API``."""

OLDEST_HOOK_API = 1
"""A plugin written for an older hook API than :data:`HOOK_API`, down to this one, is used, with a warning.

A change that breaks plugins raises HOOK_API and leaves this where it was for one minor release; then this follows.
"""

DEPRECATED_HOOKS: Mapping[str, str] = {}
"""Hooks that go with the next hook API, by name: what to use instead. A plugin that has one is used, with a warning."""

ENTRY_POINT_GROUP = "optim.plugins"

OWN_COMMANDS: Mapping[str, str] = {
    "run": "Optimize a model and write a folder to deploy.",
    "pick": "Deliver another result of an earlier run.",
    "verify": "Compare the outputs of two models.",
    "bench": "Time models against each other.",
    "passes": "List the passes, or show one.",
    "targets": "List where models can run.",
    "metrics": "List the task metrics.",
    "help": "Explain a command, an error or a recipe key.",
    "plugins": "List, show, check, install and create plugins.",
    "cache": "Show or prune the cache of earlier runs.",
    "completion": "Print the completion script for a shell.",
}
"""Verbs of optim itself, with what ``optim --help`` says of each; a plugin's command may not be called like one."""


_DIAGNOSIS = ("blame", "draw", "inspect", "outputs", "profile", "reduce", "runtimes", "sensitivity")
_LAYOUTS = ("genai", "mlflow", "onnx", "onnxruntime", "optimum", "transformers.js", "triton")
_METRICS = ("cosine", "f1", "mean-iou", "perplexity", "token-agreement", "top-1", "top-k", "wer")

RESERVED_NAMES: Mapping[str, Mapping[str, str]] = {
    "target": {
        "auto": "optim",
        "cpu": "ort",
        "cuda": "cuda",
        "cuda-offline": "cuda",
        "ep": "ort",
        "onnxruntime": "diagnose",
        "openvino": "openvino",
        "qnn": "qnn",
        "qnn-offline": "qnn",
        "stored": "diagnose",
        "tensorrt": "tensorrt",
        "tensorrt-offline": "tensorrt",
        "torch-compile": "torch",
        "torch-eager": "torch",
        "torch-script": "torch",
        "web": "prepost",
    },
    "backend": {
        "onnxruntime": "diagnose",
        "cuda": "cuda",
        "cuda-offline": "cuda",
        "openvino": "openvino",
        "ort": "ort",
        "ort-web": "prepost",
        "qnn": "qnn",
        "qnn-offline": "qnn",
        "stored": "diagnose",
        "tensorrt": "tensorrt",
        "tensorrt-offline": "tensorrt",
        "torch": "torch",
    },
    "command": {
        "adapters": "adapters",
        "batch": "fleet",
        **dict.fromkeys(_DIAGNOSIS, "diagnose"),
        "export": "export",
        **dict.fromkeys(("deliver", "layouts"), "layouts"),
        "merge-decoders": "torch",
        "qnn": "qnn",
        "swap": "torch",
        "web": "prepost",
    },
    "workplace": {"dask": "fleet"},
    "goal": {
        **dict.fromkeys(("latency", "size", "memory", "accuracy"), "optim"),
        **dict.fromkeys(("startup", "throughput", "generate"), "goals"),
    },
    "origin": dict.fromkeys(("hf", "http", "https"), "export"),
    "layout": {**dict.fromkeys(_LAYOUTS, "layouts"), "openvino": "openvino"},
    "metric": dict.fromkeys(_METRICS, "metrics"),
}
"""Names that users know, by kind, with the plugin that alone may use each. Of another that several plugins use, the
plugin has it that the name begins with (``acme-npu`` is of plugin ``acme``); else none is used."""


@dataclass(frozen=True, slots=True)
class Command:
    """A verb that a plugin adds.

    Attributes:
        path: ``package.module:click_command``, imported when it is called; the verb is its name there, with dashes.
        help: what ``optim --help`` says of it, one line.
    """

    path: str
    help: str = ""


hookspec = pluggy.HookspecMarker("optim")
hookimpl = pluggy.HookimplMarker("optim")


class OptimHooks:
    """Every hook there is. Called once per run and plugin; an exception costs only that plugin's offer."""

    @hookspec
    def optim_pre_export(self, target: Target) -> Sequence[type[SourcePass]]:  # type: ignore[empty-body]
        """Passes over the torch source, before export."""

    @hookspec
    def optim_export(self, target: Target) -> Sequence[type[Exporter]]:  # type: ignore[empty-body]
        """Ways to turn a torch source into an ONNX model."""

    @hookspec
    def optim_fuse(self, target: Target) -> Sequence[type[Pass]]:  # type: ignore[empty-body]
        """Passes that rewrite the graph without changing what it computes."""

    @hookspec
    def optim_quantize(self, target: Target) -> Sequence[type[Pass]]:  # type: ignore[empty-body]
        """Passes that turn weights or activations into integers."""

    @hookspec
    def optim_convert_precision(self, target: Target) -> Sequence[type[Pass]]:  # type: ignore[empty-body]
        """Passes that change float precision."""

    @hookspec
    def optim_tune(self, target: Target) -> Sequence[type[Pass]]:  # type: ignore[empty-body]
        """Passes that change how the model is run."""

    @hookspec
    def optim_post_process(self, target: Target) -> Sequence[type[Pass]]:  # type: ignore[empty-body]
        """Passes that work on the finished model: pre/post-processing steps, context binaries."""

    @hookspec
    def optim_targets(self) -> Sequence[Target]:  # type: ignore[empty-body]
        """Targets that this plugin adds."""

    @hookspec
    def optim_backends(self) -> Sequence[type[Backend]]:  # type: ignore[empty-body]
        """Ways to run a model that this plugin adds."""

    @hookspec
    def optim_metrics(self) -> Sequence[Metric | MetricFamily]:  # type: ignore[empty-body]
        """Task metrics that this plugin adds."""

    @hookspec
    def optim_layouts(self) -> Sequence[type[Layout]]:  # type: ignore[empty-body]
        """Ways to lay a result out for other programs that this plugin adds."""

    @hookspec
    def optim_workplaces(self) -> Sequence[type[Cluster]]:  # type: ignore[empty-body]
        """Machines that ``--cluster`` can name, and that do the jobs of a run, that this plugin adds."""

    @hookspec
    def optim_goals(self) -> Sequence[type[Goal]]:  # type: ignore[empty-body]
        """Goals behind ``--goal`` that this plugin adds."""

    @hookspec
    def optim_origins(self) -> Sequence[type[Origin]]:  # type: ignore[empty-body]
        """Places that models come from by an address, such as ``hf://``, that this plugin adds."""

    @hookspec
    def optim_after_run(self) -> Sequence[str]:  # type: ignore[empty-body]
        """Functions, each ``package.module:function``, that look at a run when its verdict is known.

        Each is called once with an :class:`optim.after_run.FinishedRun`, and returns :class:`optim.after_run.Findings`.
        """

    @hookspec
    def optim_commands(self) -> Sequence[str | Command]:  # type: ignore[empty-body]
        """Verbs that this plugin adds to the command line; a text is the path of a :class:`Command`."""
