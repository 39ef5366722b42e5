"""The scoreboard of a search: what is known of each model, by its digest."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from optim._engine.gate.budget import Objection
from optim._engine.jobs.start_up import Ready
from optim._engine.search.state import Candidate, LaneResult
from optim._engine.sources.result import SourceDrift
from optim.model import Model


@dataclass
class Score:
    """What a search knows of one model.

    Attributes:
        objection: why it does not hold.
        out_of_time: whether its last race was over before it had a figure.
        broken: the candidate as it was compared, where it ran and did not hold.
        explored: its latency ratio in the last race.
        result: all that its lane said, of both races where it was timed twice.
        base: the original in the same race.
        ahead: what it said when it was compared on all samples ahead of the last race.
        source: how far it is from the source that was exported.
        source_objection: why it is not what that source computes.
    """

    objection: Objection = field(default_factory=Objection)
    out_of_time: bool = False
    broken: Candidate | None = None
    explored: float | None = None
    result: LaneResult | None = None
    base: LaneResult | None = None
    ahead: Ready | None = None
    source: SourceDrift | None = None
    source_objection: Objection = field(default_factory=Objection)

    def with_comparisons(self, result: LaneResult) -> LaneResult:
        """Returns a lane's result with what was compared ahead of its race."""
        if result.ready is None or self.ahead is None:
            return result
        return replace(result, ready=replace(result.ready, comparisons=self.ahead.comparisons, task=self.ahead.task))

    @property
    def times_too_far(self) -> float:
        """By which factor it is further from its source than it may be; 1 where it is not, or was not looked at."""
        if self.source is None or not self.source_objection or not math.isfinite(self.source.drift.relative_error):
            return 1.0
        return max(1.0, self.source.drift.relative_error / self.source.limit)


class Scoreboard:
    """One :class:`Score` for each model, by its digest."""

    def __init__(self) -> None:
        self._scores: dict[str, Score] = {}
        self._best_of_graph: dict[str, float] = {}

    def __getitem__(self, candidate: Candidate) -> Score:
        return self.of_model(candidate.model)

    def of_model(self, model: Model) -> Score:
        """The score of a model; an empty one where nothing is known of it."""
        return self._scores.setdefault(model.digest, Score())

    def note_explored(self, candidate: Candidate, ratio: float) -> None:
        """Note the ratio of a race."""
        self[candidate].explored = ratio
        self._best_of_graph[candidate.model.path.name] = min(ratio, self.best_of_graph(candidate))

    def best_of_graph(self, candidate: Candidate) -> float:
        """The best ratio seen of the same graph under any session settings; infinite where none was."""
        return self._best_of_graph.get(candidate.model.path.name, math.inf)

    @property
    def objections(self) -> list[Objection]:
        """Every objection, the first found first."""
        return [score.objection for score in self._scores.values() if score.objection]

    def is_wrong(self, candidate: Candidate) -> bool:
        """Whether its graph ran and did not hold, under whatever settings.

        Lossy settings that it does without do not count: what broke the budget in a runtime's bfloat16 may be right in
        float32.
        """
        return any(
            broken.model.path == candidate.model.path
            and all(step in candidate.steps for step in broken.steps if step.lossy)
            for broken in (score.broken for score in self._scores.values())
            if broken is not None
        )
