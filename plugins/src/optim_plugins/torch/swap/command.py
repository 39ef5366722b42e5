"""``optim swap``: a model with chosen operators on chosen kernels."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from optim.cli_kit import TARGET_NAME, data_option, echo, json_option, print_json, print_table, seed_option

if TYPE_CHECKING:
    from optim import Model
    from optim.arrays import Feeds
    from optim_plugins.torch.swap.attribution import Row

_RANDOM = ("Random", "Bernoulli", "Multinomial")
"""How operators begin that draw numbers."""


@click.command
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--kernels",
    multiple=True,
    metavar="OP=KERNEL[,...]",
    help="Kernels by operator: torch or ort; * stands for the other operators. Can be repeated.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    type=TARGET_NAME,
    help="Target of the onnxruntime kernels. [default: cpu] Can be repeated.",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(["float32", "float16", "bfloat16"]),
    help="Type of all floats. [default: those of the model] Can be repeated.",
)
@data_option
@seed_option("Random seed of synthesized samples.")
@json_option
def swap(
    model: Path,
    kernels: tuple[str, ...],
    targets: tuple[str, ...],
    dtypes: tuple[str, ...],
    data: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Run MODEL with the kernels of torch or onnxruntime by operator, and show which operator changes the outputs.

    optim compares each combination with onnxruntime, with the kernels of torch alone, and with the ONNX reference in
    float64. onnxruntime runs an operator for which torch has no kernel, and the output says so.
    """
    _require_torch()
    import onnx

    from optim.cli_kit import read_model, require_target
    from optim.jobs import to_wire
    from optim_plugins.torch.swap.attribution import attribute, parse_kernels
    from optim_plugins.torch.swap.types import operators

    combinations = [parse_kernels(text) for text in kernels]
    used = [require_target(name) for name in targets or ("cpu",)]
    rows: list[Row] = []
    with TemporaryDirectory(prefix="optim-swap-") as text:
        folder = Path(text)
        read = read_model(model, folder / "store")
        feeds = _feeds(read, data, folder, seed)
        whole = onnx.load(read.path)
        for target in used:
            for dtype in dtypes or ("",):
                place = folder / f"{target.name}-{dtype}"
                place.mkdir()
                rows += attribute(whole, feeds, combinations, target, dtype, place)
    if as_json:
        print_json(to_wire(rows))
        return
    _print(rows)
    if chance := [name for name in operators(whole) if name.startswith(_RANDOM)]:
        echo(f"rows differ by chance too, because the model draws random numbers in each run: {', '.join(chance)}")


def _require_torch() -> None:
    """Refuse what only torch can do, before it is waited for."""
    from optim import OptimError
    from optim_plugins.torch.available import INSTALL, torch_available

    if not torch_available().yes:
        raise OptimError.usage("torch-missing", "optim swap needs torch", "torch is not installed", INSTALL)


def _feeds(model: Model, data: str | None, folder: Path, seed: int) -> Feeds:
    """The first sample."""
    from optim import SessionConfig
    from optim.cli_kit import context_for, made_up_feeds, read_feeds, require_target
    from optim.onnx import open_session

    if data is not None:
        read_feeds(data, model, folder / "feeds", seed=seed)
        with context_for(require_target("cpu"), folder / "store", folder / "feeds", seed=seed) as context:
            return next(iter(context.samples()))
    session = open_session(model.path, SessionConfig())
    names = [value.name for value in session.get_outputs()]
    found = made_up_feeds(
        model,
        folder / "feeds",
        seed=seed,
        run=lambda feeds: dict(zip(names, session.run(None, dict(feeds)), strict=True)),
    )
    return found[0]


def _print(rows: list[Row]) -> None:
    from optim_plugins.torch.swap.attribution import COUNTED

    counts = [f">{limit:g}" for limit in COUNTED]
    table = []
    for row in rows:
        for other, gap in row.to.items():
            if other != row.combination:
                figures = [
                    f"{gap.max_abs:.3g}",
                    f"{gap.relative:.3g}",
                    f"{gap.total:.4g}",
                    f"{gap.ulp:.4g}",
                    str(gap.nan),
                ]
                where = [row.target, row.dtype, row.combination, row.output, other, str(gap.n)]
                table.append([*where, *figures, *map(str, gap.above)])
    print_table(["target", "dtype", "kernels", "output", "to", "n", "abs", "rel", "sum", "ULP", "NaN", *counts], table)
    echo()
    described = [
        [r.target, r.device, r.dtype, r.combination, r.output, f"{r.smallest:.7g}", f"{r.largest:.7g}", f"{r.mean:.9g}"]
        for r in rows
    ]
    print_table(["target", "torch on", "dtype", "kernels", "output", "min", "max", "mean"], described)
    missing = sorted({name for row in rows for name in row.on_ort})
    if missing:
        echo(f"torch has no kernel of these here, so onnxruntime's ran: {', '.join(missing)}")
    for target in dict.fromkeys(row.target for row in rows):
        rounded = sorted({name for row in rows if row.target == target for name in row.rounded})
        if rounded:
            echo(
                f"onnxruntime has no kernel in bfloat16 on {target} of these, so its kernels in float32 ran, and what"
                f" they made was rounded: {', '.join(rounded)}"
            )
        if any(row.combination == "ort" and not row.whole for row in rows if row.target == target):
            echo(f"onnxruntime does not open the model in bfloat16 on {target}: row ort is of its kernels one by one")
