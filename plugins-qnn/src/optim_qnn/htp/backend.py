"""Models on HTP through onnxruntime-qnn, which onnxruntime loads as a provider from a package of its own.

The original is run in float32 on the CPU: HTP takes fixed shapes only, and computes float16 at best.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from optim import Model, Session, Target
from optim.onnx import OnnxRuntimeBackend
from optim.providers import CPU


class QnnBackend(OnnxRuntimeBackend):
    """HTP, real or simulated."""

    name = "qnn"

    def open(self, model: Model, target: Target) -> Session:
        """Open on HTP; a node that it does not take is an error that names it, unless a fallback was admitted."""
        from optim.providers import RECORD_ASSIGNMENT
        from optim_qnn.htp.open_session import open_on_qnn
        from optim_qnn.htp.profile import ProfiledSession, QnnSession, profiled

        if not target.fallback:
            return QnnSession(open_on_qnn(model.path, model.session, target, extra_config=RECORD_ASSIGNMENT))
        folder = TemporaryDirectory(prefix="optim-profile-")
        try:
            settings = profiled(model.session, Path(folder.name))
            return ProfiledSession(open_on_qnn(model.path, settings, target, extra_config=RECORD_ASSIGNMENT), folder)
        except BaseException:
            folder.cleanup()
            raise

    def open_reference(self, model: Model, target: Target) -> Session:
        """In float32 on the CPU, with onnxruntime's defaults, and integers added exactly."""
        from optim.onnx import EXACT_INTEGERS

        exact = replace(model, session=model.session.updated(EXACT_INTEGERS))
        return super().open(exact, _on_cpu(target))

    def open_estimate(self, model: Model, target: Target) -> Session:
        """On the CPU, which computes quantized graphs about as HTP does, and much sooner than the simulator."""
        return super().open(model, _on_cpu(target))

    def versions(self) -> Mapping[str, str]:
        """onnxruntime, and the provider's package."""
        return {**super().versions(), "onnxruntime-qnn": importlib.metadata.version("onnxruntime-qnn")}


class OfflineBackend(OnnxRuntimeBackend):
    """The CPU, for preparing models where QNN is missing."""

    name = "qnn-offline"


def _on_cpu(target: Target) -> Target:
    return Target(target.name, target.backend, CPU)
