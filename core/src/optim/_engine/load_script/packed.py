"""What ``load.py`` has beside ``load`` where weights are packed: ``packed``, which needs nothing of optim."""

from __future__ import annotations

from optim.model import PACKED_WEIGHTS, SessionConfig

_PACKED_TEXT = '''\
def packed(folder, saved, options):
    """Where model.onnx lies with its weights as this onnxruntime packs them for this processor: mapped, not read.

    They are packed once, into packed/ beside the model. The folder there is called by the model, its settings, the
    onnxruntime and the processor: what another machine or another version packed is not opened.
    """
    processor = platform.processor() or platform.machine()
    with suppress(OSError):  # Linux names the processor and its instruction sets there
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    files = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(folder.glob("model.onnx*"))]
    tied = repr([ort.__version__, processor, files, sorted(saved.items())])
    place = folder / "packed" / hashlib.sha256(tied.encode()).hexdigest()[:24]
    if not place.is_dir():
        if not os.access(folder, os.W_OK):
            return str(folder / "model.onnx")  # nothing can be kept here: it opens later, and computes the same
        place.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            options.log_severity_level = 3  # it warns that the file is for this machine only
            options.optimized_model_filepath = str(made / "model.onnx")
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "model.packed")
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_min_size_in_bytes", "1024"
            )
            options.add_session_config_entry("session.save_external_prepacked_constant_initializers", "1")
            ort.InferenceSession(
                str(folder / "model.onnx"),
                options,
                providers=[saved["provider"]],
                disabled_optimizers=saved["disabled_optimizers"] or None,
            )
            options.optimized_model_filepath = ""
            with suppress(OSError):  # another process was quicker
                made.rename(place)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # the graph is optimized already
    return str(place / "model.onnx")


'''

_MAIN = 'if __name__ == "__main__":'
_PATH = 'str(folder / "model.onnx"),'
_IMPORTS = ("import json\nimport os\n", "import hashlib\nimport json\nimport os\nimport platform\nimport tempfile\n")


def with_packed(script: str, session: SessionConfig) -> str:
    """The text of ``load.py``, which maps packed weights where the settings of the model say so."""
    if PACKED_WEIGHTS not in session.session_config:
        return script
    head, main, tail = script.replace(_PATH, "packed(folder, saved, options),").replace(*_IMPORTS).partition(_MAIN)
    return f"{head}{_PACKED_TEXT}{main}{tail}"
