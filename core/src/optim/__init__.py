"""optim makes an ONNX model fast on the hardware it will run on, and proves that it still computes the same thing.

For users: ``run``, ``load``, ``verify``, ``bench``, ``bench_grid``, ``lab``,
``export``, ``deliver``, ``capture``, ``record``. For plugin authors: ``hookimpl``, ``Pass``,
``Target``, ``Backend`` and what they exchange. Everything is imported when first used, so ``import optim`` is
cheap.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.api.bench import bench as bench
    from optim._engine.api.bench import bench_grid as bench_grid
    from optim._engine.api.export import export as export
    from optim._engine.api.record import capture as capture
    from optim._engine.api.record import record as record
    from optim._engine.api.run import deliver as deliver
    from optim._engine.api.run import run as run
    from optim._engine.api.verify import lab as lab
    from optim._engine.api.verify import verify as verify
    from optim._engine.reports.answers import Benchmark as Benchmark
    from optim._engine.reports.answers import ExportedFolder as ExportedFolder
    from optim._engine.reports.answers import Verification as Verification
    from optim._engine.reports.schema import Report as Report
    from optim._engine.runs.lab.lab import Lab as Lab
    from optim._engine.runs.lab.setup import LabSetup as LabSetup
    from optim._engine.runs.load import load as load
    from optim.backend import Backend as Backend
    from optim.backend import BackendLimits as BackendLimits
    from optim.backend import KernelProbe as KernelProbe
    from optim.backend import KernelRatio as KernelRatio
    from optim.backend import NodeProfile as NodeProfile
    from optim.backend import Session as Session
    from optim.context import Context as Context
    from optim.context import MeasuringContext as MeasuringContext
    from optim.decoders.decoder import Decoder as Decoder
    from optim.errors import ExitStatus as ExitStatus
    from optim.errors import OptimError as OptimError
    from optim.hooks import HOOK_API as HOOK_API
    from optim.hooks import Command as Command
    from optim.hooks import hookimpl as hookimpl
    from optim.metric import CannotJudge as CannotJudge
    from optim.metric import Metric as Metric
    from optim.metric import MetricFamily as MetricFamily
    from optim.model import AdapterInput as AdapterInput
    from optim.model import Model as Model
    from optim.model import SessionConfig as SessionConfig
    from optim.model import TensorInfo as TensorInfo
    from optim.options import NoOptions as NoOptions
    from optim.options import PassOptions as PassOptions
    from optim.passes import APPLICABLE as APPLICABLE
    from optim.passes import Applicable as Applicable
    from optim.passes import Interface as Interface
    from optim.passes import KernelUse as KernelUse
    from optim.passes import Pass as Pass
    from optim.passes import PassResult as PassResult
    from optim.passes import Role as Role
    from optim.passes import Stage as Stage
    from optim.passes import Variant as Variant
    from optim.source import Component as Component
    from optim.source import Generation as Generation
    from optim.source import Source as Source
    from optim.source import SourceContext as SourceContext
    from optim.source import SourceRequest as SourceRequest
    from optim.source import Trial as Trial
    from optim.source import TrialStep as TrialStep
    from optim.source_passes import Exported as Exported
    from optim.source_passes import Exporter as Exporter
    from optim.source_passes import SourcePass as SourcePass
    from optim.source_passes import SourceResult as SourceResult
    from optim.target import Target as Target
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime 1.31 otherwise writes a device id when it is imported
