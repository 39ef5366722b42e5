"""``optim verify``: compare two models on the same feeds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from optim.cli_kit.options import data_option, metric_options, seed_option, target_option
from optim.cli_kit.output import echo, json_option, print_json, print_table
from optim.errors import ExitStatus

if TYPE_CHECKING:
    from optim._engine.runs.compare import Verification


@click.command
@click.argument("reference", type=click.Path(path_type=Path))
@click.argument("other", type=click.Path(path_type=Path))
@data_option
@click.option("--max-drift", type=float, help="Largest relative L2 of any output. [default: 0.05]")
@metric_options
@target_option
@seed_option("Of synthesized feeds.")
@json_option
def verify(
    reference: Path,
    other: Path,
    data: str | None,
    max_drift: float | None,
    metric: str | None,
    max_loss: str | None,
    target: str,
    seed: int,
    as_json: bool,
) -> int:
    """Run REFERENCE and OTHER on the same feeds and compare every output.

    Each is an .onnx file or a run folder. Exit status 0: within --max-drift and --max-loss; 4: beyond.
    """
    from optim._engine.cli.early import require_models

    require_models((reference, other), data, target)
    from optim._engine.compare.metric_spec import parse_max_loss, parse_metric
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.compare import Conditions, verify_models
    from optim._engine.store import Store
    from optim.cli_kit.progress import progress

    with progress() as say:
        found = verify_models(
            reference,
            other,
            Conditions(load_registry(), Store(), say, data=data, target=target, seed=seed),
            max_drift=max_drift,
            metric=parse_metric(metric) if metric else None,
            max_loss=parse_max_loss(max_loss) if max_loss is not None else None,
        )
    if as_json:
        print_json(_as_fields(found))
    else:
        _print(found)
    return ExitStatus.DELIVERED if found.within else ExitStatus.NOT_HELD


def _as_fields(found: Verification) -> dict[str, object]:
    from optim._engine.reports.schema import DriftReport, OutputReport
    from optim.jobs.wire import to_wire

    fields = {
        "within": found.within,
        "reason": found.objection,
        "tolerance": found.tolerance,
        "limit": found.limit if math.isfinite(found.limit) else None,
        "lossless": found.drift.relative_l2 <= found.tolerance,
        "drift": DriftReport.model_validate(to_wire(found.drift)).model_dump(mode="json"),
        "outputs": [OutputReport.model_validate(to_wire(item)).model_dump(mode="json") for item in found.comparisons],
        "feeds": {
            "origin": found.prepared.origin,
            "samples": found.prepared.available,
            "compared": len(found.prepared.compared),
        },
    }
    if found.task is not None and found.prepared.task is not None:
        fields["task"] = {"metric": found.prepared.task.metric.text, **to_wire(found.task)}
    return fields


def _print(found: Verification) -> None:
    rows = [
        [
            item.name,
            "x".join(map(str, item.shape)),
            _number(item.relative_l2),
            _number(item.max_abs),
            _number(item.cosine),
            item.problem,
        ]
        for item in found.comparisons
    ]
    print_table(["output", "shape", "drift", "max abs", "cosine", ""], rows)
    echo(f"feeds: {found.prepared.origin}, {len(found.prepared.compared)} of {found.prepared.available} samples")
    if found.task is not None and found.prepared.task is not None:
        task = found.task
        error = "" if task.error is None else f", standard error {task.error:.2g}"
        echo(
            f"{found.prepared.task.metric.text}: {task.value:.4g}, of the reference {task.original:.4g}: "
            f"a loss of {task.loss:.3g}{error}, on {task.samples} samples"
        )
    drift = found.drift.relative_l2
    if not found.within:
        echo(f"beyond the limit: {found.objection}")
        return
    within = f"within the limit of {found.limit:.3g}" if math.isfinite(found.limit) else "within the limit"
    same = "equal up to rounding" if drift <= found.tolerance else within
    echo(f"{same}: drift {drift:.3g} (rounding explains {found.tolerance:.2g})")


def _number(value: float) -> str:
    return f"{value:.4g}"
