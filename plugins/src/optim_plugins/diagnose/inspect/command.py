"""``optim inspect``: what a model file is, and what is known and assumed about this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from optim.cli_kit import (
    MODEL_PATH,
    TARGET_NAME,
    OptimCommand,
    echo,
    json_option,
    print_fields,
    print_json,
    print_table,
)
from optim.errors import some_of

if TYPE_CHECKING:
    from optim.model import TensorInfo
    from optim_plugins.diagnose.inspect.model_file import Inspection

_MOST_OPERATORS = 25


_EXAMPLES = (
    "optim inspect model.onnx",
    "optim inspect model.onnx --target ep:OpenVINOExecutionProvider",
    "optim inspect --machine",
)


@click.command(cls=OptimCommand, examples=_EXAMPLES)
@click.argument("model", type=MODEL_PATH, required=False)
@click.option(
    "--machine", "machine", is_flag=True, help="Show this machine and what passes assume about its processor."
)
@click.option(
    "--target", type=TARGET_NAME, metavar="TARGET", help="Show which nodes of MODEL the provider of this target takes."
)
@json_option
def inspect(model: Path | None, machine: bool, target: str | None, as_json: bool) -> None:
    """Show inputs, outputs, opset, operators, size, weights by dtype, and dynamic dimensions of MODEL.

    With --target, show which nodes the provider takes and which it leaves to the CPU. The runtime opens MODEL for that
    and computes nothing. The work of a node is its multiplications with weights, estimated from their shapes.

    With --machine and without MODEL, show the processor and what passes assume about its kernels. The source of each
    row is measured (here), documented (by the runtime) or assumed (from another machine).
    """
    if machine == (model is not None):
        raise click.UsageError("give a MODEL, or --machine without one")
    if machine and target is not None:
        raise click.UsageError("--target needs a MODEL; leave out --machine")
    if model is None:
        _print_machine(as_json=as_json)
        return
    if target is not None:
        _print_assignment(model, target, as_json=as_json)
        return
    from dataclasses import asdict

    from optim_plugins.diagnose.inspect.model_file import inspect as inspect_file

    found = inspect_file(model)
    if as_json:
        print_json({**asdict(found), "path": str(found.path)})
        return
    print_fields(_facts(found))
    echo("\nInputs and outputs")
    ports = [(kind, info) for kind, infos in (("input", found.inputs), ("output", found.outputs)) for info in infos]
    print_table(("", "name", "dtype", "shape"), [(kind, info.name, info.dtype, _shape(info)) for kind, info in ports])
    echo("\nOperators")
    print_table(("operator", "nodes"), _operators(found))
    echo("\nWeights")
    print_table(("dtype", "tensors", "size"), _weights(found))


def _print_assignment(model: Path, name: str, *, as_json: bool) -> None:
    from collections import Counter
    from dataclasses import asdict

    from optim.engine.inspect import count_text, share_text
    from optim_plugins.diagnose.inspect.assignment import assignment_on

    target, found = assignment_on(model, name)
    if as_json:
        print_json({"model": str(model), "target": target.name, "provider": target.provider, **asdict(found)})
        return
    total = sum(part.nodes for part in found.parts)
    rows = [
        (
            part.provider,
            str(part.nodes),
            share_text(part.nodes / total if total else 0.0),
            "unknown" if part.work is None else share_text(part.work),
        )
        for part in found.parts
    ]
    print_table(("provider", "nodes", "of all", "work"), rows)
    if found.unknown_work:
        echo(f"unknown where {share_text(found.unknown_work)} of the work runs: its nodes have no name")
    if target.provider not in {part.provider for part in found.parts if part.nodes}:
        echo(f"\n{target.provider} takes no node of this model")
    if found.shapes:
        echo(f"\n{count_text(found.shapes, 'node')} on the CPU only compute shapes or integers")
    if found.left:
        echo(f"\nLeft to the CPU: {count_text(len(found.left), 'node')} that compute floats")
        operators = Counter(operator for _, operator in found.left)
        names = {one: some_of([name for name, operator in found.left if operator == one], 3) for one in operators}
        print_table(("operator", "nodes", "names"), [(one, str(n), names[one]) for one, n in operators.most_common()])
        echo(f"\noptim run refuses this model on {name} unless the target allows the CPU: {name},fallback=cpu")


def _print_machine(*, as_json: bool) -> None:
    from dataclasses import asdict

    from optim.engine.inspect import load_registry, this_machine
    from optim_plugins.diagnose.inspect.assumed import assumed_here

    here, assumed = this_machine(), list(assumed_here(load_registry()))
    if as_json:
        print_json({"machine": asdict(here), "assumptions": [asdict(one) for one in assumed]})
        return
    memory = "unknown" if here.memory_bytes is None else _bytes(here.memory_bytes)
    print_fields(
        [
            ("processor", here.cpu or "unknown"),
            ("instruction sets", ", ".join(here.instruction_sets) or "unknown"),
            ("cores", f"{here.cores} of {here.machine_cores} may be used"),
            ("memory", memory),
            ("system", f"{here.os}; Python {here.python}"),
        ]
    )
    for one in assumed:
        echo(f"\nAssumed for target {one.target} (plugin {one.plugin})")
        if one.failure:
            echo(f"its plugin could not say: {one.failure}")
            continue
        rows = [(row.subject, _value(row.value), row.source, row.processors, row.evidence) for row in one.found]
        print_table(("assumption", "here", "source", "processors", "evidence"), rows)


def _value(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _facts(found: Inspection) -> list[tuple[str, str]]:
    opset = ", ".join(f"{domain} {version}" for domain, version in found.opset.items())
    size = _bytes(found.size_bytes)
    if found.data_files:
        size += f" (graph {_bytes(found.graph_bytes)}, data in {', '.join(found.data_files)})"
    facts = [
        ("model", str(found.path)),
        ("written by", found.producer or "unknown"),
        ("opset", f"{opset}; IR version {found.ir_version}"),
        ("size", size),
        ("nodes", f"{found.nodes} of {len(found.operators)} operators" + _inside(found)),
        ("dynamic", "; ".join(f"{name}: {some_of(uses, 4)}" for name, uses in found.dynamic.items()) or "nothing"),
    ]
    if found.missing_files:
        facts.append(("missing", ", ".join(found.missing_files)))
    return facts


def _inside(found: Inspection) -> str:
    from optim.engine.inspect import count_text

    counts = [(found.subgraphs, "subgraph"), (len(found.functions), "function")]
    parts = [count_text(count, noun) for count, noun in counts if count]
    return f", with {' and '.join(parts)}" if parts else ""


def _operators(found: Inspection) -> list[tuple[str, str]]:
    listed = list(found.operators.items())
    rows = [(name, str(count)) for name, count in listed[:_MOST_OPERATORS]]
    if rest := listed[_MOST_OPERATORS:]:
        rows.append((f"{len(rest)} more (--json lists all)", str(sum(count for _, count in rest))))
    return rows


def _weights(found: Inspection) -> list[tuple[str, str, str]]:
    rows = [(group.dtype, str(group.count), _bytes(group.size_bytes)) for group in found.weights]
    if found.shared_weights:
        rows.append(("of these shared", str(len(found.shared_weights)), ""))
    return rows


def _shape(info: TensorInfo) -> str:
    if info.shape is None:
        return "unknown"
    return "[" + ", ".join("?" if size is None else str(size) for size in info.shape) + "]"


def _bytes(size: int) -> str:
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.2f} GB"
