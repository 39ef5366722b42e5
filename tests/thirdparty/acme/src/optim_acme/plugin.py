"""What Acme offers: a target, a backend, a metric, a command, and passes in three stages."""

from __future__ import annotations

import importlib.util

import optim
from optim import Metric, Target, hookimpl
from optim.onnx import OnnxRuntimeBackend
from optim_acme.passes import DropPairs, Round, Threads

OPTIM_HOOK_API = 1


class AcmeBackend(OnnxRuntimeBackend):
    """Acme's device is a processor."""

    name = "acme"


def missing():
    return None if importlib.util.find_spec("onnxruntime") else "onnxruntime is not installed"


TARGET = Target(
    "acme", "acme", "CPUExecutionProvider", device="Acme One", prepares_for="AcmeExecutionProvider", probe=missing
)


def spread(outputs, feeds, labels):
    return float(max(abs(array).max() for array in outputs.values()))


@hookimpl
def optim_targets():
    return (TARGET,)


@hookimpl
def optim_backends():
    return (AcmeBackend,)


@hookimpl
def optim_metrics():
    return (Metric("acme-spread", higher_is_better=False, call=spread),)


@hookimpl
def optim_commands():
    return ("optim_acme.command:acme",)


@hookimpl
def optim_fuse(target: optim.Target):
    return (DropPairs,) if target.backend == "acme" else ()


@hookimpl
def optim_quantize(target: optim.Target):
    return (Round,) if target.backend == "acme" else ()


@hookimpl
def optim_tune(target: optim.Target):
    return (Threads,) if target.backend == "acme" else ()
