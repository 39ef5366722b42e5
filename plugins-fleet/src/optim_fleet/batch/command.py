"""``optim batch``: many models, targets and budgets, each run with its own folder."""

from __future__ import annotations

from pathlib import Path

import click

from optim.cli_kit import OptimCommand, echo, json_option, print_json, print_table

_COLUMNS = ("run", "target", "verdict", "ratio", "size", "drift", "time", "reason")


@click.command(cls=OptimCommand, examples=("optim batch models.toml -o outs --jobs 2",))
@click.argument("recipes", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RECIPE...")
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder for the run folders and index.html."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of parallel runs here.",
)
@click.option(
    "--cluster",
    default="",
    metavar="WHERE",
    help="Dask scheduler: local:N, tls://HOST:PORT, tcp://localhost:PORT or package.module:function.",
)
@click.option("--trust-code", is_flag=True, help="Allow recipes to import and run code that they name.")
@click.option("--no-cache", "fresh", is_flag=True, help="Repeat finished runs, and read nothing from the cache.")
@click.option("--dry-run", is_flag=True, help="List the runs and stop.")
@json_option
def batch(
    recipes: tuple[Path, ...],
    output: Path,
    jobs: int,
    cluster: str,
    trust_code: bool,
    fresh: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Optimize many models: each RECIPE combines the sources, targets and budgets of its table [matrix].

    Each run has a folder of its own, and OUTPUT/index.html shows all of them. The same command continues a batch that
    was stopped. Parallel runs take turns when they measure time.
    """
    from optim_fleet.batch.matrix import read_batch
    from optim_fleet.cluster.answering import require_listener

    entries = read_batch(recipes, trust_code=trust_code)
    if dry_run:
        rows = [(entry.name, entry.target, entry.source, str(entry.error or "")) for entry in entries]
        if as_json:
            print_json([dict(zip(("name", "target", "source", "error"), row, strict=True)) for row in rows])
        else:
            print_table(("run", "target", "source", "error"), rows)
        return max((int(entry.error.status) for entry in entries if entry.error), default=0)
    require_listener(cluster)  # before anything large is imported
    from optim_fleet.batch.cluster import executor_of
    from optim_fleet.batch.index import worst_status
    from optim_fleet.batch.live import standing
    from optim_fleet.batch.page import PAGE_FILE
    from optim_fleet.batch.runs import ToldRun, claimed, run_batch

    targets = sorted({name for entry in entries for name in entry.needs})
    flags = ["--trust-code"] if trust_code else []
    with claimed(output), executor_of(cluster, jobs, targets, output) as executor, standing(len(entries)) as shown:
        told = ToldRun(shown.begun, shown.finished)
        index = run_batch(entries, output, executor, told, flags=flags, fresh=fresh)
    if as_json:
        print_json(index.model_dump(mode="json"))
    else:
        from optim.engine.fleet import figure_text, ratio_text

        print_table(
            _COLUMNS,
            [
                (
                    row.name,
                    row.target,
                    row.status,
                    ratio_text(row.ratio),
                    ratio_text(row.size_ratio),
                    figure_text(row.drift),
                    f"{row.seconds:.0f} s",
                    row.reason,
                )
                for row in index.rows
            ],
        )
        delivered = sum(row.delivered for row in index.rows)
        echo(f"\n{delivered} of {len(index.rows)} delivered\npage    {output / PAGE_FILE}")
    return worst_status(index.rows)
