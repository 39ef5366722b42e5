"""The browser as a target: on WASM, which is run here; or prepared for WebGPU, which is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optim import Target
from optim.errors import OptimError, unknown_name
from optim_prepost import PACKAGE
from optim_prepost.web.packages import unavailable

WASM = "wasm"
WEBGPU = "webgpu"
_PROVIDERS = (WASM, WEBGPU)


def _configured(settings: Mapping[str, str]) -> Target:
    """``web:provider=webgpu``.

    Raises:
        OptimError[unknown-target-setting]: lists those there are.
        OptimError[bad-target-setting]: no provider that models are made for.
    """
    for key in settings:
        if key != "provider":
            raise unknown_name("target setting", key, ["provider"], fix="--target web:provider=webgpu")
    provider = settings.get("provider", WASM)
    if provider not in _PROVIDERS:
        raise OptimError.usage(
            "bad-target-setting",
            f"target web has no provider '{provider}'",
            f"models are made for {' or '.join(_PROVIDERS)}",
            "--target web:provider=webgpu",
            PACKAGE,
        )
    return WEB if provider == WASM else _WEBGPU


WEB = Target(
    name="web",
    backend="ort-web",
    provider=WASM,
    device="a browser, with WASM",
    local=False,
    viewer="optim web serve DIR",
    probe=unavailable,
    configure=_configured,
)

_WEBGPU = replace(
    WEB,
    device="a browser, with WebGPU",
    prepares_for=WEBGPU,
    timed=False,
    remark=(
        "nothing was run on WebGPU: WASM computed what the graph says, and the operators were looked up in the tables "
        "of onnxruntime-web. The page shows the time of a call on the visitor's device"
    ),
)
