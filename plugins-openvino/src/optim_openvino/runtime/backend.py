"""Models on OpenVINO, which reads ONNX itself, external data too.

What is right is computed by onnxruntime: the frontend of OpenVINO takes operator sets that it does not know, and what
it reads wrongly would be wrong in the original as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from optim import Backend, BackendLimits, Model, Session, SessionConfig, Target
from optim.backend import Delivery, NodeProfile
from optim.processor import Assumption, ExactSettings
from optim.providers import CPU
from optim_openvino.runtime.installed import version
from optim_openvino.runtime.properties import MODEL_CACHE, RUNTIME, THREADS, as_session, settings_of

if TYPE_CHECKING:
    from optim.arrays import Feeds
    from optim_openvino.runtime.session import OpenVinoSession

_DOMAINS = {"com.microsoft": 1}
"""Beside the standard ones: its frontend has some of their operators, and refuses the others by name."""


class OpenVinoBackend(Backend):
    """OpenVINO on a device of its own choice or the user's."""

    name = "openvino"
    loads_sessions = True

    def open(self, model: Model, target: Target) -> OpenVinoSession:
        """Read and compile; what cannot be is refused with the operator, the device or the input that is at fault.

        Raises:
            OptimError[openvino-operator]: it does not have an operator.
            OptimError[openvino-device]: the device is not there.
            OptimError[openvino-damaged]: a library of OpenVINO is missing.
            OptimError[openvino-dynamic]: the device takes fixed sizes.
            OptimError[openvino-refused]: anything else.
        """
        from optim.onnx import openable_file
        from optim_openvino.runtime.core import core
        from optim_openvino.runtime.model_cache import cache_folder
        from optim_openvino.runtime.refusals import refused
        from optim_openvino.runtime.session import OpenVinoSession

        device, properties = settings_of(model, target)
        if properties.pop(MODEL_CACHE, "NO") == "YES":
            properties["CACHE_DIR"] = cache_folder()
        try:
            with openable_file(model.path) as path:
                read = core().read_model(str(path))
                compiled = core().compile_model(read, device, properties)
            return OpenVinoSession(compiled, model, device)
        except RuntimeError as error:
            raise refused(model, device, error) from error

    def open_reference(self, model: Model, target: Target) -> Session:
        """By onnxruntime on the CPU, with integers added exactly."""
        from optim.onnx import EXACT_INTEGERS, OnnxRuntimeSession, open_session, operator_libraries

        there = Target(target.name, target.backend, CPU)
        session = open_session(model.path, EXACT_INTEGERS, there, libraries=operator_libraries(model.opset))
        return OnnxRuntimeSession(session, CPU)

    def limits(self) -> BackendLimits:
        """Those of onnxruntime for the standard operators: what it cannot run nothing can be held against."""
        from optim.onnx import runtime_limits

        found = runtime_limits()
        standard = {domain: newest for domain, newest in found.opset.items() if domain in ("", "ai.onnx.ml")}
        return BackendLimits(found.ir_version, {**standard, **_DOMAINS})

    def equivalent_settings(self, target: Target) -> Sequence[SessionConfig]:
        """One thread, which adds up in another order."""
        return (as_session({THREADS: "1"}),)

    def exact_settings(self, model: Model, target: Target) -> ExactSettings | None:
        """The property without which 8-bit products may saturate on this processor."""
        from optim_openvino.runtime.saturation import exact_settings

        return exact_settings(model, target)

    def assumptions(self, target: Target) -> Sequence[Assumption]:
        """Of the CPU's kernels."""
        from optim_openvino.runtime.hardware import TABLE

        return TABLE

    def profile(self, model: Model, target: Target, feeds: Feeds, seconds: float) -> NodeProfile:
        """OpenVINO's own counters; what it fused is one node."""
        from optim_openvino.runtime.profile import profile

        counted = model.with_session(as_session({"PERF_COUNT": "YES"}))
        with self.open(counted, target) as session:
            return profile(session, feeds, seconds)

    def load_script(self, delivery: Delivery) -> str:
        """OpenVINO alone."""
        from optim_openvino.runtime.load_script import load_script

        return load_script()

    def requirements(self, target: Target) -> Sequence[str]:
        """OpenVINO alone, which brings numpy."""
        return (f"openvino=={version()}",)

    def versions(self) -> Mapping[str, str]:
        """Of OpenVINO, and of what it is held against; both are imported, so that no model's memory counts that."""
        import onnxruntime

        from optim_openvino.runtime.quiet_import import quiet_openvino

        quiet_openvino()
        return {RUNTIME: version(), "onnxruntime": onnxruntime.__version__}
