"""With how many layers a model is searched: all, or as many of the first as there is time for.

A stand-in is the source exported with fewer layers. It needs a source that can be loaded so, a search that is bounded
by time, and a judgement that means something on it: a task metric of a shortened model means nothing. Where the whole
model has the time for its likeliest chains it is searched itself, though not with all passes: what is promising comes
first there, and no time goes into another export.
"""

from __future__ import annotations

from dataclasses import dataclass

from optim._engine.search.plan import Plan
from optim._engine.search.settings import RunSettings
from optim._engine.search.time_estimate import Load, PassCosts, in_words, search_s
from optim._engine.search.workbench import Workbench

_LEAST_LAYERS = 4
"""With fewer, the first and the last are most of it; each pass must find its patterns between layers."""

_MOST_SHARE = 0.5
"""Of the seconds of a search of the whole model: a stand-in that takes more saves less than its own export takes."""

_CANDIDATES, _LANES = 8, 16
"""Of the whole model: with the time for so many it finds a chain of two passes, others beside it, and proves them. On a
busy machine most of the 120 s of a Llama of 800 MB went into exporting 4 of its 12 layers."""

_EXPORT_S = 30.0
"""Of a stand-in beside what its layers took in the export of the whole: torch is loaded, trials are recorded."""

NAMING_OPTIONS = ("keep", "finer")
"""Options that name nodes, which a stand-in may not have."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """A model with fewer layers.

    Attributes:
        layers: that it has.
        whole: layers of the model that it stands for.
        search_s: what the search of the whole model would take, in seconds.
    """

    layers: int
    whole: int
    search_s: float

    @property
    def text(self) -> str:
        """E.g. ``4 of 42 layers``."""
        return f"{self.layers} of {self.whole} layers"

    @property
    def note(self) -> str:
        """What a report says of it."""
        return (
            f"searched on {self.text}: a search of the whole model would take about {in_words(self.search_s)}; "
            "optim applied the result to the whole model, and compared and timed it there"
        )


def stand_in_for(bench: Workbench, plan: Plan, load: Load) -> StandIn | None:
    """The stand-in of a run; None where the whole model is searched.

    Args:
        bench: of the run, prepared.
        plan: which passes it tries.
        load: what it has to do with.
    """
    layers = _layers_of(bench)
    made, elsewhere = bench.exported, bench.elsewhere is not None
    if made is None or not layers or not _is_bounded(bench.settings) or elsewhere or not bench.target.timed:
        return None

    def seconds(count: int) -> float:
        return search_s(load.part(count / layers), plan.names, PassCosts())

    left, export_s = bench.deadline.left, _EXPORT_S + _LEAST_LAYERS / layers * made.seconds
    if left < 2 * export_s or left >= _CANDIDATES * load.candidate_s + _LANES * load.lane_s:
        return None
    in_time = [count for count in range(_LEAST_LAYERS, layers + 1) if seconds(count) <= left]
    count = max(in_time, default=_LEAST_LAYERS)
    return StandIn(count, layers, seconds(layers)) if seconds(count) <= _MOST_SHARE * seconds(layers) else None


def _layers_of(bench: Workbench) -> int:
    """Returns how many layers the source has; 0 where it cannot be loaded with fewer."""
    made = bench.exported
    if made is None or len(made.graphs) > 1:
        return 0
    layers = made.facts.get("layers", 0)
    return layers if isinstance(layers, int) else 0


def _is_bounded(settings: RunSettings) -> bool:
    """Whether the time of a search is what bounds it, and nothing was asked for that only the whole model can tell."""
    names_nodes = any((named.options or {}).get(name) for named in settings.named for name in NAMING_OPTIONS)
    return settings.chain is None and settings.metric is None and not names_nodes
