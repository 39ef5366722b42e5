"""Sessions of onnxruntime in a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from optim_plugins.record.modules import Call, ModuleCall, NoGraphError, PipelineModule
from optim_plugins.record.values import as_array


class PipelineSession(PipelineModule):
    """An ``InferenceSession``, called through ``run``."""

    kind = "onnxruntime"
    attribute = "run"

    @property
    def device(self) -> str:
        """``cpu``, or the first provider."""
        first = str(self.subject.get_providers()[0])
        return "cpu" if first == "CPUExecutionProvider" else first

    def before(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The inputs as arrays."""
        feeds = args[1] if len(args) > 1 else kwargs["input_feed"]
        return {name: as_array(value) for name, value in feeds.items()}

    def after(self, kept: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], returned: Any) -> ModuleCall:
        """Inputs and outputs."""
        asked = (args[0] if args else kwargs.get("output_names")) or [one.name for one in self.subject.get_outputs()]
        return ModuleCall(kept, {name: as_array(value) for name, value in zip(asked, returned, strict=True)})

    def prepare(self, calls: Sequence[ModuleCall], folder: Path, say: Callable[[str], None]) -> Path:
        """The file that the session was opened from; a model from memory is written."""
        path, content = getattr(self.subject, "_model_path", None), getattr(self.subject, "_model_bytes", None)
        if path:
            return Path(path).resolve()
        if not content:
            raise NoGraphError("onnxruntime does not tell which file or bytes the session was opened from")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "model.onnx"
        file.write_bytes(content)
        return file

    def bind(self, session: Any, call: ModuleCall) -> Call:
        """``run`` of the other session, with the same arguments."""

        def run(output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
            return session.run(output_names, input_feed, *([run_options] if run_options is not None else []))

        return run
