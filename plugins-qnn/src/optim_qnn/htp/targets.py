"""The targets: HTP as it is here (device or simulator), and a way to prepare models where QNN is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from optim import Target
from optim.errors import OptimError, unknown_name
from optim_qnn.htp.soc import SIMULATED, find_soc

LIBRARY = "onnxruntime_qnn"
PROVIDER = "QNNExecutionProvider"
_PREPROCESS = "qnn.preprocess"
_CONTEXT_BINARY = "qnn.context-binary"
_FALLBACK = "fallback to the CPU is allowed (fallback=cpu): nodes that HTP does not run ran on the CPU"
_SIMULATED = (
    "ran on the HTP simulator: its time says nothing about a device; validity, drift, placement and size decided"
)
_NOT_RUN = (
    "nothing was run on QNN: onnxruntime computed the graph on the CPU. Open the result on a device, or with "
    "--target qnn where onnxruntime-qnn is installed, before you trust it there"
)
_SETTINGS = ("soc", "fallback", "performance")
_PERFORMANCE = ("burst", "balanced", "default", "high_performance", "power_saver", "sustained_high_performance")

_HARMLESS = (
    "backend_type",
    "enable_htp_fp16_precision",
    "enable_htp_shared_memory_allocator",
    "enable_htp_spill_fill_buffer",
    "enable_htp_weight_sharing",
    "htp_arch",
    "htp_graph_finalization_optimization_mode",
    "htp_performance_mode",
    "offload_graph_io_quantization",
    "qnn_context_priority",
    "rpc_control_latency",
    "soc_model",
    "vtcm_mb",
)
"""Options for the ``session.json`` of a stranger: others name files, load libraries, or are addresses in memory."""


def qnn_missing() -> str | None:
    """Why models cannot be run on QNN here, without importing anything of it."""
    if _is_installed("onnxruntime-gpu"):
        return (
            "onnxruntime-gpu is installed; onnxruntime-qnn needs onnxruntime, and the two exclude each other: "
            "pip uninstall -y onnxruntime-gpu onnxruntime && pip install onnxruntime onnxruntime-qnn"
        )
    if not _is_installed("onnxruntime"):
        return "onnxruntime is not installed: pip install onnxruntime onnxruntime-qnn"
    found = importlib.util.find_spec(LIBRARY)
    if found is None or found.origin is None:
        return "onnxruntime-qnn is not installed: pip install onnxruntime-qnn (or use --target qnn-offline)"
    folder = Path(found.origin).parent
    missing = [name for name in _needed_files() if not any(folder.rglob(name))]
    if missing:
        return f"onnxruntime-qnn lacks {', '.join(missing)}: pip install --force-reinstall onnxruntime-qnn"
    return None


def is_simulated() -> bool:
    """Whether HTP here is the simulator: on a processor that Qualcomm does not build into its chips."""
    return platform.machine().lower() not in ("aarch64", "arm64")


def make_targets() -> tuple[Target, ...]:
    """HTP, and preparing for it without QNN."""
    simulated = is_simulated()
    qnn = Target(
        "qnn",
        "qnn",
        PROVIDER,
        _options({"soc": str(SIMULATED.model)} if simulated else {}),
        LIBRARY,
        device=f"Hexagon tensor processor (HTP){', simulator' if simulated else ''}",
        timed=not simulated,
        exact=False,
        remark=_SIMULATED if simulated else "",
        requires=(_PREPROCESS, _CONTEXT_BINARY),
        probe=qnn_missing,
        configure=_configured,
        harmless_options=_HARMLESS,
    )
    offline = Target(
        "qnn-offline",
        "qnn-offline",
        "CPUExecutionProvider",
        device="CPU, in place of HTP",
        timed=False,
        exact=False,
        prepares_for=PROVIDER,
        remark=_NOT_RUN,
        requires=(_PREPROCESS,),
        probe=_runtime_missing,
    )
    return (qnn, offline)


def _configured(settings: Mapping[str, str]) -> Target:
    """``qnn:soc=sm8650,fallback=cpu,performance=burst``.

    Raises:
        OptimError[unknown-soc]: lists the near ones.
        OptimError[unknown-target-setting]: lists the near ones.
        OptimError[bad-target-setting]: a value that the key does not take.
    """
    for key in settings:
        if key not in _SETTINGS:
            raise unknown_name("target setting", key, _SETTINGS, fix="--target qnn:soc=sc8380xp,fallback=cpu")
    _require("fallback", settings, ("cpu",))
    _require("performance", settings, _PERFORMANCE)
    target = make_targets()[0]
    device = target.device
    chosen = dict(settings)
    if "soc" in chosen:
        soc = find_soc(chosen["soc"])
        chosen["soc"] = str(soc.model)
        device = f"{device}, {soc.sold_as}"
    elif not target.timed:
        chosen["soc"] = str(SIMULATED.model)
    remark = target.remark
    if "fallback" in chosen:
        remark = "; ".join(filter(None, [remark, _FALLBACK]))
    options = _options(chosen)
    return replace(target, provider_options=options, device=device, remark=remark, fallback="fallback" in chosen)


def _options(settings: Mapping[str, str]) -> dict[str, str]:
    """Provider options: graph inputs and outputs are quantized on HTP too, so that nothing is left to the CPU."""
    options = {"backend_type": "htp", "offload_graph_io_quantization": "0"}
    if "soc" in settings:
        options["soc_model"] = settings["soc"]
    if "performance" in settings:
        options["htp_performance_mode"] = settings["performance"]
    return options


def _require(key: str, settings: Mapping[str, str], values: tuple[str, ...]) -> None:
    if key in settings and settings[key] not in values:
        raise OptimError.usage(
            "bad-target-setting",
            f"target qnn has no {key}={settings[key]}",
            f"{key} is one of {', '.join(values)}",
            f"--target qnn:{key}={values[0]}",
        )


def _runtime_missing() -> str | None:
    if any(map(_is_installed, ("onnxruntime", "onnxruntime-gpu"))):
        return None
    return "onnxruntime is not installed: pip install onnxruntime"


def _needed_files() -> tuple[str, ...]:
    if sys.platform == "win32":
        return ("onnxruntime_providers_qnn.dll", "QnnHtp.dll")
    return ("libonnxruntime_providers_qnn.so", "libQnnHtp.so")


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
