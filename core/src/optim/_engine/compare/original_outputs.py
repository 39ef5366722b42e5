"""What is looked at in the original's outputs before anything is held against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from optim._engine.compare.padding import outputs_with_padding
from optim._engine.compare.place import Reference, chosen
from optim._engine.gate.outputs import only_nan, variations_of
from optim._engine.gate.variation import Variation, write
from optim.backend import Session
from optim.errors import OptimError
from optim.target import Target


def measure_variations(session: Session, reference: Reference) -> dict[str, Variation]:
    """Measure how each output of the original varies over its samples, and keep it beside its outputs."""
    alone = (fed for _, fed in chosen(reference.feed_set(), reference.compared))
    padded = outputs_with_padding(session.run, reference.original, alone)
    feeds = chosen(reference.feed_set(), reference.compared)
    found = variations_of(((reference.expected(sample), fed) for sample, fed in feeds), reference.original, padded)
    write(reference.outputs, found)
    return found


def notes_on_outputs(variations: Mapping[str, Variation]) -> Iterator[str]:
    """What cannot be judged on these samples."""
    for name, one in variations.items():
        if one.unjudged:
            yield f"output '{name}' is not judged: {one.unjudged}; give --data on which this output differs"


def require_numbers(reference: Reference, target: Target) -> None:
    """Refuse an original that computes nothing: against NaN everything would be right.

    Raises:
        OptimError[only-nan]: no output has a number, on any sample.
    """
    if only_nan(reference.expected(sample) for sample in reference.compared):
        raise OptimError(
            "only-nan",
            f"the original model computes only NaN on {target.name}",
            f"no output has a number, on {len(reference.compared)} samples",
            "optim verify MODEL MODEL --target cpu tells whether the model, its samples or the backend is the reason",
        )
