"""Settings of a result that a layout's files do not carry, in words."""

from __future__ import annotations

from optim.model import SessionConfig

SPECIFIED = "optimization.disable_specified_optimizers"
"""Config entry of ONNX Runtime that switches optimizers off too, with semicolons between."""


def not_carried(tuned: SessionConfig, carried: SessionConfig) -> tuple[str, ...]:
    """Each setting of a result that its consumer does not open it with.

    Args:
        tuned: the result's own.
        carried: what the consumer opens it with.
    """
    lost = [
        f"{name}={value}" for name, value in tuned.session_options.items() if carried.session_options.get(name) != value
    ]
    lost += [f"{key}={text}" for key, text in tuned.session_config.items() if carried.session_config.get(key) != text]
    off = {*carried.disabled_optimizers, *carried.session_config.get(SPECIFIED, "").split(";")}
    lost += [f"without {name}" for name in tuned.disabled_optimizers if name not in off]
    for provider, options in tuned.provider_options.items():
        there = carried.provider_options.get(provider, {})
        lost += [f"{provider} {name}={text}" for name, text in options.items() if there.get(name) != text]
    return tuple(lost)
