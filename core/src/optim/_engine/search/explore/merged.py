"""Settings of several steps in one: what each of them sets, and where two set the same, what the better one does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optim._engine.search.state import Step

_UNSET: tuple[Any, ...] = (None, [], ())


@dataclass(frozen=True, slots=True)
class Merged:
    """The pass of all of them, and its options."""

    name: str
    options: dict[str, Any]


def merged_settings(steps: Sequence[Step]) -> Merged | None:
    """Returns the options of all steps together, the best first; None unless several are of one pass of settings."""
    names = {step.pass_name for step in steps if step.session_only}
    if len(steps) < 2 or len(names) != 1:
        return None
    plain = {name: value for step in steps for name, value in step.options.items() if value in _UNSET}
    chosen = {name: value for step in reversed(steps) for name, value in step.options.items() if value not in _UNSET}
    return Merged(names.pop(), plain | chosen)
