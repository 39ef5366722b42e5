"""Compiling for HTP, in a fresh process and under a fixed name.

What the compiler writes depends on the path that it is given and on what was compiled before in the same process, so
the same model gives the same bytes only this way.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim import Context, ExitStatus, Model, OptimError
from optim_qnn.htp.open_session import NO_FALLBACK

if TYPE_CHECKING:
    import onnxruntime

    from optim_qnn.compile.context_binary_options import ContextBinaryOptions

_SOURCE, _RESULT = "source.onnx", "compiled.onnx"
_TIMEOUT_S = 1800.0
_NOT_TAKEN = "HTP does not run some of its nodes, and the target does not allow a fallback to the CPU"


def compiled(model: Model, options: ContextBinaryOptions, context: Context) -> Path:
    """The compiled model in the pass's scratch folder, its binary beside it or inside.

    Raises:
        OptimError[not-compiled]: the compiler's reason, e.g. the nodes that HTP does not take.
    """
    import onnx_ir

    onnx_ir.save(model.ir(), context.scratch / _SOURCE, external_data="source.data")
    provider_options = dict(context.target.provider_options)
    if options.optimization:
        provider_options["htp_graph_finalization_optimization_mode"] = str(options.optimization)
    if options.vtcm_mb:
        provider_options["vtcm_mb"] = str(options.vtcm_mb)
    request = {
        "provider": context.target.provider,
        "library": context.target.library,
        "options": provider_options,
        "embed": options.embed,
        "fallback": context.target.fallback,
    }
    run_compiler(request, context.scratch)
    return context.scratch / _RESULT


def run_compiler(request: Mapping[str, Any], folder: Path) -> None:
    """Compile in a fresh process whose working folder is ``folder``.

    Args:
        request: provider, its library and options, whether a fallback is admitted; ``embed``, or ``share`` with the
            names of models that lie there as ``<name>.float.onnx`` and become ``<name>.onnx``.
        folder: of the models.

    Raises:
        OptimError[not-compiled]: the compiler's reason, e.g. the nodes that HTP does not take.
    """
    done = subprocess.run(
        [sys.executable, "-m", "optim_qnn.compile.compiler", json.dumps(request)],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TIMEOUT_S,
        check=False,
    )
    wanted = [f"{name}.onnx" for name in request.get("share", ())] or [_RESULT]
    if done.returncode or not all((folder / name).is_file() for name in wanted):
        from optim.onnx import plain_message

        lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"it ended with {done.returncode}"]
        raise OptimError(
            "not-compiled",
            "QNN did not compile the model",
            _NOT_TAKEN if NO_FALLBACK in lines[-1] else plain_message(lines[-1])[:400],
            "optim qnn support MODEL shows which nodes HTP runs",
            "optim-plugin-qnn",
            ExitStatus.NOT_HELD,
        )


def _compile(request: dict[str, Any]) -> None:
    import onnxruntime

    if "share" in request:
        _compile_together(request)
        return
    compiler = onnxruntime.ModelCompiler(_options(request), _SOURCE, embed_compiled_data_into_model=request["embed"])
    compiler.compile_to_file(_RESULT)


def _compile_together(request: dict[str, Any]) -> None:
    """One session after the other; the last of them writes the file that they share."""
    import onnxruntime

    for name in request["share"]:
        options = _options(request)
        entries = {
            "context_enable": "1",
            "context_embed_mode": "0",
            "context_file_path": f"{name}.onnx",
            "share_ep_contexts": "1",
        }
        if name == request["share"][-1]:
            entries["stop_share_ep_contexts"] = "1"
        for key, value in entries.items():
            options.add_session_config_entry(f"ep.{key}", value)
        onnxruntime.InferenceSession(f"{name}.float.onnx", options)


def _options(request: dict[str, Any]) -> onnxruntime.SessionOptions:
    import onnxruntime

    from optim.onnx import register_provider

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not request["fallback"]:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(register_provider(request["library"], request["provider"]), request["options"])
    return options


if __name__ == "__main__":
    _compile(json.loads(sys.argv[1]))
