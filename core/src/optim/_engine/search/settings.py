"""What the user asked a run for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from optim._engine.compare.metric_spec import MetricSpec
from optim._engine.gate.budget import Budget, MaxLoss, require_max_drift, require_mismatch
from optim._engine.goals.bounds import Bound
from optim._engine.search.taste import HANGS_S
from optim.errors import OptimError, unknown_name
from optim.goal import GoalRequest
from optim.passes import Stage
from optim.source import SourceRequest

SearchSeconds: TypeAlias = float | Literal["auto"]
AUTO: Literal["auto"] = "auto"
PRESETS: Mapping[str, SearchSeconds] = {"quick": 30.0, "default": AUTO, "best": 1800.0}
"""Seconds by ``--preset``. A search ends before that if nothing is left that promises a gain."""

DEFAULT_MAX_DRIFT = 0.1
DEFAULT_TIMEOUT_S = HANGS_S

_HERE = ("", "local")
"""What stands before the colon of a cluster whose workers are on this machine."""

LONGEST_S = 31 * 24 * 3600.0
"""A month; what waits longer overflows somewhere."""


@dataclass(frozen=True, slots=True)
class Named:
    """A pass that the user named: it must hold.

    Attributes:
        options: None: what the pass itself proposes.
        carried: by a recipe, which may have been written for other models too.
    """

    name: str
    options: Mapping[str, Any] | None = None
    carried: bool = False


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything a run depends on, beside the machine and what is installed.

    Attributes:
        source: the file, or what is exported first.
        target: name; several with commas between, or ``auto``.
        baseline: name of the target that the original is run on and timed; empty: where candidates are, and for several
            targets the CPU.
        data: where feeds come from; None: synthesized.
        goal: what better means, by the name of a :class:`optim.goal.Goal`.
        goal_is_said: whether the user named it, or what has one; else it goes by the graph, see
            :func:`optim._engine.runs.found_goal.find_goal_of_graph`.
        max_drift: budget for lossy passes; None where the user did not say, see :attr:`drift_limit`.
        max_mismatch: share of the texts or whole numbers of one output that may differ.
        metric: task metric, measured beside drift.
        max_loss: how much worse the metric may get.
        lossless: admit only passes held to rounding error.
        bounds: that a result keeps within, see :mod:`optim._engine.goals.bounds`.
        max_batch_drift: the largest drift of a sample between running alone and in a padded batch; None: no limit.
        workload: of a decoder, where the goal is ``generate``.
        named: passes that must hold.
        without: passes left out; sorted, so that the same request has the same key.
        stages: only these; empty: all.
        search_seconds: of the whole run; what the user named is tried all the same. ``auto``: announced when the model
            is known.
        seed: of everything random.
        chain: replay exactly these passes with these options, in this order, and search nothing.
        fresh: take nothing from the cache.
        timeout_s: for one candidate that the user named.
        most_samples: the gate compares at most so many.
        beam: chains that go on from stage to stage.
        export: how the source is exported first; None where it is an ``.onnx`` file.
        component: of the exported source; empty where it has one only.
        cluster: machines that do the work, see :class:`optim.workplace.Cluster`; empty: this one.
        store_url: where those exchange files; empty: the engine carries them.
        trace: file that takes what the run does; with it nothing is taken from the cache.
    """

    source: Path
    target: str = "cpu"
    data: str | None = None
    goal: str = "latency"
    max_drift: float | None = None
    metric: MetricSpec | None = None
    max_loss: MaxLoss | None = None
    lossless: bool = False
    named: tuple[Named, ...] = ()
    without: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    search_seconds: SearchSeconds = AUTO
    seed: int = 0
    chain: tuple[Named, ...] | None = None
    fresh: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    most_samples: int = 32
    beam: int = 2
    export: SourceRequest | None = None
    component: str = ""
    baseline: str = ""
    max_batch_drift: float | None = None
    workload: GoalRequest = field(default_factory=GoalRequest)
    bounds: tuple[Bound, ...] = ()
    cluster: str = ""
    store_url: str = ""
    trace: str = ""
    goal_is_said: bool = True
    max_mismatch: float = 0.0

    @property
    def needed_timeout_s(self) -> float:
        """For what the whole run depends on: a short :attr:`timeout_s` costs candidates, and not the run."""
        return max(self.timeout_s, DEFAULT_TIMEOUT_S)

    @property
    def drift_limit(self) -> float:
        """The budget for lossy passes: infinite where only a loss was given, the default where nothing was."""
        if self.max_drift is not None:
            return self.max_drift
        return math.inf if self.max_loss is not None else DEFAULT_MAX_DRIFT

    def budget(self, tolerance: float, *, foresees: bool = False) -> Budget:
        """What the user accepts.

        Args:
            tolerance: of a chain without a lossy pass, measured on the original itself.
            foresees: whether the drift is held on further samples like those measured too.
        """
        max_drift = None if self.lossless else self.drift_limit
        return Budget(max_drift, tolerance, self.max_loss, foresees, self.max_batch_drift, self.max_mismatch)

    @property
    def goal_request(self) -> GoalRequest:
        """The user's word on the goal, beside its name."""
        limit_ms = next((bound.most for bound in self.bounds if bound.figure == "latency"), None)
        return replace(self.workload, max_latency_ms=limit_ms)

    @property
    def says_a_budget(self) -> bool:
        """Whether the user said what is accepted, rather than leaving it to the default."""
        return self.max_drift is not None or self.max_loss is not None

    def named_options(self, name: str) -> Named | None:
        """The user's word on a pass, if there is one."""
        return next((named for named in self.named if named.name == name), None)

    def require_sound(self) -> None:
        """Refuse numbers that cannot be ones, and what contradicts itself.

        Raises:
            OptimError[bad-budget]: a drift, a loss or a time that cannot be one.
            OptimError[bad-seed]: one that is negative.
            OptimError[conflicting-request]: two things that exclude each other.
        """
        self._require_budget()
        self._require_cluster()
        if self.search_seconds != AUTO and not 0 <= self.search_seconds <= LONGEST_S:
            raise _bad_time("--search-seconds", self.search_seconds, "an estimate from the model")
        if not 0 < self.timeout_s <= LONGEST_S:
            raise _bad_time("--timeout", self.timeout_s, f"{DEFAULT_TIMEOUT_S:g}")
        if self.seed < 0:
            raise OptimError.usage(
                "bad-seed", f"--seed cannot be {self.seed}", "a seed is a whole number from 0 on", "--seed 0"
            )

    def _require_budget(self) -> None:
        if self.max_loss is not None and self.metric is None:
            raise OptimError.usage(
                "bad-budget",
                "--max-loss needs --metric",
                "--max-loss limits the loss of a metric, and none is given",
                fix="add --metric top-1",
            )
        require_mismatch(self.max_mismatch)
        for option, is_given in (("--max-loss", self.max_loss is not None), ("--max-mismatch", self.max_mismatch > 0)):
            if self.lossless and is_given:
                raise OptimError.usage(
                    "conflicting-request",
                    f"--lossless and {option} exclude each other",
                    "--lossless allows rounding error only",
                    fix="leave one of the two out",
                )
        require_max_drift(self.max_drift, f"leave it out for {DEFAULT_MAX_DRIFT:g}, or give --lossless")
        if self.max_batch_drift is not None and not 0 < self.max_batch_drift < math.inf:
            raise OptimError.usage(
                "bad-budget",
                f"--max-batch-drift cannot be {self.max_batch_drift:g}",
                "a drift is a positive number",
                "--max-batch-drift 0.01",
            )

    def _require_cluster(self) -> None:
        if self.store_url and not self.cluster:
            raise OptimError.usage(
                "conflicting-request",
                "--store-url needs --cluster",
                "a run on this machine uses the folder of OPTIM_CACHE_DIR",
                "--cluster tls://HOST:PORT",
            )
        if self.metric is not None and self.metric.program is not None and self.cluster.partition(":")[0] not in _HERE:
            raise OptimError.usage(
                "conflicting-request",
                f"other machines cannot call {self.metric.name}",
                "it is a function of this program, and other machines cannot import it",
                'name it: metric="package.module:function"',
            )


def _bad_time(option: str, seconds: float, usual: str) -> OptimError:
    return OptimError.usage(
        "bad-budget",
        f"{option} cannot be {seconds:g}",
        f"it is a number of seconds, 0 to {LONGEST_S:.0f}, a month",
        f"leave it out for {usual}",
    )


def joined_targets(names: str | Sequence[str] | None) -> str | None:
    """One name of a target, or several, as the command line has them; None where there is none."""
    return names if names is None or isinstance(names, str) else ",".join(names) or None


def parse_stage(name: str) -> Stage:
    """A stage by its name.

    Raises:
        OptimError[unknown-stage]: lists those there are.
    """
    try:
        return Stage(name)
    except ValueError:
        known = [stage.value for stage in Stage]
        raise unknown_name("stage", name, known, fix="optim passes list shows the stages") from None
