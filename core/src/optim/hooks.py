"""The hooks: the whole contract between optim and a plugin.

A plugin is a module (or object) that an entry point of group ``optim.plugins`` names. It sets ``OPTIM_HOOK_API = 1``
and decorates functions of these names with ``optim.hookimpl``. A hook returns what the plugin offers for a target.
optim then orders and runs what all plugins offer.

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
"""Version of this contract. A plugin names the version that it was written for in ``OPTIM_HOOK_API``."""

OLDEST_HOOK_API = 1
"""Oldest version of this contract that a plugin may name. optim uses a plugin with an older version than ``HOOK_API``,
and warns.

A change that breaks plugins raises ``HOOK_API``. One minor release later, this number follows."""

DEPRECATED_HOOKS: Mapping[str, str] = {}
"""Hooks that the next hook API removes, with what to use instead. optim uses a plugin that has one, and warns."""

ENTRY_POINT_GROUP = "optim.plugins"

OWN_COMMANDS: Mapping[str, str] = {
    "run": "Optimize a model and write a folder to deploy.",
    "pick": "Deliver another result of an earlier run.",
    "verify": "Compare the outputs of two models.",
    "passes": "List the passes, or show one.",
    "targets": "List where models can run.",
    "metrics": "List the task metrics.",
    "help": "Explain a command, an error or a recipe key.",
    "plugins": "List, show, check, install and create plugins.",
    "cache": "Show or prune the cache of earlier runs.",
    "completion": "Print the completion script for a shell.",
}
"""Commands of optim itself, with their line in ``optim --help``. A command of a plugin has another name."""


_DIAGNOSIS = ("bench", "blame", "draw", "inspect", "outputs", "profile", "reduce", "runtimes", "sensitivity")
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
"""Names that users know, by kind, with the only plugin that may use each. If several plugins use another name, the
plugin whose name it begins with has it (``acme-npu``: plugin ``acme``); otherwise optim uses none of them."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a plugin adds.

    Attributes:
        path: ``package.module:click_command``. optim imports it when the user calls it. The command has the same name,
            with dashes.
        help: one line for ``optim --help``.
    """

    path: str
    help: str = ""


hookspec = pluggy.HookspecMarker("optim")
hookimpl = pluggy.HookimplMarker("optim")


class OptimHooks:
    """All hooks. optim calls each hook once per run and plugin. An exception costs only the offer of that plugin."""

    @hookspec
    def optim_pre_export(self, target: Target) -> Sequence[type[SourcePass]]:  # type: ignore[empty-body]
        """Passes over the torch source, before export."""

    @hookspec
    def optim_export(self, target: Target) -> Sequence[type[Exporter]]:  # type: ignore[empty-body]
        """Ways to turn a torch source into an ONNX model."""

    @hookspec
    def optim_fuse(self, target: Target) -> Sequence[type[Pass]]:  # type: ignore[empty-body]
        """Passes that rewrite the graph without changing its results."""

    @hookspec
    def optim_quantize(self, target: Target) -> Sequence[type[Pass]]:  # type: ignore[empty-body]
        """Passes that turn weights or activations into integers."""

    @hookspec
    def optim_convert_precision(self, target: Target) -> Sequence[type[Pass]]:  # type: ignore[empty-body]
        """Passes that change float precision."""

    @hookspec
    def optim_tune(self, target: Target) -> Sequence[type[Pass]]:  # type: ignore[empty-body]
        """Passes that change session settings."""

    @hookspec
    def optim_post_process(self, target: Target) -> Sequence[type[Pass]]:  # type: ignore[empty-body]
        """Passes that work on the finished model: pre/post-processing steps, context binaries."""

    @hookspec
    def optim_targets(self) -> Sequence[Target]:  # type: ignore[empty-body]
        """Targets of this plugin."""

    @hookspec
    def optim_backends(self) -> Sequence[type[Backend]]:  # type: ignore[empty-body]
        """Backends of this plugin: ways to run a model."""

    @hookspec
    def optim_metrics(self) -> Sequence[Metric | MetricFamily]:  # type: ignore[empty-body]
        """Task metrics of this plugin."""

    @hookspec
    def optim_layouts(self) -> Sequence[type[Layout]]:  # type: ignore[empty-body]
        """Layouts of this plugin: files of a result for other programs."""

    @hookspec
    def optim_workplaces(self) -> Sequence[type[Cluster]]:  # type: ignore[empty-body]
        """Clusters of this plugin: machines that ``--cluster`` can name and that do the jobs of a run."""

    @hookspec
    def optim_goals(self) -> Sequence[type[Goal]]:  # type: ignore[empty-body]
        """Goals of this plugin, for ``--goal``."""

    @hookspec
    def optim_origins(self) -> Sequence[type[Origin]]:  # type: ignore[empty-body]
        """Origins of this plugin: addresses of models, such as ``hf://``."""

    @hookspec
    def optim_after_run(self) -> Sequence[str]:  # type: ignore[empty-body]
        """Functions, each ``package.module:function``, that look at a run after its verdict.

        optim calls each once with an ``optim.after_run.FinishedRun``, and the function returns
        ``optim.after_run.Findings``.
        """

    @hookspec
    def optim_commands(self) -> Sequence[str | Command]:  # type: ignore[empty-body]
        """Commands of this plugin. A text is the path of a ``Command``."""
