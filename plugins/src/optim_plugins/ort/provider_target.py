"""The target ``ep``: any execution provider of onnxruntime, ``--target ep:OpenVINOExecutionProvider,device_type=CPU``.

A provider that this onnxruntime was built with needs its name alone. One that is a library of its own is named by its
Python package, ``library=onnxruntime_ep_openvino``, whose ``get_library_path()`` says where the library lies. Further
settings are options of the provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optim import OptimError, Target
from optim.providers import CPU

_NAME, _LIBRARY, _FALLBACK = "name", "library", "fallback"
_EXAMPLE = "--target ep:OpenVINOExecutionProvider,device_type=CPU"

PROVIDER = Target(
    "ep",
    "ort",
    provider="provider that ep:NAME names",
    device="that of the provider: ep:NAME",
    local=False,
    exact=False,
    shapes_on_cpu=True,
    remark=f"it needs the name of an execution provider: {_EXAMPLE}",
    configure=lambda settings: _configured(settings),
)
"""Nobody knows the precision of an unknown provider, so every result is held to the budget."""


def _configured(settings: Mapping[str, str]) -> Target:
    """The target of one provider.

    Raises:
        OptimError[bad-target-setting]: no provider is named, or ``fallback`` is something else than the CPU.
    """
    options = dict(settings)
    name, library, fallback = (options.pop(key, "") for key in (_NAME, _LIBRARY, _FALLBACK))
    if not name:
        raise OptimError.usage(
            "bad-target-setting",
            "target ep needs the name of an execution provider",
            f"there are only settings: {', '.join(settings)}",
            _EXAMPLE,
        )
    if fallback not in ("", "cpu"):
        raise OptimError.usage(
            "bad-target-setting",
            f"target ep has no fallback={fallback}",
            "fallback=cpu allows nodes that the provider does not take on the CPU",
            f"--target ep:{name},fallback=cpu",
        )
    return replace(
        PROVIDER,
        provider=name,
        library=library,
        provider_options=options,
        fallback=bool(fallback),
        shapes_on_cpu=name != CPU,
        device=name.removesuffix("ExecutionProvider"),
        remark="",
    )
