"""``optim verify``: compare two models on the same input samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optim._engine.cli.request import on_runtimes, runtime_option
from optim.cli_kit.names import TARGET_NAME
from optim.cli_kit.options import (
    MODEL_PATH,
    OptimCommand,
    data_option,
    made_up_options,
    metric_options,
    mismatch_option,
    seed_option,
    target_option,
)
from optim.cli_kit.output import echo, json_option, print_json, print_table
from optim.errors import ExitStatus

if TYPE_CHECKING:
    from optim._engine.reports.answers import Verification


@click.command(
    cls=OptimCommand,
    examples=(
        "optim verify model.onnx out --data samples.npz --max-drift 0.05",
        "optim verify model.onnx --target cpu --other-target openvino",
        "optim verify ref.npz out --data samples.npz",
    ),
)
@click.argument("reference", type=MODEL_PATH)
@click.argument("other", type=MODEL_PATH, required=False)
@data_option
@made_up_options
@click.option(
    "--max-drift", type=float, metavar="LIMIT", help="Accuracy budget: largest drift of any output. [default: 0.1]"
)
@mismatch_option
@metric_options
@target_option
@click.option("--other-target", type=TARGET_NAME, default="", help="Target to run OTHER on. [default: --target]")
@runtime_option
@seed_option("Random seed of synthesized samples.")
@json_option
def verify(reference: Path, other: Path | None, runtime: str | None, as_json: bool, **words: Any) -> int:
    """Run REFERENCE and OTHER on the same input samples and compare every output.

    Each model is an .onnx file or a run folder. With --other-target, OTHER may be left out: optim compares REFERENCE
    with itself on the other target. REFERENCE can also be a file of optim outputs.

    Exit status 0: within the budget; 4: beyond the budget, or not judged. A CI job can use it as a gate.
    """
    if runtime is not None:
        return on_runtimes(runtime, [reference, *filter(None, [other])])
    from optim._engine.api.verify import verify as verify_models
    from optim.cli_kit.live_lines import progress

    given = {name: value for name, value in words.items() if value is not None}
    with progress() as say:
        found = verify_models(reference, other, say=say, **given)
    if as_json:
        print_json(found.model_dump(mode="json", exclude=None if found.task else {"task"}))
    else:
        _print(found)
    return ExitStatus.DELIVERED if found.within else ExitStatus.NOT_HELD


def _print(found: Verification) -> None:
    from optim._engine.gate.drift import DIFFERENCES
    from optim._engine.reports.words import count_text, figure_text, output_texts, worst_text

    rows = [
        [
            item.name,
            "x".join(map(str, item.shape)),
            figure_text(item.relative_error),
            worst_text(item),
            figure_text(item.max_abs),
            figure_text(item.cosine),
            "" if item.max_ulp is None else f"{item.max_ulp:.4g}",
            *(str(item.above.get(limit, "")) for limit in DIFFERENCES),
        ]
        for item in found.outputs
    ]
    limits = [f">{limit}" for limit in DIFFERENCES]
    print_table(["output", "shape", "drift", "worst at", "max abs", "cosine", "ULP", *limits], rows)
    for item in found.outputs:
        if texts := output_texts(item):
            echo(f"{item.name}: {'; '.join(texts)}")
    echo(f"samples: {found.feeds.origin}, {found.feeds.compared} of {count_text(found.feeds.samples, 'sample')}")
    if found.task is not None:
        task = found.task
        error = "" if task.error is None else f", standard error {task.error:.2g}"
        moved = f"a {'gain' if task.loss < 0 else 'loss'} of {abs(task.loss):.3g}{error}"
        echo(
            f"{task.metric}: {task.value:.4g}, of the reference {task.original:.4g}: "
            f"{moved}, on {count_text(task.samples, 'sample')}"
        )
    echo(found.verdict)
    for note in found.notes:
        echo(f"note: {note}")
