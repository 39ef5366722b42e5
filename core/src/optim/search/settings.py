"""What the user asked a run for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from optim.gate.budget import DEFAULT_MAX_DRIFT
from optim.passes import Stage
from optim.source import SourceRequest

Goal: TypeAlias = Literal["latency", "size"]

DEFAULT_SEARCH_SECONDS = 60.0
DEFAULT_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Named:
    """A pass that the user named: it must hold. ``options`` None: what the pass itself proposes."""

    name: str
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything a run depends on, beside the machine and what is installed.

    Attributes:
        source: the file, or what is exported first.
        target: name.
        data: where feeds come from; None: synthesized.
        goal: what better means.
        max_drift: budget for lossy passes, relative L2.
        lossless: admit only passes held to rounding error.
        named: passes that must hold.
        without: passes left out; sorted, so that the same request has the same key.
        stages: only these; empty: all.
        search_seconds: bound of the search, in seconds; what the user named is tried all the same.
        seed: of everything random.
        chain: replay exactly these passes with these options, in this order, and search nothing.
        fresh: take nothing from the cache.
        timeout_s: for one candidate that the user named.
        most_samples: the gate compares at most so many.
        beam: chains that go on from stage to stage.
        export: how the source is exported first; None where it is an ``.onnx`` file.
        component: of the exported source; empty where it has one only.
    """

    source: Path
    target: str = "cpu"
    data: str | None = None
    goal: Goal = "latency"
    max_drift: float = DEFAULT_MAX_DRIFT
    lossless: bool = False
    named: tuple[Named, ...] = ()
    without: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    search_seconds: float = DEFAULT_SEARCH_SECONDS
    seed: int = 0
    chain: tuple[Named, ...] | None = None
    fresh: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    most_samples: int = 32
    beam: int = 2
    export: SourceRequest | None = None
    component: str = ""

    def named_options(self, name: str) -> Named | None:
        """The user's word on a pass, if there is one."""
        return next((named for named in self.named if named.name == name), None)
