"""Settings and steps that change nothing: with them the runtime makes the same graph of a model as without.

Whatever a clock says of them is noise: they are one candidate, and no change.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from optim._engine.search.deadline import Deadline
from optim._engine.search.state import Candidate
from optim.cli_kit.output import options_text
from optim.model import Model

_SHARE = 0.08
"""Of the search: races then save more than that, except on models that take seconds to open."""

_LEAST_S = 2.0
"""Small models are opened twice in that, whatever the time, to tell that what won is no change."""

_IDLE = "no change: the runtime builds the same graph from the model "


class IdleSettings:
    """Finds them for one search: in a share of its time, and of what won in what the proof may take.

    Args:
        find: what the runtime makes of models, in so many seconds: :meth:`Workbench.session_digests`.
    """

    def __init__(self, find: Callable[[Sequence[Model], float], Mapping[str, str]], time: Deadline) -> None:
        self._find = find
        self._time = time
        self._spent_s = self._spent_until = 0.0
        self._digests: dict[str, str] = {}

    def reasons(self, candidate: Candidate, others: Sequence[Candidate], *, of_winner: bool = False) -> dict[str, str]:
        """Why some of ``others`` are nothing new to the runtime, by their digest: as the candidate, or as one before.

        They are the same graph under other settings, the best guess first, or what steps made of it.
        """
        if not others:
            return {}
        models = [one.model for one in (candidate, *others)]
        alike = Counter(map(_entries, models))
        self._ask([model for model in models if alike[_entries(model)] > 1], of_winner)
        first: dict[str, Candidate] = {}
        found: dict[str, str] = {}
        for one in (candidate, *others):
            digest = self._digests.get(one.digest, "")
            same = first.setdefault(digest, one) if digest else one
            if same is candidate and one is not candidate:
                found[one.digest] = f"{_IDLE}as without it"
            elif same is not one:
                step = same.steps[-1]
                found[one.digest] = f"{_IDLE}as with {step.pass_name} ({options_text(step.options)})"
        return found

    def same_graph(self, one: Candidate, other: Candidate) -> bool:
        """Whether the runtime makes the same graph of what won and of another; False if unknown."""
        self._ask((one.model, other.model), of_winner=True)
        first, second = (self._digests.get(model.digest, "").partition(":")[0] for model in (one.model, other.model))
        return bool(first) and first == second

    def _ask(self, models: Iterable[Model], of_winner: bool) -> None:
        """Finds what the runtime makes of models of which no earlier look said it."""
        new, time = [model for model in models if model.digest not in self._digests], self._time
        left_s, began = _SHARE * time.search_s - self._spent_s, time.now()
        if new:
            self._digests |= self._find(new, max(_LEAST_S, time.end_s) if of_winner else left_s)
            self._spent_s += time.now() - max(began, self._spent_until)  # threads that ask together spend it once
            self._spent_until = time.now()


def _entries(model: Model) -> str:
    """Settings that no graph goes by: models that differ in them are not the same."""
    session = model.session
    options = {name: dict(one) for name, one in session.provider_options.items()}
    return json.dumps([dict(session.session_config), options], sort_keys=True)
