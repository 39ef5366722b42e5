"""The verdict of ``optim.verify`` on a pair, with what it says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx

import optim
from gate.case import Case, Verdict
from optim.errors import OptimError


@dataclass(frozen=True, slots=True)
class Found:
    """What verify says of a pair.

    Attributes:
        verdict: in one of our words.
        text: in its own words.
    """

    verdict: Verdict
    text: str


def judged(case: Case, folder: Path) -> Found:
    """Verify a pair with the default budget of a run; the models are written into ``folder``."""
    paths = []
    for name, model in (("reference", case.reference), ("other", case.other)):
        path = folder / f"{name}.onnx"
        onnx.save(model, path)
        paths.append(path)
    try:
        found = optim.verify(*paths, data=case.samples, seed=0)
    except OptimError as error:
        return Found(Verdict.ERROR, f"error[{error.reference}]: {error.what}: {error.cause}")
    return Found(_verdict(found), found.verdict)


def _verdict(found: optim.Verification) -> Verdict:
    """``lossless`` is read beside ``within``: either of them is a promise to the user."""
    if found.verdict.startswith(Verdict.NOT_JUDGED):
        return Verdict.NOT_JUDGED
    if found.lossless:
        return Verdict.EQUAL
    return Verdict.WITHIN if found.within else Verdict.REFUSED
