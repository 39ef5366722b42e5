"""What the kept results come to: ratios of raw rounds, who keeps within a budget, who is ahead."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from plan import DEFAULT, LOSSLESS, MODELS, RESULTS, Model, processor_class, result_path
from turns import ratio

ROUNDING = 1e-4
"""Drift that counts as rounding for everybody; more, where optim's own lossless result shows more."""

Contender = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One result of one model.

    Attributes:
        contender: as it is kept.
        ratio: of its latency to onnxruntime's default; None: not raced.
        low: of the interval.
        high: of the interval.
        tries: settings of this tool that made a model, and all that were tried.
    """

    contender: Contender
    ratio: float | None = None
    low: float = 0.0
    high: float = 0.0
    tries: tuple[int, int] = (1, 1)

    @property
    def is_optim(self) -> bool:
        """Whether it is ours."""
        return bool(self.contender["tool"] == "optim")

    @property
    def drift(self) -> float:
        """Of the worst judging sample."""
        return float(self.contender.get("drift", float("inf")))

    @property
    def name(self) -> str:
        """Tool and setting."""
        tool, setting = self.contender["label"], self.contender["setting"]
        return tool if setting == "defaults" else f"{tool}: {setting}"


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one model on one class of processor."""

    model: Model
    kept: Mapping[str, Any]
    rows: tuple[Row, ...]
    milliseconds: float

    @property
    def ours(self) -> list[Row]:
        """Rows of optim that were raced."""
        return [row for row in self.rows if row.is_optim and row.ratio is not None]

    def limit(self, budget: str) -> float:
        """The drift that a budget allows."""
        return lossless_limit(row.contender for row in self.rows) if budget == LOSSLESS else float(budget)

    def keeps(self, row: Row, budget: str) -> bool:
        """Whether it was raced and is within a budget."""
        return row.ratio is not None and row.drift <= self.limit(budget)

    def best_peer(self, budget: str) -> Row | None:
        """The fastest peer within a budget; None where none is faster than onnxruntime's default."""
        within = [row for row in self.peers() if self.keeps(row, budget) and (row.ratio or 1.0) < 1]
        return min(within, key=lambda row: row.ratio or 1.0, default=None)

    def fastest_peer(self) -> Row | None:
        """The fastest peer, whatever it breaks."""
        return min(self.peers(), key=lambda row: row.ratio or 1.0, default=None)

    def peers(self) -> list[Row]:
        """Rows of others that were raced."""
        return [row for row in self.rows if not row.is_optim and row.ratio is not None]

    def of_optim(self, budget: str, target: str) -> Row | None:
        """Optim's row."""
        return next((row for row in self.rows if row.contender["key"] == f"optim|{budget}, target {target}"), None)


def results() -> dict[str, list[Result]]:
    """All kept results by class of processor, in the order of the plan."""
    found: dict[str, list[Result]] = {}
    for folder in sorted(path for path in RESULTS.glob("*") if path.is_dir()):
        for model in MODELS.values():
            path = folder / f"{model.name}.json"
            if path.is_file():
                kept = json.loads(path.read_text(encoding="utf-8"))
                found.setdefault(kept["class"], []).append(result(model, kept))
    return found


def result(model: Model, kept: Mapping[str, Any]) -> Result:
    """The rows of one kept result: the fastest first, then those without a time."""
    races, contenders = kept["races"], kept["contenders"]
    rows = []
    for one in contenders:
        tries = [other for other in contenders if other["tool"] == one["tool"]]
        good = [other for other in tries if "error" not in other]
        found = [race for race in races if one["key"] in race["rounds_ms"]]
        if not found:
            rows.append(Row(one, tries=(len(good), len(tries))))
            continue
        pairs = [(race["rounds_ms"][one["key"]], race["rounds_ms"]["original"]) for race in found]
        middle = median(a / b for times, base in pairs for a, b in zip(times, base, strict=True))
        ends = [ratio(times, base)[1:] for times, base in pairs]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        rows.append(Row(one, middle, low, high, (len(good), len(tries))))
    rows.sort(key=lambda row: (row.ratio is None, row.ratio or 0.0))
    return Result(model, kept, tuple(rows), median(v for race in races for v in race["rounds_ms"]["original"]))


def lossless_limit(contenders: Iterable[Contender]) -> float:
    """Rounding, or what optim's own lossless result shows."""
    ours = [one.get("drift", 0.0) for one in contenders if one["key"].startswith(f"optim|{LOSSLESS}")]
    return max([ROUNDING, *ours])


def chosen_for_race(found: Iterable[Contender], judged: Mapping[str, Any], model: Model) -> set[str]:
    """Keys of optim's results, and of each peer its fastest setting within each budget, its fastest and its nearest.

    The quick times and the drift on the judging samples choose for peers: hindsight that optim does not have.
    """
    known = [{**one, **judged.get(one["key"], {})} for one in found]
    known = [one for one in known if "error" not in one and not one.get("unchanged")]
    chosen = {one["key"] for one in known if one["tool"] == "optim"}
    limits = [lossless_limit(known) if budget == LOSSLESS else float(budget) for budget in model.budgets]
    for tool in {one["tool"] for one in known} - {"optim"}:
        mine = [one for one in known if one["tool"] == tool]
        groups = [mine, *([one for one in mine if one["drift"] <= limit] for limit in limits)]
        chosen |= {min(group, key=lambda one: one["quick_ratio"])["key"] for group in groups if group}
        chosen.add(min(mine, key=lambda one: one["drift"])["key"])
    return chosen


@dataclass(frozen=True, slots=True)
class Loss:
    """A peer that is ahead of optim within a budget."""

    result: Result
    budget: str
    target: str
    ours: Row
    peer: Row

    @property
    def is_clear(self) -> bool:
        """Whether the intervals do not touch; without a result within the budget the original counts."""
        return self.peer.high < (self.ours.low if self.result.keeps(self.ours, self.budget) else 1.0)


def losses(found: Iterable[Result]) -> list[Loss]:
    """Every budget in which a peer's median is below that of optim, or optim kept within none."""
    lost = []
    for one in found:
        for row in one.rows:
            if not row.is_optim:
                continue
            budget, _, target = str(row.contender["setting"]).partition(", target ")
            best = one.best_peer(budget)
            ratio_here = row.ratio if one.keeps(row, budget) else 1.0
            if best is not None and (best.ratio or 1.0) < (ratio_here or 1.0):
                lost.append(Loss(one, budget, target, row, best))
    return lost


def beyond(found: Iterable[Result]) -> list[tuple[Result, Row]]:
    """Results of optim that break their own budget on the judging samples."""
    wrong = []
    for one in found:
        for row in one.ours:
            budget = str(row.contender["setting"]).partition(", target ")[0]
            limit = 1e-2 if budget == LOSSLESS else float(budget)
            if row.drift > limit:
                wrong.append((one, row))
    return wrong


def missing() -> list[str]:
    """What has not been taken on this class of processor."""
    found = []
    for model in MODELS.values():
        path = result_path(model)
        if not path.is_file():
            found.append(f"not taken on {processor_class()}: {model.name}")
            continue
        keys = {one["key"] for one in json.loads(path.read_text(encoding="utf-8"))["contenders"]}
        left = [budget for budget in model.budgets if f"optim|{budget}, target cpu" not in keys]
        slow = [tool for tool in ("inc", "olive") if not any(key.startswith(f"{tool}|") for key in keys)]
        if left or slow:
            found.append(f"not taken on {processor_class()}: {model.name}: {', '.join([*left, *slow])}")
    return found


__all__ = ["DEFAULT", "Loss", "Result", "Row", "beyond", "chosen_for_race", "losses", "missing", "result", "results"]
