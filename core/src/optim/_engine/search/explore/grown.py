"""What a stage made of the beam: the candidates that hold, what each goes on from, and what it promises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optim._engine.search.explore.promise import Promises
from optim._engine.search.state import Candidate, Measured, Step, unique
from optim.passes import Role

LOOK_AHEAD = 3
"""Session settings that each new graph is looked at through: more leave each of them less of the race."""

_UNSET: tuple[Any, ...] = (None, [], ())


@dataclass(frozen=True, slots=True)
class Grown:
    """The candidates after a stage, those of the beam among them, and by their digest what each goes on from."""

    candidates: Sequence[Candidate]
    parents: Mapping[str, Measured]

    def is_new(self, candidate: Candidate) -> bool:
        """Whether it is another model than what it goes on from."""
        return candidate.digest != self.parents[candidate.digest].digest

    def only_makes_way(self, candidate: Candidate) -> bool:
        """Whether its last step is new and only makes way: not worth a race, it goes on as its parent would."""
        return candidate.steps[-1].role is Role.ENABLE and self.is_new(candidate)

    def is_still(self, beam: Sequence[Measured]) -> bool:
        """Whether it is the beam itself."""
        if len(self.candidates) != len(beam):
            return False
        pairs = zip(self.candidates, beam, strict=True)
        return all(not candidate.steps or candidate is parent.candidate for candidate, parent in pairs)

    def promised(self, candidate: Candidate, promises: Promises) -> float:
        """The latency to expect of a candidate, as a ratio to the original."""
        parent = self.parents[candidate.digest]
        gain = promises.gain_on(parent.digest, candidate.steps[-1]) if self.is_new(candidate) else 0.0
        return (parent.ratio or 1.0) * math.exp(-gain)


def in_turns(
    candidates: Sequence[Candidate], variants: Mapping[str, Sequence[Candidate]], promises: Promises
) -> list[Candidate]:
    """Each, the best first, under its first guess, then the next guess of each, so that little time is well spent.

    The first guess is the first of the settings, unless they were slower before: then each is timed as it is.
    """
    rows = []
    for candidate in candidates:
        first, *others = variants[candidate.digest] or [candidate]
        with_first = [first, candidate] if promises.gain(first.steps[-1]) >= 0 else [candidate, first]
        rows.append(list(unique([*with_first, *others])))
    return [row[i] for i in range(LOOK_AHEAD + 1) for row in rows if i < len(row)]


def merged_settings(steps: Sequence[Step]) -> dict[str, Any] | None:
    """Returns what each step sets, and where two set the same, what the better one does, which comes first.

    None unless several are of one pass of settings.
    """
    names = {step.pass_name for step in steps if step.session_only}
    if len(steps) < 2 or len(names) != 1:
        return None
    plain = {name: value for step in steps for name, value in step.options.items() if value in _UNSET}
    chosen = {name: value for step in reversed(steps) for name, value in step.options.items() if value not in _UNSET}
    return plain | chosen
