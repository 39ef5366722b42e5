"""What was asked, in Python or on the command line, as settings; nothing heavy is imported before it is in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim._engine.feeds.named import require_feeds
from optim._engine.gate.max_loss import parse_max_loss, parse_max_mismatch
from optim._engine.goals.bounds import merged, said_bounds
from optim._engine.goals.generating import asked_workload
from optim._engine.graphs.user_files import check_file
from optim._engine.json_file import read_json
from optim._engine.search.settings import PRESETS, RunSettings, parse_stage
from optim._engine.sources.export_file import EXPORT_FILE, read_export_file
from optim._engine.sources.naming import name_of, needs_export
from optim.errors import OptimError, unknown_name
from optim.source import SourceRequest

if TYPE_CHECKING:
    from optim._engine.plugins.registry import Registry
    from optim._engine.recipes.lock import Lock
    from optim._engine.runs.compare.conditions import Conditions

_MODEL_IN_FOLDER = "model.onnx"
_REPORT = "report.json"
_SESSION = "session.json"


def settings_from(
    source: Path,
    export: SourceRequest | None,
    recipe: Path | Mapping[str, Any] | None,
    words: Mapping[str, Any],
    *,
    trust_code: bool,
) -> tuple[RunSettings, Lock | None]:
    """The settings of a run; what the user said goes before what is in the recipe.

    Args:
        source: the model.
        export: how it is exported, where it is no ONNX model.
        recipe: a recipe or a lock; tables of a program are its own, and what they name may run.
        words: what the user said, by arguments of ``optim.run`` or fields of ``RunSettings``; what is None
            or an empty tuple was not said, and other words say nothing of settings.
        trust_code: whether a recipe may name code.

    Returns:
        The settings, and the lock where one is to be repeated.

    Raises:
        OptimError[conflicting-request]: two things that exclude each other.
        OptimError[untrusted-code]: the recipe names code, and the user did not say that it may run.
        OptimError: the recipe cannot be used.
    """
    lock = None
    settings = RunSettings(source=source, export=export, goal_is_said=False)
    if recipe is not None:
        from optim._engine.runs.locking import apply_recipe

        settings, lock = apply_recipe(settings, recipe)
    given = _fields_said(words)
    if "max_drift" in given and given.get("lossless"):
        raise OptimError.usage(
            "conflicting-request",
            "--lossless and --max-drift exclude each other",
            "--lossless allows rounding error only",
            fix="leave one of the two out",
        )
    changes = dict(given)
    if given.get("lossless"):
        changes.setdefault("max_loss", None)
        changes.setdefault("max_mismatch", 0.0)
    if "max_drift" in given:
        changes["lossless"] = False
    if "goal" in given:
        changes["goal_is_said"] = True
    if "bounds" in given:
        changes["bounds"] = merged(settings.bounds, given["bounds"])
    settings = replace(settings, **changes)
    if isinstance(recipe, Path) and not trust_code:
        from optim._engine.recipes.recipe import require_no_code

        require_no_code(settings, recipe, given)
    return settings, lock


def _fields_said(words: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``RunSettings`` that the user said, from words of the command line or of Python."""
    said = {name: value for name, value in words.items() if value is not None and value != ()}
    found = {field.name: said[field.name] for field in fields(RunSettings) if field.name in said}
    if "preset" in said:
        if said["preset"] not in PRESETS:
            raise unknown_name("preset", said["preset"], PRESETS)
        found.setdefault("search_seconds", PRESETS[said["preset"]])
    if "timeout" in said:
        found["timeout_s"] = said["timeout"]
    if "without" in said:
        found["without"] = tuple(sorted(set(said["without"])))
    if "stages" in said:
        found["stages"] = tuple(map(parse_stage, said["stages"]))
    if "generate" in said:
        found |= asked_workload(said["generate"], said.get("goal"))
    if "max_loss" in said:
        found["max_loss"] = parse_max_loss(str(said["max_loss"]))
    if "max_mismatch" in said:
        found["max_mismatch"] = parse_max_mismatch(str(said["max_mismatch"]))
    if bounds := said_bounds(said):
        found["bounds"] = bounds
    return found


def require_run(settings: RunSettings) -> None:
    """Refuse a run whose words make no sense, or whose files are not there.

    Raises:
        OptimError: usage, a missing model or feeds, a goal, a target or a pass that is not there, a cluster that
            cannot be.
    """
    settings.require_sound()
    if settings.export is None:
        for file in _files_of(settings.source):
            check_file(file)
    from optim._engine.goals.bounds import require_bounds
    from optim._engine.goals.known import find_goal
    from optim._engine.plugins.chosen_targets import choose_targets, find_cluster
    from optim._engine.plugins.registry import load_registry

    registry = load_registry()
    if settings.cluster:
        find_cluster(registry, settings.cluster).check(settings.cluster)
    _require_place(registry, settings.data, settings.target, _names(settings), here=not settings.cluster)
    untimed = [
        one.name
        for one in choose_targets(registry, settings.target, here=not settings.cluster).targets
        if not one.timed
    ]
    require_bounds(find_goal(registry, settings.goal), settings.bounds, untimed)


def _names(settings: RunSettings) -> list[str]:
    """Passes that the user names, to be tried or not."""
    return [*settings.without, *(named.name for named in settings.named)]


def _files_of(source: Path) -> list[Path]:
    """The graphs of a folder that an export wrote, and nothing else; or the file itself."""
    if not (source / EXPORT_FILE).is_file() or (source / _REPORT).is_file():
        return [source]
    exported = read_export_file(source)
    return [source / component.file for component in exported.components.values()] if exported else [source]


def _require_models(models: Sequence[Path], data: str | None, target: str) -> None:
    """Refuse models, run folders, feeds or a target that are not there.

    Raises:
        OptimError: as ``require_run``.
    """
    sources = [str(path) for path in models if needs_export(str(path))]
    for path in models:
        if str(path) not in sources:
            filled = any((path / name).is_file() for name in (_REPORT, _SESSION))
            check_file(path / _MODEL_IN_FOLDER if filled else path)
    from optim._engine.plugins.registry import load_registry

    registry = load_registry()
    for source in sources:
        from optim._engine.sources.exported import find_pipeline

        find_pipeline(registry, source).foretold(source)
    _require_place(registry, data, target, beside=True)


def conditions_for(
    models: Sequence[Path], say: Callable[[str], None], *, data: str | None, target: str, seed: int, component: str = ""
) -> Conditions:
    """Under which models are looked at without a search, after what is not there was refused.

    Raises:
        OptimError: as ``_require_models``.
    """
    _require_models(models, data, target)
    from optim.jobs.process import expect_workers

    expect_workers()  # they import what this process goes on to import, meanwhile
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.compare.conditions import Conditions
    from optim._engine.store import Store

    return Conditions(load_registry(), Store(), say, data=data, target=target, seed=seed, component=component)


def _require_place(
    registry: Registry,
    data: str | None,
    target: str,
    passes: Sequence[str] = (),
    *,
    here: bool = True,
    beside: bool = False,
) -> None:
    """Refuse feeds, a target or passes that are not there; of several targets one may have a pass that others lack."""
    from optim._engine.plugins.chosen_targets import choose_targets

    if data is not None:
        require_feeds(data)
    chosen = choose_targets(registry, target, here=here, beside=beside)
    for name in passes:
        if not chosen.compete:
            registry.find_pass(name, chosen.baseline)


def default_output(source: Path) -> Path:
    """``MODEL-optim`` in the working folder, unless the result of another model lies there.

    Raises:
        OptimError[not-our-folder]: a run of another model filled it.
    """
    name = name_of(source.resolve()).rpartition(":")[2]
    output = Path(f"{name.removesuffix('.onnx')}-optim")
    try:
        earlier = Path(read_json(output / _REPORT)["original"]["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return output  # what else may lie there is looked at when it is claimed
    if earlier.absolute() != source.absolute():
        raise OptimError.usage(
            "not-our-folder",
            f"{output} holds the result of another model",
            f"it was made of {earlier}",
            "name a folder: -o DIR",
        )
    return output
