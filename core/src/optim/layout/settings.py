"""Session settings as files of others carry them."""

from __future__ import annotations

from dataclasses import replace

from optim.model import SessionConfig

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
