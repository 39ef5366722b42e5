"""Session settings that the files of a layout carry, and those that they do not, in words."""

from __future__ import annotations

from dataclasses import replace

from optim.model import PACKED_WEIGHTS, SessionConfig

SWITCHED_OFF = "optimization.disable_specified_optimizers"
"""Config entry of ONNX Runtime that switches optimizers off, with semicolons between their names."""


def disabled_as_config(session: SessionConfig) -> SessionConfig:
    """Returns the same settings with switched-off optimizers as a config entry, for consumers that pass entries on."""
    names = switched_off(session)
    if not names:
        return session
    entries = {**session.session_config, SWITCHED_OFF: ";".join(sorted(names))}
    return replace(session, session_config=entries, disabled_optimizers=())


def switched_off(session: SessionConfig) -> set[str]:
    """Returns the optimizers that settings switch off, by either way."""
    entry = session.session_config.get(SWITCHED_OFF, "")
    return {*session.disabled_optimizers, *(name for name in entry.split(";") if name)}


def without_packing(tuned: SessionConfig) -> SessionConfig:
    """The settings that a layout may carry: packed weights are mapped by optim and load.py alone."""
    entries = {key: text for key, text in tuned.session_config.items() if key != PACKED_WEIGHTS}
    return replace(tuned, session_config=entries)


def not_carried(tuned: SessionConfig, carried: SessionConfig) -> tuple[str, ...]:
    """Each setting of a result that its consumer does not open it with.

    Args:
        tuned: the result's own.
        carried: what the consumer opens it with.
    """
    lost = [
        f"{name}={value}" for name, value in tuned.session_options.items() if carried.session_options.get(name) != value
    ]
    for key, text in tuned.session_config.items():
        if key != SWITCHED_OFF and carried.session_config.get(key) != text:
            lost.append(f"{key}={text}")
    lost += [f"without {name}" for name in sorted(switched_off(tuned) - switched_off(carried))]
    for provider, options in tuned.provider_options.items():
        there = carried.provider_options.get(provider, {})
        lost += [f"{provider} {name}={text}" for name, text in options.items() if there.get(name) != text]
    return tuple(lost)
