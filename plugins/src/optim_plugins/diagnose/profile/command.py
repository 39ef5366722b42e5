"""``optim profile``: where the time of models goes, by operator and by node."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

import optim
from optim.cli_kit import (
    MODEL_PATH,
    NOTHING,
    SECONDS,
    OptimCommand,
    data_option,
    echo,
    json_option,
    print_json,
    print_table,
    seed_option,
    size_text,
    target_option,
)
from optim.errors import OptimError

if TYPE_CHECKING:
    from optim.laboratory import NodeTime
    from optim_plugins.diagnose.profile.origin import NodeOrigin
    from optim_plugins.diagnose.profile.profile_job import Answer, Profile

_GROWTH_PAYS = 1.5
"""How many times a usual run the first one of a new largest shape must cost for a warm-up to be advised."""


@click.command(cls=OptimCommand, examples=("optim profile model.onnx out --data samples.npz --trace trace.json",))
@click.argument("models", nargs=-1, required=True, type=MODEL_PATH, metavar="MODEL_OR_RUN_FOLDER...")
@data_option
@target_option
@click.option("--seconds", type=SECONDS, default=3.0, show_default=True, help="Time limit for each model, in seconds.")
@click.option(
    "--top", type=click.IntRange(min=1), default=15, show_default=True, metavar="N", help="Number of rows of a table."
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a trace for Perfetto or chrome://tracing to this .json file.",
)
@seed_option("Random seed of synthesized samples.")
@json_option
def profile(
    models: tuple[Path, ...],
    data: str | None,
    target: str,
    seconds: float,
    top: int,
    trace: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Show which operators and nodes take the time of each model, and what the second model runs instead.

    optim opens an .onnx file with the defaults of the backend and a run folder with its tuned session settings. The
    target must run on onnxruntime.

    The profiler itself costs time on each node. optim measures this cost and subtracts it; the times of short nodes are
    therefore estimates. allocates: memory that a node requests from the runtime.
    """
    from optim.cli_kit import progress, require_writable
    from optim_plugins.diagnose.profile import profile_job

    if trace is not None and (trace.suffix != ".json" or not trace.absolute().parent.is_dir()):
        raise OptimError.usage(
            "bad-trace",
            f"cannot write a trace to {trace}",
            "it must be a .json in a folder that exists",
            f"--trace {trace.with_suffix('.json').name}",
        )
    if trace is not None:
        require_writable(trace)
    with (
        progress() as say,
        optim.lab(models[0], data=data, target=target, seed=seed, beside=models[1:], say=say) as lab,
    ):
        chosen = [lab.original, *map(lab.model, models[1:])]
        written = str(trace.absolute()) if trace else ""
        request = profile_job.Request(tuple(one.model for one in chosen), lab.setup, seconds, written)
        found = lab.need(profile_job.__name__, request, profile_job.Answer, "profile", timed=True)
        notes = lab.notes_on(chosen)
    if as_json:
        from optim.jobs import to_wire

        print_json({**to_wire(found), "feeds": lab.origin, "notes": notes})
        return
    _print(found, [str(path) for path in models], top)
    for note in notes:
        echo(f"note: {note}")
    echo(f"samples: {lab.origin}")
    if trace is not None:
        echo(f"trace: {trace}")


def _print(answer: Answer, names: list[str], top: int) -> None:
    for name, one in zip(names, answer.models, strict=True):
        total = sum(node.ms for node in one.nodes)
        echo(f"{name}: {one.plain_ms:.3g} ms a run, {total:.3g} ms in {_count(len(one.nodes))}")
        if one.run_ms > _PROFILER_COSTS * one.plain_ms:
            cost = f"{1e3 * one.record_ms:.2g} µs a node"
            echo(f"{one.run_ms:.3g} ms with the profiler on: its {cost} are taken off, so short nodes are estimates")
        _print_operators(one, top)
        print_table(["node", "operator", "ms", "share", *_RATES], [_row(node, one) for node in one.nodes[:top]])
        _print_first(one)
        echo()
    if answer.origins:
        echo(f"before: {names[0]}; after: {names[1]}")
        print_table(["before", "ms", "after", "ms", "x"], [_joined(origin) for origin in answer.origins[:top]])
        echo()
    echo(f"this machine's processor: {answer.gflops:.0f} GFLOP/s in float32 (product of matrices, all threads)")
    if answer.usual_gflops < _STEADY * answer.gflops:
        usual = f"half of the products ran at {answer.usual_gflops:.0f} GFLOP/s or less"
        echo(f"note: other programs used this machine: {usual}; repeat this on a quiet machine")
    echo(f"this machine's memory: {answer.gbytes:.1f} GB/s (copy)")


def _count(nodes: int) -> str:
    return f"{nodes} node{'' if nodes == 1 else 's'}"


_PROFILER_COSTS = 1.1
"""How much longer a run with the profiler may be until that is told."""

_STEADY = 0.8
"""Least share of the fastest product's rate that the median one has on a quiet machine."""

_RATES = ("GFLOP/s", "GB/s", "allocates")


def _print_operators(one: Profile, top: int) -> None:
    by_operator: dict[str, list[NodeTime]] = defaultdict(list)
    for node in one.nodes:
        by_operator[node.operator].append(node)
    total = sum(node.ms for node in one.nodes) or 1.0
    listed = sorted(by_operator.items(), key=lambda item: -sum(node.ms for node in item[1]))
    rows = []
    for operator, nodes in listed[:top]:
        ms = sum(node.ms for node in nodes)
        rows.append([operator, str(len(nodes)), f"{ms:.3g}", f"{ms / total:.1%}", *_rates(nodes)])
    print_table(["operator", "nodes", "ms", "share", *_RATES], rows)


def _row(node: NodeTime, one: Profile) -> list[str]:
    total = sum(other.ms for other in one.nodes) or 1.0
    return [node.name, node.operator, f"{node.ms:.3g}", f"{node.ms / total:.1%}", *_rates([node])]


def _rates(nodes: list[NodeTime]) -> list[str]:
    seconds = sum(node.ms for node in nodes) / 1e3
    flops, moved = sum(node.flops for node in nodes), sum(node.moved_bytes for node in nodes)
    allocated = sum(node.allocated_bytes for node in nodes)
    if not seconds:  # less than the profiler itself takes
        return [NOTHING, NOTHING, size_text(allocated)]
    rate = f"{flops / seconds / 1e9:.1f}" if flops else NOTHING
    if not moved:  # a runtime of its own tells times alone
        return [rate, NOTHING, NOTHING]
    return [rate, f"{moved / seconds / 1e9:.2f}", size_text(allocated)]


def _print_first(one: Profile) -> None:
    first = one.first
    echo(f"opening {first.open:.3g} ms; first run {first.first:.3g} ms, then {first.smallest:.3g} ms")
    if first.grown:
        echo(f"first run of the largest shape {first.grown:.3g} ms, then {first.largest:.3g} ms")
        if first.grown > _GROWTH_PAYS * first.largest:
            echo(
                "a run of the largest shape after opening would take this from the first request: load.py is the place"
            )


def _joined(origin: NodeOrigin) -> list[str]:
    before, after = (
        _some(names, kinds) for names, kinds in zip((origin.before, origin.after), origin.operators, strict=True)
    )
    ratio = f"{origin.after_ms / origin.before_ms:.2f}" if origin.before_ms and origin.after_ms else NOTHING
    return [before, f"{origin.before_ms:.3g}", after, f"{origin.after_ms:.3g}", ratio]


def _some(names: tuple[str, ...], operators: tuple[str, ...]) -> str:
    """The node, or how many of which operators."""
    if len(names) <= 1:
        return f"{names[0]} ({operators[0]})" if names else NOTHING
    return f"{len(names)} nodes: {', '.join(operators[:4])}{' ...' if len(operators) > 4 else ''}"
