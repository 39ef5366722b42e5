"""``optim bench``: time models against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optim.cli_kit.names import TARGET_NAME
from optim.cli_kit.options import SECONDS, data_option, seed_option, target_option
from optim.cli_kit.output import echo, json_option, print_json, print_table
from optim.errors import ExitStatus


@click.command
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="MODEL_OR_RUN_FOLDER...")
@data_option
@target_option
@click.option("--seconds", type=SECONDS, default=20.0, show_default=True, help="Of timing, at most.")
@seed_option("Of synthesized feeds and of the order.")
@click.option("--beside", multiple=True, type=TARGET_NAME, help="Also run the first's source itself: torch-eager, ...")
@click.option("--component", default="", help="Of a source with several, e.g. decoder.")
@json_option
def bench(
    models: tuple[Path, ...],
    data: str | None,
    target: str,
    seconds: float,
    seed: int,
    beside: tuple[str, ...],
    component: str,
    as_json: bool,
) -> int:
    """Time models in lock-step, each in a process of its own; ratios are to the first.

    Each is an .onnx file, opened with the backend's defaults, a run folder, opened with its tuned settings, or a
    Hugging Face folder or package.module:factory, which is exported first.
    """
    from optim._engine.cli.early import require_models

    require_models(models, data, target)
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.compare import Conditions, bench_models
    from optim._engine.store import Store
    from optim.cli_kit.progress import progress

    with progress() as say:
        found = bench_models(
            models,
            Conditions(load_registry(), Store(), say, data=data, target=target, seed=seed, component=component),
            seconds=seconds,
            beside=beside,
        )
    rows: list[dict[str, Any]] = []
    for name, size, result in zip(found.names, found.sizes, found.results, strict=True):
        ratio, ready = result.ratio, result.ready
        rows.append(
            {
                "model": name,
                "error": result.failure or None,
                "latency_ms": result.latency_ms or None,
                "size_bytes": size or None,
                "peak_memory_bytes": ready.peak_memory_bytes if ready else None,
                "latency_ratio": ratio.value if ratio else None,
                "latency_ratio_ci": [ratio.low, ratio.high] if ratio else None,
                "rounds": ratio.rounds if ratio else 0,
                "shapes": [
                    {"shape": shape, "latency_ms": ms, "ratio": each.value, "ci": [each.low, each.high]}
                    for shape, ms, each in zip(
                        found.prepared.shapes, result.sample_ms, result.sample_ratio, strict=False
                    )
                ],
            }
        )
    if as_json:
        print_json({"target": target, "feeds": found.prepared.origin, "models": rows})
    else:
        _print(rows)
    return ExitStatus.BAD_INPUT if any(row["error"] for row in rows) else ExitStatus.DELIVERED


def _print(rows: list[dict[str, Any]]) -> None:
    table = []
    for row in rows:
        low_high = row["latency_ratio_ci"]
        figures = (
            [f"{row['latency_ms']:.3f}", f"{row['latency_ratio']:.3f}", f"[{low_high[0]:.3f}, {low_high[1]:.3f}]"]
            if low_high
            else ["", "", str(row["error"])]
        )
        peak = row["peak_memory_bytes"]
        table.append([str(row["model"]), *figures, _megabytes(row["size_bytes"]), _megabytes(peak), str(row["rounds"])])
    print_table(["model", "ms", "ratio", "95 % interval", "MB", "peak MB", "rounds"], table)
    shapes = rows[0]["shapes"]
    if len(shapes) > 1:
        echo("latency is the geometric mean over " + "; ".join(item["shape"] for item in shapes))


def _megabytes(value: object) -> str:
    return f"{value / 1e6:.1f}" if isinstance(value, int) and value else ""
