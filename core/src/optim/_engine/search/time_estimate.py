"""How long a run is announced to take, where the user gave no time: from the model, the machine, and earlier runs.

A search tries some candidates of each pass, opens each in a few races, and proves what is best. What a candidate takes
goes by the size of the model, its nodes and a run of it; what passes took on this machine before corrects that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, geometric_mean, median

from optim._engine.compare.place import spread_of
from optim._engine.jobs.prepare import Answer as Prepared
from optim._engine.search.deadline import BYTES_A_SECOND, LEAST_S, MOST_S, Deadline
from optim._engine.search.keys import machine_key
from optim._engine.search.lane_costs import LaneCosts
from optim._engine.search.state import Attempt
from optim._engine.search.taste import FEW, KEPT
from optim._engine.store import Store, cache_key
from optim.jobs.wire import to_wire

_TRIES_A_PASS = 2.0
"""Times that a pass takes what one of its candidates and its lane take. It is tried with several sets of options and on
several chains (37 to 74 candidates of 15 passes on MiniLM), and two processes share the work."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a run has to do with."""

    size_bytes: int
    nodes: int
    samples: int
    open_s: float
    run_s: float

    @property
    def candidate_s(self) -> float:
        """Seconds that a candidate is guessed to take: its weights read and written, and then what a lane takes."""
        return 2 * self.size_bytes / BYTES_A_SECOND + self.lane_s

    @property
    def lane_s(self) -> float:
        """Seconds that a lane of a race is guessed to take."""
        return LaneCosts(self.open_s, self.run_s).lane_s

    @property
    def text(self) -> str:
        """In a few words, e.g. ``90 MB, 357 nodes, 11 ms a run, 8 samples``."""
        megabytes = self.size_bytes / 1e6
        small = f"{megabytes:.0f} MB" if megabytes >= 1 else f"{megabytes * 1e3:.0f} kB"
        size = f"{megabytes / 1e3:.1f} GB" if megabytes >= 1e3 else small
        run = f"{self.run_s:.1f} s" if self.run_s >= 1 else f"{self.run_s * 1e3:.2g} ms"
        samples = f"{self.samples} sample{'s' if self.samples > 1 else ''}"
        return f"{size}, {self.nodes} node{'s' if self.nodes > 1 else ''}, {run} a run, {samples}"


@dataclass(frozen=True, slots=True)
class PassCosts:
    """What candidates of passes took on this machine, by the pass's name: times what was guessed."""

    factors: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def known(cls, store: Store) -> PassCosts:
        """What earlier runs found."""
        return store.read("steps", _key(), cls) or cls()

    def learned(self, attempts: Iterable[Attempt], load: Load) -> PassCosts:
        """The same after one more run, which counts by half: one run on a busy machine does not decide."""
        took: dict[str, list[float]] = defaultdict(list)
        for attempt in attempts:
            if attempt.seconds > 0:
                took[attempt.step.pass_name].append(attempt.seconds / load.candidate_s)
        found = dict(self.factors)
        for name, factors in took.items():
            found[name] = fmean([found.get(name, median(factors)), median(factors)])
        return PassCosts(found)

    def keep(self, store: Store) -> None:
        """Keep it for later runs; where two write, the last one counts."""
        store.write("steps", _key(), to_wire(self))

    def of(self, names: Sequence[str]) -> float:
        """What some passes take together, times what is guessed of one."""
        usual = geometric_mean(self.factors.values()) if self.factors else 1.0
        return sum(self.factors.get(name, usual) for name in names)


def _key() -> str:
    return cache_key("pass costs", machine_key())


def estimate_s(load: Load, passes: Sequence[str], costs: PassCosts, spent_s: float = 0.0) -> float:
    """Seconds of a whole run that has been going on for so long, 30 to 250."""
    tries_s = _TRIES_A_PASS * (costs.of(passes) * load.candidate_s + len(passes) * load.lane_s)
    lanes = LaneCosts(load.open_s, load.run_s, comparing_s=load.samples * load.run_s)
    return min(MOST_S, max(LEAST_S, spent_s + tries_s + lanes.proof_s(1 + FEW)))


def of_several(estimates: Sequence[float]) -> float:
    """Seconds of a run on several targets: that of the longest, and a fifth for first looks at each of the others."""
    longest = max(estimates)
    return min(MOST_S, longest + KEPT * (sum(estimates) - longest))


def in_words(seconds: float) -> str:
    """E.g. ``40 seconds`` or ``2 minutes``: as exact as an estimate is."""
    if seconds < 90:
        return f"{round(seconds / 10) * 10} seconds"
    minutes = round(seconds / 30) / 2
    return f"{minutes:g} minutes"


def in_time(prepared: Prepared, time: Deadline) -> Prepared:
    """The same with as many samples to compare on as there is time for; the run's notes say what is left out."""
    most = time.samples_to_compare(prepared.run_s, len(prepared.compared))
    compared = spread_of(prepared.compared, most)
    explored = tuple(sample for sample in prepared.explored if sample in compared) or compared[:1]
    timed = tuple(sample for sample in prepared.timed if sample in compared) or compared[:1]
    shapes = tuple(shape for sample, shape in zip(prepared.timed, prepared.shapes, strict=True) if sample in timed)
    fewer = len(compared) < prepared.available
    if len(compared) < len(prepared.compared) or (prepared.cut_short and fewer):
        time.notes.append(
            f"a run of the original takes {prepared.run_s:.2g} s, so results are compared on {len(compared)} of "
            f"{prepared.available} samples; give more with --search-seconds"
        )
    elif prepared.cut_short:
        time.notes.append(
            f"a run of the original takes {prepared.run_s:.2g} s, so there was no time for all synthesized samples "
            "or for all measurements of rounding; give more with --search-seconds"
        )
    elif fewer:
        time.notes.append(f"drift is measured on {len(compared)} of {prepared.available} samples, spread evenly")
    return replace(prepared, compared=compared, explored=explored, timed=timed, shapes=shapes or prepared.shapes[:1])
