"""What is looked at in the original's outputs before anything is held against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from optim._engine.compare.place import Reference, chosen
from optim._engine.gate.outputs import faint_outputs, mixed_outputs, only_nan, without_padding
from optim.errors import OptimError
from optim.target import Target


def notes_on_outputs(reference: Reference, mixed: Mapping[str, str]) -> Iterator[str]:
    """What to know of outputs before their drift is read."""
    for name, value in faint_outputs(map(reference.expected, reference.compared)).items():
        yield f"output '{name}' is next to zero on every sample ({value:.2g} at most), so its drift says little"
    for name, slices in mixed.items():
        yield f"output '{name}' mixes scales, {slices}: each kind has a drift of its own, and the worst is held"


def mixing_outputs(reference: Reference) -> dict[str, str]:
    """Outputs that mix scales on some sample, padding left out, with the slices that do."""
    found: dict[str, str] = {}
    for sample, feeds in chosen(reference.feed_set(), reference.compared):
        outputs = reference.expected(sample)
        found = mixed_outputs({**outputs, **without_padding(outputs, feeds, reference.original)}) | found
    return found


def require_numbers(reference: Reference, target: Target) -> None:
    """Refuse an original that computes nothing: against NaN everything would be right.

    Raises:
        OptimError[only-nan]: no output has a number, on any sample.
    """
    if only_nan(reference.expected(sample) for sample in reference.compared):
        raise OptimError(
            "only-nan",
            f"the original model computes only NaN on {target.name}",
            f"no output has one number, on {len(reference.compared)} samples",
            "optim verify MODEL MODEL --target cpu tells whether it is the model or its feeds (--data), or the backend",
        )
