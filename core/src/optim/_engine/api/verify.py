"""``optim.verify`` and ``optim.lab``: models on the same samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING
from urllib.parse import quote

from optim._engine.api.given import Data, MadeUp, TaskMetric, named_data, named_metric, sized_data
from optim._engine.api.request import require_models
from optim._engine.gate.budget import parse_max_loss, parse_max_mismatch
from optim._engine.search.settings import RunSettings
from optim._engine.sources.naming import fetched, quiet
from optim.errors import OptimError

if TYPE_CHECKING:
    from optim._engine.reports.answers import Verification
    from optim._engine.runs.lab.lab import Lab


def verify(
    reference: str | PathLike[str],
    other: str | PathLike[str] | None = None,
    *,
    data: Data | None = None,
    max_drift: float | None = None,
    metric: TaskMetric | None = None,
    max_loss: str | float | None = None,
    max_mismatch: str | float = 0.0,
    target: str = "cpu",
    other_target: str = "",
    seed: int = 0,
    samples: int = 0,
    sizes: Mapping[str, int] | None = None,
    mask: str = "",
    say: Callable[[str], None] | None = None,
) -> Verification:
    """Runs two models on the same input samples and compares every output.

    Args:
        reference: an ``.onnx`` file, a run folder, a source, which optim exports, or a file of ``optim outputs``.
        other: model to compare; by default the reference itself, on ``other_target``.
        data: input samples, as in ``optim.run``. By default the samples of a run folder if it has some, else
            synthesized ones.
        max_drift: largest drift of any output. By default 0.1, or no limit with ``max_loss``.
        metric: task metric, as in ``optim.run``.
        max_loss: largest loss of the metric: ``"1%"`` of the reference's value, or an amount.
        max_mismatch: share of the texts or whole numbers of an output that may differ: ``0.01``, or ``"1%"``.
        target: target of both models.
        other_target: target of ``other``, if it is another one.
        seed: random seed for synthesized samples.
        samples: number of synthesized samples; 0: the usual number.
        sizes: sizes of synthesized samples by dimension. Name a dimension as the model does, or by what it counts, such
            as ``batch``.
        mask: part that the mask of synthesized samples hides: ``full`` nothing, ``end`` or ``start`` a part of each row
            there; empty: a part of a few samples.
        say: function that gets progress, a line at a time.

    Returns:
        Every output with its figures. ``within`` says whether they are within the limits.

    Raises:
        OptimError: a model, the samples, the metric or the target cannot be used.

    Examples:
        >>> found = optim.verify("model.onnx", "out", data={"x": x})
        >>> found.within, found.drift.relative_error
        (True, 0.0127)
    """
    said = say or quiet
    if other is not None and fspath(reference).endswith(".npz"):  # stored outputs stand for what computed them
        stored = f"stored:file={quote(fspath(reference))},of={quote(fspath(other))}"
        reference, other, target, other_target = other, None, stored, other_target or target
    first = fetched(fspath(reference), said)
    models = first, first if other is None else fetched(fspath(other), said)
    if other is None and not other_target:
        raise OptimError.usage(
            "nothing-to-compare",
            "optim verify needs a second model or a second target",
            "no second model and no second target is given",
            f"optim verify {reference} OTHER, or --other-target TARGET",
        )
    made_up = MadeUp(samples, sizes or {}, mask)
    with (
        sized_data(models[0], made_up, data, seed) as given,
        named_data(given, seed) as feeds,
        named_metric(metric) as judged_by,
    ):
        require_models(models, feeds, target)
        from optim._engine.runs.compare.verify import verify_models

        asked = RunSettings(
            models[0],
            target=target,
            data=feeds,
            seed=seed,
            max_drift=max_drift,
            metric=judged_by,
            max_loss=parse_max_loss(str(max_loss)) if max_loss is not None else None,
            max_mismatch=parse_max_mismatch(str(max_mismatch)),
        )
        found = verify_models(*models, asked, said, other_target=other_target)
    if not made_up:
        return found
    return found.model_copy(update={"feeds": found.feeds.model_copy(update={"origin": made_up.text})})


def lab(
    model: str | PathLike[str],
    *,
    data: Data | None = None,
    target: str = "cpu",
    seed: int = 0,
    beside: Sequence[str | PathLike[str]] = (),
    say: Callable[[str], None] | None = None,
) -> Lab:
    """Prepares a model for experiments: reads the model and its samples, and runs it on them.

    Args:
        model: an ``.onnx`` file, a run folder, or a source, which optim exports.
        data: input samples, as in ``optim.run``. By default the samples of a run folder if it has some, else
            synthesized ones.
        target: where models run.
        seed: random seed for synthesized samples and for passes.
        beside: further models to look at. optim also uses the samples of their run folders.
        say: function that gets progress, a line at a time.

    Returns:
        The lab. It has a place in the cache until you close it or the program ends. A ``with`` block closes it.

    Raises:
        OptimError: the model, the samples or the target cannot be used.

    Examples:
        >>> lab = optim.lab("model.onnx", data={"x": x})
        >>> smaller = lab.try_pass("ort.quantize-dynamic", per_channel=True)
        >>> smaller.drift, lab.time(lab.original, smaller).ratio
        (0.0083, 0.62)
    """
    said = say or quiet
    models = [fetched(fspath(one), said) for one in (model, *beside)]
    with named_data(data, seed) as feeds:
        require_models(models, feeds, target)
        from optim._engine.runs.lab.lab import Lab

        return Lab.of(models, RunSettings(models[0], target=target, data=feeds, seed=seed), said)
