"""The plugin ``layouts``: what it offers. Writing needs none of the consumers, and importing this none of numpy."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Command, hookimpl
from optim.layout import Layout
from optim_plugins.layouts.kinds.genai import Genai
from optim_plugins.layouts.kinds.mlflow import MLflow
from optim_plugins.layouts.kinds.onnx_files import OnnxFiles
from optim_plugins.layouts.kinds.onnxruntime import OnnxRuntime
from optim_plugins.layouts.kinds.optimum import Optimum
from optim_plugins.layouts.kinds.transformers_js import TransformersJs
from optim_plugins.layouts.kinds.triton import Triton

OPTIM_HOOK_API = 1

LAYOUTS: tuple[type[Layout], ...] = (Genai, MLflow, OnnxFiles, OnnxRuntime, Optimum, TransformersJs, Triton)


@hookimpl
def optim_layouts() -> Sequence[type[Layout]]:
    """All of them."""
    return LAYOUTS


@hookimpl
def optim_deliverers() -> Sequence[str]:
    """What lays a result out, has its consumer open it, and compares."""
    return ("optim_plugins.layouts.deliver.delivery:OpenedAndCompared",)


@hookimpl
def optim_commands() -> Sequence[Command]:
    """``optim deliver`` and ``optim layouts``."""
    verbs = "optim_plugins.layouts.deliver.command"
    return (
        Command(f"{verbs}:deliver", "Write the result of a run for another program."),
        Command(f"{verbs}:layouts", "List the layouts for other programs."),
    )
