"""optim makes an ONNX model fast on the hardware it will run on, and proves that it still computes the same thing.

For users: :func:`run`, :func:`load`, :func:`verify`, :func:`bench`, :func:`bench_grid`, :func:`export`,
:func:`deliver`, :func:`capture`. For plugin authors: :func:`hookimpl`, :class:`Pass`, :class:`Target`, :class:`Backend`
and what they exchange. Everything is imported when first used, so ``import optim`` is cheap.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim._engine.api.bench import bench, bench_grid
    from optim._engine.api.capture import capture
    from optim._engine.api.deliver import deliver
    from optim._engine.api.export import export
    from optim._engine.api.run import run
    from optim._engine.api.verify import verify
    from optim._engine.generation.decoder import Decoder
    from optim._engine.reports.answers import Benchmark, ExportedFolder, Verification
    from optim._engine.reports.schema import Report
    from optim._engine.runs.load import load
    from optim.backend import Backend, BackendLimits, Session
    from optim.context import Context
    from optim.errors import ExitStatus, OptimError
    from optim.hooks import HOOK_API, hookimpl
    from optim.metric import CannotJudge, Metric, MetricFamily
    from optim.model import AdapterInput, Model, SessionConfig, TensorInfo
    from optim.options import NoOptions, PassOptions
    from optim.passes import APPLICABLE, Applicable, Interface, Pass, PassResult, Role, Stage, Variant
    from optim.source import Component, Source, SourceContext, SourceRequest, Trial, TrialStep
    from optim.source_passes import Exported, Exporter, SourcePass, SourceResult
    from optim.target import Target

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime 1.31 otherwise writes a device id when it is imported

_HOMES = {
    "optim.backend": ("Backend", "BackendLimits", "Session"),
    "optim.context": ("Context",),
    "optim.errors": ("ExitStatus", "OptimError"),
    "optim._engine.generation.decoder": ("Decoder",),
    "optim.hooks": ("HOOK_API", "hookimpl"),
    "optim.metric": ("CannotJudge", "Metric", "MetricFamily"),
    "optim.model": ("AdapterInput", "Model", "SessionConfig", "TensorInfo"),
    "optim.options": ("NoOptions", "PassOptions"),
    "optim.passes": ("APPLICABLE", "Applicable", "Interface", "Pass", "PassResult", "Role", "Stage", "Variant"),
    "optim._engine.runs.load": ("load",),
    "optim._engine.api.bench": ("bench", "bench_grid"),
    "optim._engine.api.capture": ("capture",),
    "optim._engine.api.deliver": ("deliver",),
    "optim._engine.api.export": ("export",),
    "optim._engine.api.run": ("run",),
    "optim._engine.api.verify": ("verify",),
    "optim._engine.reports.answers": ("Benchmark", "ExportedFolder", "Verification"),
    "optim._engine.reports.schema": ("Report",),
    "optim.source": ("Component", "Source", "SourceContext", "SourceRequest", "Trial", "TrialStep"),
    "optim.source_passes": ("Exported", "Exporter", "SourcePass", "SourceResult"),
    "optim.target": ("Target",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "APPLICABLE",
    "HOOK_API",
    "AdapterInput",
    "Applicable",
    "Backend",
    "BackendLimits",
    "Benchmark",
    "CannotJudge",
    "Component",
    "Context",
    "Decoder",
    "ExitStatus",
    "Exported",
    "ExportedFolder",
    "Exporter",
    "Interface",
    "Metric",
    "MetricFamily",
    "Model",
    "NoOptions",
    "OptimError",
    "Pass",
    "PassOptions",
    "PassResult",
    "Report",
    "Role",
    "Session",
    "SessionConfig",
    "Source",
    "SourceContext",
    "SourcePass",
    "SourceRequest",
    "SourceResult",
    "Stage",
    "Target",
    "TensorInfo",
    "Trial",
    "TrialStep",
    "Variant",
    "Verification",
    "bench",
    "bench_grid",
    "capture",
    "deliver",
    "export",
    "hookimpl",
    "load",
    "run",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'optim' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
