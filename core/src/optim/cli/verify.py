"""``optim verify``: compare two models on the same feeds."""

from __future__ import annotations

from pathlib import Path

import click

from optim.cli.names import TARGET_NAME
from optim.cli.output import json_option, print_json, print_table
from optim.errors import ExitStatus


@click.command
@click.argument("reference", type=click.Path(path_type=Path))
@click.argument("other", type=click.Path(path_type=Path))
@click.option(
    "--data", metavar="FEEDS", help="An .npz, a folder of them, or package.module:function. [default: synthesized]"
)
@click.option("--max-drift", type=float, help="Largest relative L2 of any output. [default: 0.05]")
@click.option("--target", type=TARGET_NAME, default="cpu", show_default=True)
@click.option("--seed", type=int, default=0, help="Of synthesized feeds.")
@json_option
def verify(
    reference: Path, other: Path, data: str | None, max_drift: float | None, target: str, seed: int, as_json: bool
) -> int:
    """Run REFERENCE and OTHER on the same feeds and compare every output.

    Each is an .onnx file or a run folder. Exit status 0: within --max-drift; 4: beyond.
    """
    from optim.cli.progress import progress
    from optim.plugins.registry import load_registry
    from optim.reports.schema import OutputReport
    from optim.runs.compare import verify_models
    from optim.store import Store
    from optim.wire import to_wire

    with progress() as say:
        found = verify_models(
            reference, other, registry=load_registry(), store=Store(), say=say, data=data, target=target,
            max_drift=max_drift, seed=seed,
        )  # fmt: skip
    outputs = [OutputReport.model_validate(to_wire(item)) for item in found.comparisons]
    if as_json:
        from optim.reports.schema import DriftReport

        print_json(
            {
                "within": found.within, "reason": found.objection, "limit": found.limit, "tolerance": found.tolerance,
                "lossless": found.drift.relative_l2 <= found.tolerance,
                "drift": DriftReport.model_validate(to_wire(found.drift)).model_dump(mode="json"),
                "outputs": [item.model_dump(mode="json") for item in outputs],
                "feeds": {
                    "origin": found.prepared.origin, "samples": found.prepared.available,
                    "compared": len(found.prepared.compared),
                },
            }
        )  # fmt: skip
        return ExitStatus.DELIVERED if found.within else ExitStatus.NOT_HELD
    rows = [
        [
            item.name,
            "x".join(map(str, item.shape)),
            _number(item.relative_l2),
            _number(item.max_abs),
            _number(item.cosine),
            item.problem,
        ]
        for item in outputs
    ]
    print_table(["output", "shape", "drift", "max abs", "cosine", ""], rows)
    limit = f"the limit of {found.limit:.3g}"
    click.echo(f"feeds: {found.prepared.origin}, {len(found.prepared.compared)} of {found.prepared.available} samples")
    if found.within:
        same = "equal up to rounding" if found.drift.relative_l2 <= found.tolerance else f"within {limit}"
        click.echo(f"{same}: drift {found.drift.relative_l2:.3g} (rounding explains {found.tolerance:.2g})")
        return ExitStatus.DELIVERED
    click.echo(f"beyond {limit}: {found.objection}")
    return ExitStatus.NOT_HELD


def _number(value: float | None) -> str:
    return "inf" if value is None else f"{value:.4g}"
