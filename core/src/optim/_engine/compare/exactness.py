"""An original that this machine computes otherwise than the model says, unless it is opened with other settings.

Integer kernels of some processors saturate if sums are too large, and a model that was quantized before may have such
sums. Its outputs with the settings of :meth:`optim.Backend.exact_settings` then count as right: candidates that repeat
the saturated outputs are wrong, and so is the original as it stands.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from optim._engine.backends.held import HeldBackend
from optim._engine.compare.place import Reference, compare_session
from optim._engine.gate.drift import worst_drift
from optim.model import Model
from optim.processor import ExactSettings
from optim.target import Target


@dataclass(frozen=True, slots=True)
class Inexact:
    """That this machine computes the original as it stands otherwise than the model says.

    Attributes:
        drift: of the original as it stands from its reference outputs.
        pass_name: the pass that lays the exact settings over a model.
        cause: why, one clause.
    """

    drift: float
    pass_name: str
    cause: str

    @property
    def note(self) -> str:
        """One sentence for a report, and what follows from it."""
        return (
            f"the original computes wrong values on this processor, with a drift of {self.drift:.2g}: {self.cause}. "
            f"optim compares with exact arithmetic, which {self.pass_name} produces"
        )


def needed_settings(
    backend: HeldBackend, model: Model, target: Target, without: Collection[str]
) -> ExactSettings | None:
    """The settings that the original may need; None also for users who exclude the pass: they accept its outputs."""
    exact = backend.exact_settings(model, target)
    return None if exact is None or exact.pass_name in without else exact


def accepted_inexact(backend: HeldBackend, model: Model, target: Target, without: Collection[str]) -> str:
    """Why the target may compute something else than a model says, if the user accepted that; else empty.

    For its arguments see :func:`needed_settings`.
    """
    exact = backend.exact_settings(model, target)
    if exact is None or exact.pass_name not in without:
        return ""
    return f"{exact.pass_name} is left out, and without it {exact.cause}"


def find_inexact(
    backend: HeldBackend, exact: ExactSettings, target: Target, reference: Reference, tolerance: float
) -> Inexact | None:
    """Compares the original as it stands with its reference outputs; None if rounding explains what differs.

    Raises:
        OptimError: it does not open or run as it stands.
    """
    with backend.open(reference.original, target) as session:
        drift = worst_drift(compare_session(session, reference, reference.compared, ())).relative_error
    return Inexact(drift, exact.pass_name, exact.cause) if drift > tolerance else None
