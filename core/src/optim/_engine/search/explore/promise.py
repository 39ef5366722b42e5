"""The gain to expect of a candidate, and the seconds that it takes to try it.

Both are learned: a pass costs on this model what its first candidate cost, and gains about what it gained before on
another chain. Until then the kernels that it exchanges say what it gains at best. Without known kernels, the run in
which it was compared counts if it was clearly faster, and otherwise a guess by the kind of pass.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from optim._engine.search.plan import Plan, Planned
from optim._engine.search.state import Candidate, Measured, Step, StepKey
from optim._engine.search.taste import DEAR, DIFFER, SURPRISE, TOO_LITTLE
from optim._engine.search.time_estimate import PassCosts
from optim.passes import Role, Stage

GUESSES: Mapping[Stage, float] = {Stage.QUANTIZE: 0.5, Stage.CONVERT_PRECISION: 0.15, Stage.FUSE: 0.1, Stage.TUNE: 0.03}
"""Logarithms of the factor by which passes of a stage make models faster that are not fast already: int8 halves the
time of most, fusions take a tenth of it, settings some per cent. Their order matters, and that
none is too little to be tried."""

BENEATH = (Stage.QUANTIZE, Stage.CONVERT_PRECISION)
"""Stages that make another model of what fusions leave, and gain beside them."""

_CALIBRATION = 4.0
"""Times as long, where it runs the model on samples: MiniLM took 2.3 s in 8 bits without, and 11.7 with them."""


class Promises:
    """What is known of the passes of one search.

    Args:
        search_s: the time it has.
        costs: what passes took on this machine before.
        calibrating: names of passes that run the model on samples.
    """

    def __init__(self, search_s: float, costs: PassCosts | None = None, calibrating: Collection[str] = ()) -> None:
        self._search_s = search_s
        self._costs = costs or PassCosts()
        self._calibrating = frozenset(calibrating)
        self._gained: dict[StepKey, float] = {}
        self._seconds: dict[str, float] = {}
        self._held: set[str] = set()
        self._expected: dict[StepKey, float] = {}
        self._latency: dict[str, float] = {}

    def expect(self, step: Step, gain: float) -> None:
        """Notes what a step gains at best by the kernels that it exchanges."""
        self._expected[step.key] = gain

    def note_run(self, parent: Candidate, step: Step, run_s: float, original_s: float) -> None:
        """Notes the fastest run of a candidate in its comparison, beside that of the original; 0 if unknown.

        Such a run is no measurement of a gain. It replaces the guess if the step exchanges no kernels and the run was
        clearly faster.
        """
        if not run_s or not original_s:
            return
        gain = math.log(self._latency.get(parent.digest, 1.0) * original_s / run_s)
        if gain > max(math.log(SURPRISE), self.gain(step)) and step.key not in self._expected:
            self._expected[step.key] = gain

    def note_latency(self, items: Iterable[Measured]) -> None:
        """Notes the latency of models that hold, as ratios to the original's."""
        for item in items:
            if item.ratio is not None:
                self._latency[item.digest] = min(item.ratio, self._latency.get(item.digest, math.inf))

    def note_held(self, name: str) -> None:
        """Notes that a candidate of a pass is right."""
        self._held.add(name)

    def note_seconds(self, name: str, seconds: float) -> None:
        """Notes what a candidate of a pass took, where it was not known already."""
        if seconds > 0:
            self._seconds[name] = max(seconds, self._seconds.get(name, 0.0))

    def note_ratio(self, step: Step, ratio: float) -> None:
        """Notes the latency of a chain with a step to that without it."""
        gain = -math.log(max(ratio, 1e-9))
        self._gained[step.key] = max(gain, self._gained.get(step.key, -math.inf))

    def gain(self, step: Step) -> float:
        """The gain to expect: what this step gained elsewhere, else its pass, else by its kernels, else a guess.

        Its pass gained so much with the best options; what these lose to them by their kernels is taken off.
        """
        if step.key in self._gained:
            return self._gained[step.key]
        expected, gained = self._expected.get(step.key), _most(self._gained, step.pass_name)
        if gained is None:
            return expected if expected is not None else GUESSES.get(step.stage, 0.0)
        best = _most(self._expected, step.pass_name)
        return gained - (best - expected if best is not None and expected is not None else 0.0)

    def of_pass(self, planned: Planned) -> float:
        """The gain to expect of a pass with the options that suit the model best."""
        found = (_most(gains, planned.name) for gains in (self._gained, self._expected))
        guess = GUESSES.get(planned.offered.stage, 0.0)
        return max(0.0, next((gain for gain in found if gain is not None), guess))

    def adds_too_little(self, parent: Candidate, step: Step) -> str:
        """Why a step on a chain is not worth the time, given what was found; empty where it may be.

        Only what was timed on another chain is judged, and it may surprise.
        """
        if _most(self._gained, step.pass_name) is None or parent.digest not in self._latency:
            return ""
        best, expected = min(self._latency.values()), self.latency(parent, step)
        if math.log(SURPRISE * best / expected) >= TOO_LITTLE:
            return ""
        return f"expected latency ratio about {expected:.2f}, and the best so far has {best:.2f}"

    @property
    def best_gain(self) -> float:
        """The most that any step gained; 0 where none is of use."""
        return max([0.0, *self._gained.values()])

    def expected_s(self, name: str) -> float:
        """Returns what a candidate of a pass is expected to take: what it took here, else what it took before.

        What it took before is a factor to what most passes take, which is about a second.
        """
        is_dear = name in self._calibrating and name not in self._costs.factors
        return self._seconds.get(name) or self._costs.of([name]) * (_CALIBRATION if is_dear else 1.0)

    def latency(self, parent: Candidate, step: Step) -> float:
        """Returns the latency to expect of a chain with one more step, as a ratio to the original's."""
        return self._latency.get(parent.digest, 1.0) * math.exp(-self.gain(step))

    def reason_against(self, planned: Planned) -> str:
        """Returns why a pass is tried on no further chain, in one sentence; empty where nothing speaks against it."""
        name = planned.name
        gain, seconds = _most(self._gained, name), self._seconds.get(name, 0.0)
        useless = gain <= math.log(DIFFER) if gain is not None else name not in self._held
        if seconds > DEAR * self._search_s and useless:
            found = "led to no valid model" if gain is None else f"latency ratio {math.exp(-gain):.2f}"
            return (
                f"its first candidate took {seconds:.0f} s and {found}: other passes promise more in that time; "
                "give more with --search-seconds"
            )
        return ""


def _most(gains: Mapping[StepKey, float], name: str) -> float | None:
    """The most that a pass gains with any options; None if nothing is known of it."""
    return max((gain for (of, _), gain in gains.items() if of == name), default=None)


def fair_order(plan: Plan, goal: str = "latency") -> list[Planned]:
    """Passes that make a model better, by what they promise; of the stage tune its first.

    Candidates of other stages are looked at through that one's settings, too.
    """
    found = {
        stage: [one for one in those if one.pass_class.role is Role.IMPROVE and not one.forced]
        for stage, those in plan.stages.items()
    }
    passes = [one for stage, those in found.items() for one in (those[:1] if stage is Stage.TUNE else those)]
    return sorted(passes, key=lambda one: -GUESSES.get(one.offered.stage, 0.0) - for_goal(one, goal))


def leading_of(passes: Sequence[Planned], plan: Sequence[Planned], gains: Mapping[str, float]) -> list[Planned]:
    """The best guess of each plugin and of each stage, and settings: what is looked at however slow the machine is.

    If two promise as much for a stage, the later one in the plan comes first: those before it make way for it. All
    lossless ones of its plugin that promise as much lead too, since they take little and need no repair. A pass that
    makes a model slower leads nothing; nor does the stage tune, which promises least.

    Args:
        passes: the best first.
        plan: the same in the order of the plan.
        gains: what they promise, by name.
    """
    useful = [one for one in passes if gains[one.name] >= 0 and one.offered.stage is not Stage.TUNE]
    found: list[Planned] = []
    for one in useful:
        if _plugin_of(one) not in map(_plugin_of, found):
            found.append(one)
    for stage in dict.fromkeys(one.offered.stage for one in useful):
        if stage not in [other.offered.stage for other in found]:
            of_stage = [one for one in reversed(plan) if one in useful and one.offered.stage is stage]
            best = max(of_stage, key=lambda one: gains[one.name])
            alike = [one for one in of_stage if gains[one.name] == gains[best.name]]
            found += [
                one
                for one in alike
                if one is best or (not one.pass_class.lossy and _plugin_of(one) == _plugin_of(best))
            ]
    return found


def _plugin_of(one: Planned) -> str:
    return one.offered.plugin.name


def for_goal(planned: Planned, goal: str) -> float:
    """The gain to expect of a pass for the goal of the run alone: more than that of any other pass."""
    return float(goal in planned.pass_class.goals)
