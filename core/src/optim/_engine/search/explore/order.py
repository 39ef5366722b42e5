"""In which order passes have their first looks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from optim._engine.search.explore.promise import GUESSES
from optim._engine.search.plan import Plan, Planned
from optim.passes import Role, Stage

_FOR_THE_GOAL = 1.0
"""What a pass promises that is there for the goal of the run alone: it comes before all that is tried for any goal."""


def fair_order(plan: Plan, goal: str = "latency") -> list[Planned]:
    """Passes that make a model better, by what they promise, plugins in turn; of the stage tune its first.

    Candidates of other stages are looked at through that one's settings, too.
    """
    found = {
        stage: [one for one in those if one.pass_class.role is Role.IMPROVE and not one.forced]
        for stage, those in plan.stages.items()
    }
    passes = [one for stage, those in found.items() for one in (those[:1] if stage is Stage.TUNE else those)]
    guessed = {one.ordered.name: GUESSES.get(one.ordered.offered.stage, 0.0) + for_goal(one, goal) for one in passes}
    return in_turns(passes, guessed)


def leading_of(passes: Sequence[Planned], plan: Sequence[Planned], gains: Mapping[str, float]) -> list[Planned]:
    """The best guess of each plugin and of each stage, and settings: what is looked at however slow the machine is.

    Of two that promise as much for a stage, the one of the plugin that leads less comes first, then the later one in
    the plan: those before it make way for it. Of a plugin all lossless ones that promise as much lead, since they take
    little and need no repair: on a busy machine an OCR net had the time for one of two fusions, and the other was the
    one that halves its time. What makes a model slower leads nothing; nor does the stage tune, which promises least.

    Args:
        passes: in turns.
        plan: the same in the order of the plan.
        gains: what they promise, by name.
    """
    useful = [one for one in passes if gains[one.ordered.name] >= 0 and one.offered.stage is not Stage.TUNE]
    found = [one for one in passes if _is_lossy_setting(one)]
    for one in useful:
        if one.offered.plugin.name not in {other.offered.plugin.name for other in found}:
            found.append(one)
    for stage in dict.fromkeys(one.offered.stage for one in useful):
        if stage not in {other.offered.stage for other in found}:
            plugins = Counter(other.offered.plugin.name for other in found)
            of_stage = [one for one in reversed(plan) if one in useful and one.offered.stage is stage]
            best = min(of_stage, key=lambda one: (-gains[one.ordered.name], plugins[one.offered.plugin.name]))
            found += [one for one in of_stage if one is best or _is_as_good(one, best, gains)]
    return found


def _is_lossy_setting(one: Planned) -> bool:
    """Whether it costs next to nothing and moves outputs, such as a runtime's bfloat16."""
    return one.pass_class.session_only and one.pass_class.lossy


def _is_as_good(one: Planned, best: Planned, gains: Mapping[str, float]) -> bool:
    """Whether a pass that rounds nothing, of the same plugin, promises as much as the best of its stage."""
    is_sure = not one.pass_class.lossy and one.offered.plugin.name == best.offered.plugin.name
    return is_sure and gains[one.ordered.name] >= gains[best.ordered.name]


def in_turns(passes: Sequence[Planned], gains: Mapping[str, float]) -> list[Planned]:
    """Lossy settings first, which cost next to nothing, then what promises most; a pass of each plugin in turn."""
    by_plugin: dict[str, list[Planned]] = defaultdict(list)
    for planned in sorted(passes, key=lambda one: (not _is_lossy_setting(one), -gains[one.ordered.name])):
        by_plugin[planned.offered.plugin.name].append(planned)
    turns = zip_longest(*by_plugin.values())
    return [planned for turn in turns for planned in turn if planned is not None]


def for_goal(planned: Planned, goal: str) -> float:
    """What a pass promises for being there for the goal of the run."""
    return _FOR_THE_GOAL if goal in planned.pass_class.goals else 0.0
