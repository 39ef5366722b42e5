"""Backend ``ort-web``: onnxruntime-web on WASM under Node, held against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from optim import Backend, BackendLimits, Model, Session, SessionConfig, Target
from optim.backend import Check, Delivery


class OrtWebBackend(Backend):
    """onnxruntime-web."""

    name = "ort-web"

    def open(self, model: Model, target: Target) -> Session:
        """A Node process with the model.

        Where it is made for WebGPU, its operators are looked up there, and every number in float16 is looked at.

        Raises:
            OptimError[not-on-webgpu]: an operator of onnxruntime's own has no kernel there.
        """
        from optim_prepost.web.node_session import NodeSession
        from optim_prepost.web.settings import web_options
        from optim_prepost.web.targets import WEBGPU

        options = web_options(model.session)
        if target.made_for == WEBGPU:
            from optim_prepost.web.float16_ranges import RangeCheckedSession
            from optim_prepost.web.tables import require_kernels

            require_kernels(model, WEBGPU)
            return RangeCheckedSession(model.path, options)
        return NodeSession(model.path, options)

    def open_reference(self, model: Model, target: Target) -> Session:
        """Onnxruntime on the processor of this machine, with its defaults, and integers added exactly."""
        from optim.onnx import EXACT_INTEGERS, OnnxRuntimeSession, open_session, operator_libraries
        from optim.providers import CPU

        session = open_session(model.path, EXACT_INTEGERS, libraries=operator_libraries(model.opset))
        return OnnxRuntimeSession(session, CPU)

    def limits(self) -> BackendLimits:
        """Measured on onnxruntime-web."""
        return _limits()

    def equivalent_settings(self, target: Target) -> Sequence[SessionConfig]:
        """Optimization levels."""
        level = "graph_optimization_level"
        return SessionConfig({level: "ORT_DISABLE_ALL"}), SessionConfig({level: "ORT_ENABLE_BASIC"})

    def versions(self) -> Mapping[str, str]:
        """Of onnxruntime-web, of Node, and of the onnxruntime that is the reference."""
        import onnxruntime

        from optim_prepost.web.packages import ONNXRUNTIME_WEB

        return {ONNXRUNTIME_WEB[0]: ONNXRUNTIME_WEB[1], "node": _node_version(), "onnxruntime": onnxruntime.__version__}

    def deliver(self, delivery: Delivery) -> Sequence[Check]:
        """The page, and what it needs; opened in Node and in Chromium."""
        from optim_prepost.web.deliver import deliver

        return deliver(delivery)


@cache
def _limits() -> BackendLimits:
    from optim import OptimError
    from optim.onnx import measure_limits
    from optim_prepost.web.node_session import NodeProcess

    process = NodeProcess()

    def opens(model: bytes) -> bool:
        try:
            process.ask("accepts", [model])
        except OptimError:
            return False
        return True

    try:
        return measure_limits(opens)
    finally:
        process.close()


@cache
def _node_version() -> str:
    import subprocess

    from optim_prepost.web.packages import node

    return subprocess.run([node(), "--version"], capture_output=True, text=True, check=True).stdout.strip().lstrip("v")
