"""Estimates of answers that no trace has, so that a policy in another order can be compared with today's.

All traces of one model on one processor are one book of answers. An answer that it lacks is estimated from the nearest
recorded chain, which is the one with the fewest steps more or less:

* a try takes the seconds of the same step there, and its drift is the root of the sum of the squares of what steps add;
* a lane has the rounds of the nearest chain, scaled: the ratio is that of the chain before times that of the same step;
* an offer is what the pass offers there;
* a repair is what one of the same pass found there within as little drift or less; without any the repair fails.

Answers of other traces take their seconds times the pace of this one, by the jobs that both have. Estimates serve to
compare policies, and nothing else: the share of seconds that they make up is counted.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeAlias

from replay import FromTrace, _subject
from trace_file import Trace

from optim._engine.store import Store
from optim._engine.trace import STORE, short_name
from optim.jobs.process import WorkerFailed
from optim.workplace import Done, Work

Step: TypeAlias = tuple[str, str]
"""A pass, and its options as text."""

_LOSSY = ("quantize", "convert", "prune")
_OTHER_LOSS = 3
"""Steps that another lossy pass counts for, where chains are held against each other."""


@dataclass
class Book:
    """The answers of all traces of a model on one processor.

    Attributes:
        made: what each model was made of, and by which step.
        applied: candidate actions by the pass; of the trace itself first.
        offers: what a pass says of a model.
        repairs: repair actions by the pass.
        sessions: what the runtime makes of a model.
        lanes: of races, by the model.
        answers: of candidate jobs, by the model.
    """

    made: dict[str, tuple[str, Step]] = field(default_factory=dict)
    applied: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    offers: dict[tuple[str, str], Any] = field(default_factory=dict)
    repairs: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    sessions: dict[str, str] = field(default_factory=dict)
    lanes: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> Book:
        """Read it."""
        book = cls()
        for action in (one for trace in traces for one in trace.actions):
            if "answer" in action or action["name"] == "candidate":
                getattr(book, f"_note_{action['name']}", lambda action: None)(action)
        return book

    def _note_candidate(self, action: Any) -> None:
        request = action["request"]
        self.applied[request["name"]].append(action)
        if "answer" in action and action["answer"]["result"]["changed"]:
            digest = action["answer"]["result"]["model"]["digest"]
            self.made.setdefault(digest, (request["model"]["digest"], (request["name"], _text(request["options"]))))
            self.answers.setdefault(digest, action["answer"])

    def _note_offer(self, action: Any) -> None:
        digest = action["request"]["model"]["digest"]
        for offer in (event["offer"] for event in action["events"] if event["event"] == "offer"):
            self.offers.setdefault((digest, offer["name"]), offer)
            for one in offer["proposals"]:
                if one["result"] and one["result"]["changed"]:
                    step = (offer["name"], _text(one["options"]))
                    self.made.setdefault(one["result"]["model"]["digest"], (digest, step))

    def _note_repair_job(self, action: Any) -> None:
        self.repairs[action["request"]["candidate"]["name"]].append(action)

    def _note_session_digests(self, action: Any) -> None:
        for model, digest in zip(action["request"]["models"], action["answer"]["digests"], strict=True):
            self.sessions.setdefault(model["digest"], digest)

    def _note_race_job(self, action: Any) -> None:
        for asked, lane in zip(action["request"]["lanes"], action["answer"]["lanes"], strict=True):
            if not lane["out_of_time"] and lane["round_ratios"]:
                self.lanes[asked["model"]["digest"]].append(lane)

    def chain(self, digest: str) -> list[Step]:
        """The steps of a model."""
        steps: list[Step] = []
        while digest in self.made and len(steps) < 20:
            digest, step = self.made[digest]
            steps.insert(0, step)
        return steps

    def apart(self, one: str, other: str) -> int:
        """How far two models are apart: steps that only one of them has."""
        different = set(self.chain(one)) ^ set(self.chain(other))
        return sum(_OTHER_LOSS if any(word in name for word in _LOSSY) else 1 for name, _ in different)

    def ratio(self, digest: str) -> float:
        """The latency of a model to the original's: recorded, else that of the chain before times that of its step."""
        if digest in self.lanes:
            return median(lane["ratio"]["value"] for lane in self.lanes[digest] if lane["ratio"])
        if digest not in self.made:
            return 1.0
        before, step = self.made[digest]
        pairs = [(on, new) for new, (on, by) in self.made.items() if by == step and new in self.lanes]
        pairs = pairs or [(on, new) for new, (on, by) in self.made.items() if by[0] == step[0] and new in self.lanes]
        pairs = [(on, new) for on, new in pairs if on in self.lanes or on not in self.made]
        if not pairs:
            return self.ratio(before)
        on, new = min(pairs, key=lambda pair: self.apart(pair[0], before))
        return self.ratio(before) * self.ratio(new) / self.ratio(on)

    def drift(self, digest: str) -> float:
        """The drift of a model on the samples that a try compares."""
        while digest not in self.answers and digest in self.made:  # settings alone
            digest = self.made[digest][0]
        compared = self.answers[digest]["comparisons"] if digest in self.answers else []
        return max((float(one["relative_error"]) for one in compared), default=0.0)


class Completed(FromTrace):
    """A workplace that answers from all traces, and estimates the rest.

    Attributes:
        estimated_s: seconds of what was estimated.
        estimated: models that no trace has.
    """

    def __init__(
        self, trace: Trace, store: Store, seed: int | None = None, others: Sequence[Trace] = (), in_order: bool = True
    ) -> None:
        super().__init__(trace, store, seed, others, in_order)
        self.book = Book.of([trace, *others])
        self.estimated_s, self.estimated = 0.0, set[str]()
        own = {action["key"]: action["seconds"] for action in trace.actions}
        both = [
            own[action["key"]] / action["seconds"]
            for other in others
            for action in other.actions
            if action["key"] in own
            and action["name"] in ("candidate", "offer")
            and min(own[action["key"]], action["seconds"]) > 0.01
        ]
        self._pace = median(both) if both else 1.0
        for key, actions in self._found.items():
            if key not in own:
                self._found[key] = [{**one, "seconds": one["seconds"] * self._pace} for one in actions]
        ours = {
            _subject(lane) for one in trace.actions if one["name"] == "race_job" for lane in one["request"]["lanes"]
        }
        for subject, lanes in self._lanes.items():
            if subject not in ours:
                self._lanes[subject] = [{**lane, "round_s": lane["round_s"] * self._pace} for lane in lanes]

    def likely(self, digest: str) -> float | None:
        """The latency of a model to the original's, by the races of all traces, or as it is estimated."""
        return self.book.ratio(digest)

    def do(self, work: Work) -> Done:
        """The answer that the traces have, or an estimate.

        Raises:
            WorkerFailed: as recorded, or because nothing like it was recorded.
        """
        estimate = getattr(self, f"_{short_name(work.module)}", None)
        if estimate is None or self._is_known(work):
            return super().do(work)
        return estimate(self._nowhere(work.request))

    def _is_known(self, work: Work) -> bool:
        found = self.action(work.module, work.request)
        if found is not None:
            key = found["key"]
            if found not in self._found[key]:
                self._found[key].insert(0, found)  # looked at, and not taken
        return found is not None

    def _answered(self, answer: Any, events: Sequence[Any], seconds: float, share: float) -> Done:
        self.in_turn.wait_until(self.now.seconds + seconds)
        self.estimated_s += share * seconds
        return Done(self._here(answer), self._here(list(events)))

    def _candidate(self, request: Any) -> Done:
        """A try: that of the same step on the nearest chain, else of the same pass."""
        digest, name, step = request["model"]["digest"], request["name"], _text(request["options"])
        made = [one for one in self.book.applied[name] if "answer" in one]
        same = [one for one in self.book.applied[name] if _text(one["request"]["options"]) == step]
        some = [one for one in same if "answer" in one] or same or made or self.book.applied[name]
        if not some:
            self._pass_unknown("candidate")
            raise WorkerFailed("no trace has this pass", "unknown")
        near = min(some, key=lambda one: self.book.apart(one["request"]["model"]["digest"], digest))
        seconds = near["seconds"] * self._pace
        if "failed" in near:
            self.estimated_s += seconds
            self.in_turn.wait_until(self.now.seconds + seconds)
            raise WorkerFailed(near["failed"]["reason"], near["failed"]["kind"], "", None, near["failed"]["doing"])
        answer = near["answer"]
        if not answer["result"]["changed"]:
            answer = {**answer, "result": {**answer["result"], "model": request["model"]}}
            return self._answered(answer, near["events"], seconds, 1.0)
        new, on = answer["result"]["model"]["digest"], near["request"]["model"]["digest"]
        before, with_step = self.book.drift(digest), self.book.drift(new)
        added = math.sqrt(max(0.0, with_step**2 - self.book.drift(on) ** 2))
        drift = math.hypot(before, added)
        of_parent = self.book.answers.get(digest, {}).get("comparisons")
        compared = (
            _scaled(of_parent, drift / before)
            if of_parent and before > added
            else _scaled(answer["comparisons"], drift / with_step if with_step else 1.0)
        )
        model = self._model(
            request["model"],
            answer["result"]["model"],
            (name, step),
            is_setting=answer["result"]["model"]["path"] == near["request"]["model"]["path"],
        )
        made_of_it = {**answer, "comparisons": compared, "result": {**answer["result"], "model": model}}
        self.book.answers[model["digest"]] = made_of_it
        return self._answered(made_of_it, near["events"], seconds, 1.0)

    def _model(self, parent: Any, like: Any, step: Step, *, is_setting: bool) -> Any:
        """A model that no trace has: of a graph of its own, unless the step only sets how it is opened."""
        digest = "e" + hashlib.sha256(f"{parent['digest']} {step}".encode()).hexdigest()[1:]
        self.book.made[digest] = parent["digest"], step
        self.estimated.add(digest)
        path = parent["path"] if is_setting else f"{STORE}/models/{digest}.onnx"
        session = _merged(parent["session"], like["session"]) if is_setting else like["session"]
        return {
            **(parent if is_setting else like),
            "path": path,
            "digest": digest,
            "session": session,
            "provenance": [*parent["provenance"], step[0]],
        }

    def _offer(self, request: Any) -> Done:
        """The offers of each pass for this model, else for the nearest that was asked about."""
        digest, events, guessed = request["model"]["digest"], [], 0
        for name in (one["name"] for one in request["passes"]):
            offer = self.book.offers.get((digest, name))
            if offer is None:
                guessed += 1
                asked = [model for model, of in self.book.offers if of == name]
                if asked:
                    near = min(asked, key=lambda model: self.book.apart(model, digest))
                    offer = self._adapted(self.book.offers[near, name], request["model"])
                else:
                    offer = {
                        "name": name,
                        "applicable": False,
                        "reason": "no trace has an answer",
                        "proposals": [],
                        "unknown": {},
                        "not_here": False,
                    }
                self.book.offers[digest, name] = offer
            events += [{"event": "asking", "name": name}, {"event": "offer", "offer": offer}]
        seconds = self._usual_s.get("offer", 0.2)
        return self._answered(None, events, seconds, guessed / max(1, len(request["passes"])))

    def _adapted(self, offer: Any, model: Any) -> Any:
        """An offer for another model: settings are laid over those of this one."""
        proposals = []
        for one in offer["proposals"]:
            result = one["result"]
            if result and result["changed"]:
                new = self._model(model, result["model"], (offer["name"], _text(one["options"])), is_setting=True)
                result = {**result, "model": new}
            proposals.append({**one, "result": result})
        return {**offer, "proposals": proposals}

    def _session_digests(self, request: Any) -> Done:
        digests = [self.book.sessions.get(model["digest"], "") for model in request["models"]]
        share = digests.count("") / max(1, len(digests))
        return self._answered({"digests": digests}, [], self._usual_s.get("session_digests", 0.2), share)

    def _reach(self, request: Any) -> Done:
        return self._answered(1.0, [], 0.0, 0.0)

    def _nodes_timed(self, request: Any) -> Done:
        self.in_turn.wait_until(self.now.seconds + self._usual_s.get("nodes_timed", 0.7))
        raise WorkerFailed("a look after the verdict is no part of a policy", "unknown")

    def _repair_job(self, request: Any) -> Done:
        """The result of a repair of the same pass on the nearest chain within as little drift, or less."""
        asked = request["candidate"]
        some = [one for one in self.book.repairs[asked["name"]] if one["request"]["limit"] <= request["limit"] * 1.01]
        if not some:
            self._pass_unknown("repair_job")
            raise WorkerFailed("no trace repairs this pass", "unknown")
        some.sort(key=lambda one: one["answer"]["repair"] is None)
        near = min(
            some,
            key=lambda one: (
                self.book.apart(one["request"]["candidate"]["model"]["digest"], asked["model"]["digest"]),
                -one["request"]["limit"],
            ),
        )
        return self._answered(near["answer"], near["events"], near["seconds"] * self._pace, 1.0)

    def _lane(self, asked: Any) -> Any | None:
        """The lane that was recorded, else that of the nearest chain; with figures of as many samples as are timed."""
        lane, count = self._nearest_lane(asked), len(asked["timed"])
        if lane is None:
            return None
        names = [name for name in ("sample_ms", "sample_ratio", "sample_calls") if lane[name]]
        return {**lane, **{name: (lane[name] * count)[:count] for name in names}}

    def _nearest_lane(self, asked: Any) -> Any | None:
        """The lane that was recorded, else that of the nearest chain, scaled."""
        found = super()._lane(asked)
        digest = asked["model"]["digest"]
        if found is not None and (not asked["compared"] or (found["ready"] and found["ready"]["comparisons"])):
            return found
        if digest not in self.book.made:
            return found
        lanes = {
            d: [one for one in each if not asked["compared"] or (one["ready"] and one["ready"]["comparisons"])]
            for d, each in self.book.lanes.items()
        }
        near = min((d for d, each in lanes.items() if each), key=lambda d: self.book.apart(d, digest), default=None)
        if near is None:
            return found
        template = max(lanes[near], key=lambda one: len(one["round_ratios"]))
        times = self.book.ratio(digest) / template["ratio"]["value"]
        ours, theirs = self.book.drift(digest), self.book.drift(near)
        ready = (
            {
                **template["ready"],
                "comparisons": _scaled(template["ready"]["comparisons"], ours / theirs if ours and theirs else 1.0),
            }
            if template["ready"]
            else None
        )
        self.estimated.add(digest)
        self.estimated_s += template["round_s"] * times * self._pace * len(template["round_ratios"])
        return {
            **template,
            "ready": ready,
            "ratio": {**template["ratio"], **{end: template["ratio"][end] * times for end in ("value", "low", "high")}},
            "round_ratios": [one * times for one in template["round_ratios"]],
            "latency_ms": template["latency_ms"] * times,
            "round_s": template["round_s"] * times * self._pace,
        }


def _text(options: Mapping[str, Any] | None) -> str:
    return json.dumps(options, sort_keys=True)


def _scaled(comparisons: Iterable[Any] | None, times: float) -> list[Any]:
    names = ("relative_error", "max_abs", "rounding_excess")
    return [
        {
            **one,
            **{name: one[name] * times for name in names if isinstance(one[name], float)},
            "each": [x * times for x in one["each"]],
        }
        for one in comparisons or ()
    ]


def _merged(session: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {**value, **more[name]}
        if isinstance(value, dict)
        else [*value, *(x for x in more[name] if x not in value)]
        for name, value in session.items()
    }
