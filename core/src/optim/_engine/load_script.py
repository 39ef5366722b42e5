"""``load.py``: what opens a model with the settings of ``session.json`` and onnxruntime alone, packed weights too."""

from __future__ import annotations

from optim.model import PACKED_WEIGHTS, SessionConfig

LOAD_TEXT = '''\
"""Opens model.onnx with the settings of session.json. Needs onnxruntime, and the provider's package if it has one."""

import json
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np  # noqa: E402
import onnxruntime as ort  # noqa: E402


def load(warm_up=True, adapter=None):
    """An onnxruntime.InferenceSession; run once on zeros where session.json says that first calls are dear.

    Where session.json names an adapter, the model is opened with it, or with the file that you name.
    """
    folder = Path(__file__).resolve().parent
    saved = json.loads((folder / "session.json").read_text(encoding="utf-8"))
    options = ort.SessionOptions()
    for name, value in saved["session_options"].items():
        members = getattr(type(getattr(options, name)), "__members__", None)  # an enum is saved by name
        setattr(options, name, members[value] if members else value)
    for key, value in saved["session_config"].items():
        options.add_session_config_entry(key, value)
    weights = {}
    if saved.get("adapter"):
        file = folder / saved["adapter"] if adapter is None else adapter
        weights = ort.AdapterFormat.read_adapter(str(file)).get_parameters()
        options.add_external_initializers(list(weights), list(weights.values()))
    elif adapter is not None:
        raise ValueError("give the arrays of an adapter as inputs of each run")
    for package in saved["operator_libraries"]:  # operators that onnxruntime itself does not have
        options.register_custom_ops_library(import_module(package).get_library_path())
    on_cpu = saved["provider"] == "CPUExecutionProvider" or saved.get("fallback") or saved.get("shapes_on_cpu")
    if not on_cpu:  # never on the CPU in silence
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    wanted = {saved["provider"]: saved["provider_options"], **saved.get("also", {})}
    tuned = saved.get("tuned_provider_options", {})
    providers = [(name, {**chosen, **tuned.get(name, {})}) for name, chosen in wanted.items()]
    if "CUDAExecutionProvider" in wanted and hasattr(ort, "preload_dlls"):
        ort.preload_dlls()  # libraries of NVIDIA's Python packages
    if "TensorrtExecutionProvider" in wanted:
        with suppress(ImportError):  # a TensorRT that the system's loader finds needs no package
            import_module("tensorrt_libs")
    if saved.get("library"):  # a provider that is installed apart from onnxruntime
        if not any(device.ep_name == saved["provider"] for device in ort.get_ep_devices()):
            library = import_module(saved["library"]).get_library_path()
            ort.register_execution_provider_library(saved["provider"], library)
        devices = [device for device in ort.get_ep_devices() if device.ep_name == saved["provider"]]
        special = [device for device in devices if device.device.type != ort.OrtHardwareDeviceType.CPU]
        options.add_provider_for_devices((special or devices)[:1], providers[0][1])
        providers = None
    session = ort.InferenceSession(
        str(folder / "model.onnx"),
        options,
        providers=providers,
        disabled_optimizers=saved["disabled_optimizers"] or None,
        enable_fallback=False,  # a run that fails on a device is an error, and is not done again on the CPU
    )
    session.adapter_weights = weights  # they must live as long as the session
    if absent := [name for name in wanted if name not in session.get_providers()]:
        raise RuntimeError(f"{absent[0]} could not be started: onnxruntime would run the model without it")
    if warm_up and saved.get("warm_up"):
        session.run(None, {name: np.zeros(one["shape"], one["dtype"]) for name, one in saved["warm_up"].items()})
    return session


if __name__ == "__main__":
    for value in load().get_inputs():
        print(value.name, value.type, value.shape)
'''


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
