"""``optim runtimes``: one model on several versions of onnxruntime; ``--runtime`` of bench and verify lead here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

import optim
from optim import OptimError
from optim.cli_kit import (
    MODEL_PATH,
    SECONDS,
    OptimCommand,
    data_option,
    echo,
    json_option,
    print_json,
    print_table,
    progress,
    seed_option,
)
from optim.errors import ExitStatus
from optim_plugins.diagnose.runtimes.environment import DISTRIBUTION, is_version, make_environment
from optim_plugins.diagnose.runtimes.target import target_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROFILED_S = 1.0
_MOST_ROWS = 12
_MOVED = 0.05
"""Share of the whole run that an operator must have gained or lost to be shown."""


@click.command(cls=OptimCommand, examples=("optim runtimes model.onnx onnxruntime==1.28.0,1.32.0 --data samples.npz",))
@click.argument("model", type=MODEL_PATH)
@click.argument("versions", metavar="onnxruntime==VERSION,...")
@data_option
@click.option(
    "--max-drift",
    type=float,
    metavar="LIMIT",
    help="Largest drift of any output from the first version. [default: 0.1]",
)
@click.option("--seconds", type=SECONDS, default=20.0, show_default=True, help="Time limit for timing, in seconds.")
@seed_option("Random seed of synthesized samples and of the order.")
@json_option
def runtimes(
    model: Path, versions: str, data: str | None, max_drift: float | None, seconds: float, seed: int, as_json: bool
) -> int:
    """Time MODEL on several versions of onnxruntime, compare its outputs, and name the operators that moved.

    Each version gets an environment of its own, once. One version alone is compared with the installed one, which comes
    first.

    Exit status 0: the outputs are within --max-drift; 4: they are not.
    """
    named = versions_of(versions)
    with progress() as say:
        for version in reversed(named):  # the installed one exists: a name that does not is refused first
            make_environment(version, say)
        first, *others = targets = [target_name(version) for version in named]
        timed = optim.bench(model, data=data, target=targets, seconds=seconds, seed=seed, say=say)
        verified = [
            optim.verify(model, data=data, target=first, other_target=other, max_drift=max_drift, seed=seed, say=say)
            for other in others
        ]
        with optim.lab(model, data=data, target=first, seed=seed, say=say) as lab:
            profiles = [_profile(lab, version) for version in named]
    rows = moved(profiles)
    if as_json:
        found = {version: one.model_dump(mode="json") for version, one in zip(named[1:], verified, strict=True)}
        operators = dict(zip(named, profiles, strict=True))
        print_json({"bench": timed.model_dump(mode="json"), "verify": found, "operators": operators})
    else:
        print_table(timed.columns, timed.rows())
        for version, one in zip(named[1:], verified, strict=True):
            echo(f"outputs of {version} beside {named[0]}: {one.verdict}")
        if rows:
            print_table(("operator", *(f"{version} ms (nodes)" for version in named)), rows)
        else:
            echo(f"no operator moved by {_MOVED:.0%} of a run")
    return ExitStatus.DELIVERED if all(one.within for one in verified) else ExitStatus.NOT_HELD


def versions_of(text: str) -> list[str]:
    """The versions in ``onnxruntime==1.28.0,1.32.0``; of one alone the installed version comes first.

    Raises:
        OptimError[bad-runtime]: it is no such text.
    """
    name, _, listed = text.partition("==")
    found = list(dict.fromkeys(part.strip() for part in listed.split(",")))
    if name.strip() != DISTRIBUTION or not all(map(is_version, found)):
        raise OptimError.usage(
            "bad-runtime",
            f"'{text}' names no versions of a runtime",
            f"it must be {DISTRIBUTION}== and versions with commas between; other distributions are not run",
            f"optim bench MODEL --runtime {DISTRIBUTION}==1.28.0,1.32.0",
        )
    return found if len(found) > 1 else [installed_version(DISTRIBUTION), *found]


def _profile(lab: optim.Lab, version: str) -> dict[str, Any]:
    from optim_plugins.diagnose.runtimes.backend import opening, tell, write_feeds

    lab.say(f"profiling the operators on {version}")
    with TemporaryDirectory(prefix="optim-runtime-") as folder:
        feeds = write_feeds(lab.sample(), Path(folder, "feeds.npz"))
        asked = {**opening(lab.original.model, lab.setup.target), "feeds": feeds, "number": 0, "seconds": _PROFILED_S}
        return tell(version, "profile_model", {**asked, "key": "profile"})


def moved(profiles: Sequence[Mapping[str, Mapping[str, float]]]) -> list[list[str]]:
    """Rows of the operators whose time or number of nodes differs between versions, the largest difference first."""
    none = {"ms": 0.0, "nodes": 0}
    whole = max(sum(one["ms"] for one in profile.values()) for profile in profiles)
    spread: dict[str, float] = {}
    for name in sorted({name for profile in profiles for name in profile}):
        beside = [profile.get(name, none) for profile in profiles]
        times = [one["ms"] for one in beside]
        if max(times) - min(times) >= _MOVED * whole or len({one["nodes"] for one in beside}) > 1:
            spread[name] = max(times) - min(times)
    return [
        [name, *(f"{one['ms']:.3g} ({one['nodes']})" for one in (profile.get(name, none) for profile in profiles))]
        for name in sorted(spread, key=lambda name: -spread[name])[:_MOST_ROWS]
    ]
