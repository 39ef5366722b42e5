"""What a user writes behind a target's name: ``--target qnn:soc=sm8650,fallback=cpu``."""

from __future__ import annotations

from dataclasses import replace

from optim.errors import ExitStatus, OptimError
from optim.target import Target


def configured(target: Target, name: str, settings: str) -> Target:
    """A target with what the user chose, called as the user wrote it.

    Args:
        target: as its plugin offers it.
        name: all that the user wrote.
        settings: what stands behind the colon: ``key=value``, with commas between.

    Raises:
        OptimError[bad-target-setting]: the target has nothing to choose, or this is no ``key=value``.
        OptimError: what the target itself says of a key or a value.
    """
    pairs = [item.partition("=") for item in settings.split(",") if item.strip()]
    if target.configure is None:
        raise _bad(f"target {target.name} has no settings", f"'{settings}' was given", f"--target {target.name}")
    if not pairs or not all(key.strip() and value.strip() for key, _, value in pairs):
        raise _bad(f"cannot read '{name}'", f"'{settings}' is no key=value", f"--target {target.name}:key=value")
    values = {key.strip(): value.strip() for key, _, value in pairs}
    return replace(target.configure(values), name=name)


def _bad(what: str, cause: str, fix: str) -> OptimError:
    return OptimError("bad-target-setting", what, cause, fix, status=ExitStatus.USAGE)
