"""What was asked, in Python or on the command line, as settings; nothing heavy is imported before it is in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim._engine.compare.metric_spec import parse_metric
from optim._engine.feeds.named import require_feeds
from optim._engine.gate.budget import parse_max_loss, parse_max_mismatch
from optim._engine.goals.bounds import merged, said_bounds
from optim._engine.goals.generating import asked_workload, parse_workload
from optim._engine.graphs.user_files import check_file
from optim._engine.json_file import read_json
from optim._engine.search.settings import PRESETS, RunSettings, parse_stage
from optim._engine.sources.export_file import EXPORT_FILE, read_export_file
from optim._engine.sources.naming import name_of, needs_export
from optim.errors import OptimError, unknown_name
from optim.source import SourceRequest

if TYPE_CHECKING:
    from optim._engine.recipes.lock import Lock

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
        written, lock = _read_recipe(recipe)
        settings = replace(settings, **_fields_said(written), chain=lock.chain() if lock is not None else None)
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
    if "bounds" in given:
        changes["bounds"] = merged(settings.bounds, given["bounds"])
    settings = replace(settings, **changes)
    if isinstance(recipe, Path) and not trust_code:
        from optim._engine.recipes.recipe import require_no_code

        require_no_code(settings, recipe, given)
    return settings, lock


def _read_recipe(recipe: Path | Mapping[str, Any]) -> tuple[dict[str, Any], Lock | None]:
    """Reads a recipe or a lock as words of the user; returns the lock too if it is one."""
    from optim._engine.recipes.lock import load_recipe_or_lock
    from optim._engine.recipes.recipe import Recipe, recipe_from

    found = load_recipe_or_lock(recipe) if isinstance(recipe, Path) else recipe_from(recipe, Path("recipe"))
    if isinstance(found, Recipe):
        return {**dict(found), **dict(found.budget), "named": found.named()}, None
    assert isinstance(recipe, Path)
    words = {
        "target": found.target.name,
        "baseline": found.target.baseline,
        "goal": found.goal,
        "workload": parse_workload(found.generate or ""),
        "metric": found.metric,
        "data": found.data_beside(recipe),
        "seed": found.feeds.seed,
    }
    return {**words, **dict(found.budget)}, found


def _fields_said(words: Mapping[str, Any]) -> dict[str, Any]:
    """Finds the fields of ``RunSettings`` in words of the command line, of Python, of a recipe or of a lock."""
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
    if "goal" in found:
        found["goal_is_said"] = True
    if isinstance(said.get("metric"), str):
        found["metric"] = parse_metric(said["metric"]) if said["metric"] else None
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
    if settings.data is not None:
        require_feeds(settings.data)
    chosen = choose_targets(registry, settings.target, here=not settings.cluster)
    if not chosen.compete:  # of several targets one may have a pass that others lack
        for name in (*settings.without, *(named.name for named in settings.named)):
            registry.find_pass(name, chosen.baseline)
    untimed = [one.name for one in chosen.targets if not one.timed]
    require_bounds(find_goal(registry, settings.goal), settings.bounds, untimed)


def _files_of(source: Path) -> list[Path]:
    """The graphs of a folder that an export wrote, and nothing else; or the file itself."""
    if not (source / EXPORT_FILE).is_file() or (source / _REPORT).is_file():
        return [source]
    exported = read_export_file(source)
    return [source / component.file for component in exported.components.values()] if exported else [source]


def require_models(models: Sequence[Path], data: str | None, target: str) -> None:
    """Refuse models, run folders, samples or a target that are not there; workers start if they are.

    Raises:
        OptimError: as ``require_run``.
    """
    sources = [str(path) for path in models if needs_export(str(path))]
    for path in models:
        if str(path) not in sources:
            filled = any((path / name).is_file() for name in (_REPORT, _SESSION))
            check_file(path / _MODEL_IN_FOLDER if filled else path)
    from optim._engine.plugins.chosen_targets import choose_targets
    from optim._engine.plugins.registry import load_registry
    from optim.jobs.process import expect_workers

    if data is not None:
        require_feeds(data)
    registry = load_registry()
    choose_targets(registry, target, beside=True)
    for source in sources:
        from optim._engine.sources.exported import find_pipeline

        find_pipeline(registry, source).foretold(source)

    expect_workers()  # they import what this process goes on to import, meanwhile


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
