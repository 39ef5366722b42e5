"""What opens a model with the settings of ``session.json`` and onnxruntime alone."""

from __future__ import annotations

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
