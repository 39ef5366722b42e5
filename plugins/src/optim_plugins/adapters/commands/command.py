"""``optim adapters``: extract, convert, show, check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optim.cli_kit import echo, json_option, print_fields, print_json, print_table, size_text

if TYPE_CHECKING:
    from optim import Model
    from optim_plugins.adapted import Adapter

_PATH = click.Path(path_type=Path)


@click.group("adapters")
def adapters() -> None:
    """Extract an adapter from a model, and convert, show and check adapters.

    A model accepts adapters after optim adapters extract has made inputs of their weights.
    """


@adapters.command()
@click.argument("model", type=_PATH)
@click.option("-o", "--output", type=_PATH, required=True, help="Folder to write; it must be new or empty.")
@click.option("--required", is_flag=True, help="Make the adapter inputs required: give them no default.")
@click.option("--rank", type=click.IntRange(1, 4096), metavar="N", help="Fixed LoRA rank. [default: any rank]")
@click.option(
    "--supply",
    type=click.Choice(("inputs", "external")),
    default="inputs",
    show_default=True,
    help="inputs: each run passes the adapter. external: the session loads it as initializers.",
)
@json_option
def extract(model: Path, output: Path, as_json: bool, **words: Any) -> None:
    """Replace the adapter of MODEL by inputs, and write the adapter to a file.

    optim compares the result with MODEL, with the adapter and without. optim.load opens the folder. To make the model
    fast as well, use optim run MODEL --with adapters.extract.
    """
    from optim.options import parse_options
    from optim_plugins.adapters.commands.extracting import write_extracted
    from optim_plugins.adapters.extract.extract import Extract
    from optim_plugins.adapters.extract.extract_options import ExtractOptions

    options = parse_options(Extract, words)
    assert isinstance(options, ExtractOptions)
    made = write_extracted(model, output, options)
    if as_json:
        print_json(made.as_json())
        return
    echo(f"{made.model}: {made.layers} layers take adapters")
    echo(f"{made.adapter}: the adapter that the model had")
    echo(f"as before with it: drift {made.drift:.3g}; without it the base: drift {made.base_drift:.3g}")


@adapters.command()
@click.argument("folder", metavar="PEFT_FOLDER", type=_PATH)
@click.option("--for", "model", type=_PATH, required=True, help="Model for the adapter, or its run folder.")
@click.option("-o", "--output", type=_PATH, required=True, help="File to write: .onnx_adapter, .safetensors or .npz.")
@click.option("--base", type=_PATH, help="Folder of the base model of the adapter; only DoRA needs it.")
@click.option(
    "--dtype",
    type=click.Choice(("float32", "float16", "bfloat16", "int8", "int4")),
    help="Expected type of the weights; another type is an error. [default: that of the model]",
)
@click.option(
    "--block-size",
    type=click.Choice(("16", "32", "64", "128", "256")),
    help="Expected block size of int4 and int8. [default: that of the model]",
)
@click.option(
    "--mode",
    type=click.Choice(("symmetric", "asymmetric")),
    help="Expected mode of int4 and int8. [default: that of the model]",
)
@click.option(
    "--adapter-version",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    metavar="N",
    help="Adapter version to store in the file.",
)
@click.option(
    "--model-version",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Model version to store in the file. [default: none]",
)
@json_option
def convert(folder: Path, model: Path, output: Path, base: Path | None, as_json: bool, **words: Any) -> None:
    """Convert an adapter that peft saved to the names, layouts and types of a model."""
    from optim_plugins.adapted import require_format, write_adapter
    from optim_plugins.adapters.convert.convert import convert as converted_from
    from optim_plugins.adapters.convert.wanted_form import require_form

    require_format(output)
    inputs = _taking_adapters(model).adapters
    require_form(inputs, words["dtype"], int(words["block_size"] or 0) or None, words["mode"])
    versions = {"version": words["adapter_version"], "model_version": words["model_version"]}
    made = converted_from(folder, inputs, base=base, **versions)
    write_adapter(made.adapter, output)
    if as_json:
        print_json(
            {"file": str(output), "modules": dict(made.modules), "ranks": list(made.ranks), "left": list(made.left)}
        )
        return
    ranks = ", ".join(map(str, made.ranks))
    echo(f"{output}: {len(made.modules)} layers, rank {ranks}, {size_text(output.stat().st_size)}")
    if made.left:
        echo(f"{len(made.left)} further layers of the model stay as in its base")


@adapters.command()
@click.argument("file", type=_PATH)
@json_option
def show(file: Path, as_json: bool) -> None:
    """Show the contents of an adapter file."""
    from optim_plugins.adapted import read_adapter

    found = read_adapter(file)
    if as_json:
        print_json(_as_json(found))
        return
    total = sum(array.nbytes for array in found.arrays.values())
    version = str(found.model_version) if found.model_version else ""
    print_fields([("version", str(found.version)), ("of model", version), ("size", size_text(total))])
    rows = [(name, array.dtype.name, "x".join(map(str, array.shape))) for name, array in sorted(found.arrays.items())]
    print_table(("input", "dtype", "shape"), rows)


@adapters.command()
@click.argument("model", type=_PATH)
@click.argument("files", metavar="FILE...", type=_PATH, nargs=-1, required=True)
@click.option(
    "--model-version",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Model version that the adapters must have. [default: any]",
)
@json_option
def check(model: Path, files: tuple[Path, ...], model_version: int, as_json: bool) -> None:
    """Check that adapters fit MODEL: names, shapes, types, ranks and versions.

    A runtime may ignore an adapter that does not fit. This command reports the first one and ends with exit status 2.
    """
    from optim_plugins.adapted import read_adapter, require_fit

    inputs = _taking_adapters(model).adapters
    for file in files:
        require_fit(read_adapter(file), inputs, str(file), model_version)
    if as_json:
        print_json({"fit": [str(file) for file in files]})
        return
    for file in files:
        echo(f"{file} fits")


def _taking_adapters(path: Path) -> Model:
    """The model of a file or of a run folder.

    Raises:
        OptimError[adapter-not-taken]: it has no inputs for adapters.
        OptimError: it is missing, or no model.
    """
    from optim.cli_kit import look_at
    from optim_plugins.adapted import not_taken

    found = look_at(path / "model.onnx" if path.is_dir() else path)
    if not found.adapters:
        raise not_taken("adapters")
    return found


def _as_json(found: Adapter) -> dict[str, Any]:
    arrays = {
        name: {"dtype": array.dtype.name, "shape": list(array.shape)} for name, array in sorted(found.arrays.items())
    }
    return {"version": found.version, "model_version": found.model_version, "arrays": arrays}
