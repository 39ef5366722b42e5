"""The layout ``onnxruntime``: ``model.ort``, ONNX Runtime's own format, which small builds of it and phones open.

    DIR/model.ort          the runtime's own graph of the result, with its weights
    DIR/session.json       the settings that are left: threads, config entries

What the runtime makes of the graph is made now, under the result's settings, switched-off optimizers too: opening it
does none of that again. So it is tied to this release and, where it names kernels of a processor, to such processors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim import ExitStatus, OptimError
from optim.layout import Laid, Layout, Result, require_provider

if TYPE_CHECKING:
    from optim import PassOptions

_LARGEST_BYTES = (1 << 31) - (1 << 26)
"""A file of this format is one flatbuffer, of 2 GiB at most."""

_SECONDS = 900


class OnnxRuntime(Layout):
    """A file of ONNX Runtime's own format."""

    name = "onnxruntime"
    summary = "model.ort, optimized now and tied to this release of onnxruntime and this processor"
    consumer = "pip install onnxruntime"
    opener = Path(__file__).parents[1] / "openers" / "onnxruntime.py"

    def write(self, result: Result, folder: Path, options: PassOptions) -> Laid:
        """The runtime writes it, in a process of its own."""
        from optim.jobs import WorkerFailed, from_wire, run_job, to_wire
        from optim.onnx import model_size_bytes
        from optim_plugins.layouts import ort_job

        require_provider(result, layout=self.name, providers=("CPUExecutionProvider",))
        if model_size_bytes(result.model) > _LARGEST_BYTES:
            raise _failed(
                "the format has no room for more than 2 GB of weights", "choose another layout: optim layouts"
            )
        request = ort_job.Request(result.model, result.target.plain, folder / "model.ort")
        try:
            said, _ = run_job(ort_job.__name__, to_wire(request), _SECONDS)
        except WorkerFailed as failed:
            if failed.error is not None and failed.error.reference != "session-failed":
                raise failed.error from failed
            cause = failed.error.cause if failed.error else failed.reason  # what the format, or a small build, lacks
            raise _failed(cause, "take another layout") from failed
        made = from_wire(ort_job.Answer, said)
        session = result.model.session
        left = {name: value for name, value in session.session_options.items() if name != ort_job.LEVEL}
        settings: dict[str, Any] = {"session_options": left, "session_config": dict(session.session_config)}
        (folder / "session.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        baked = {name: session.session_options[name] for name in (ort_job.LEVEL,) if name in session.session_options}
        carried = type(session)({**left, **baked}, session.session_config, session.disabled_optimizers)
        return Laid(
            "model.ort", carried, {"graph": "model.ort"}, tied_to=f"onnxruntime {made.version} on {made.processor}"
        )


def _failed(cause: str, fix: str) -> OptimError:
    return OptimError(
        "layout-failed",
        "the result cannot be written in ONNX Runtime's own format",
        cause,
        fix,
        status=ExitStatus.NOT_HELD,
    )
