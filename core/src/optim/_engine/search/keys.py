"""What an answer of this run depends on: where any of it changes, the answer is not taken from the cache."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optim._engine.compare.metric_spec import MetricSpec
from optim._engine.graphs.user_files import Stamp
from optim._engine.jobs.prepare import Answer as Prepared
from optim._engine.machine import instruction_sets
from optim._engine.plugins.offers import OfferedPass
from optim._engine.plugins.registry import Registry
from optim._engine.plugins.versions import core_digest, plugin_version_key, version_keys, version_of
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Application, Candidate
from optim._engine.store import cache_key
from optim.jobs.resources import ControlGroups, usable_cores
from optim.jobs.wire import to_wire
from optim.model import Model, TensorInfo
from optim.target import Target


class Keys:
    """The keys of one run's answers in the store; :meth:`hold_to` first, but for :meth:`prepare`.

    Args:
        machine: where things are timed.
        libraries: versions of those that workers have.
        kernels: what decides which kernels a runtime takes, and so what integers come to: instruction sets.
    """

    def __init__(
        self,
        settings: RunSettings,
        registry: Registry,
        target: Target,
        metric: MetricSpec | None,
        machine: str,
        libraries: Mapping[str, str],
        kernels: str = "",
    ) -> None:
        self._settings = settings
        self._machine = machine
        self._metric = metric
        backend = registry.offered("backend")[target.backend].plugin
        self._place = [core_digest(), to_wire(target), plugin_version_key(backend), *sorted(libraries.items()), kernels]
        self.backend: object = [to_wire(target), plugin_version_key(backend)]
        self._measure: object = None
        if metric is not None:  # the source of a user's function is known when it was found
            offered = registry.offered("metric").get(metric.name) if metric.plugin else None
            self._measure = [to_wire(metric), plugin_version_key(offered.plugin) if offered else ""]
        self._reference: object
        self._prepared: Prepared

    def hold_to(self, prepared: Prepared, original: Model) -> None:
        """Note what everything is compared with from now on."""
        task = prepared.task
        measured = task and [self._measure, task.digest, task.samples, task.explored]
        self._prepared = prepared
        self._reference = [self._place, prepared.versions, prepared.digest, original.digest, measured]

    def hold_beside(self, baseline: Keys, prepared: Prepared) -> None:
        """Note that everything is compared with what ``baseline`` is, of a run on another target."""
        self._prepared = prepared
        self._reference = [self._place, prepared.versions, baseline._reference]

    def ingest(self, stamps: Sequence[Stamp]) -> str:
        """Returns the key of what a file becomes in the store."""
        versions = [version_of(package) for package in ("onnx", "onnx-ir")]
        return cache_key("ingest", {"file": to_wire(tuple(stamps)), "code": [core_digest(), *versions]})

    def prepare(self, model: Model, inputs: tuple[TensorInfo, ...], entry: Model | None = None) -> str:
        """Returns the key of feeds of these sizes and reference outputs, of what is opened in place of the original."""
        settings = self._settings
        depends_on = {
            "model": model.digest,
            "entry": entry.digest if entry else "",
            "inputs": to_wire(inputs),
            "place": self._place,
            "data": self._data(),
            "seed": settings.seed,
            "most samples": settings.most_samples,
            "metric": self._measure,
            "max loss": to_wire(settings.max_loss),
            "without": settings.without,
            "now": time.time_ns() if self._metric and self._metric.is_function else 0,  # may return something else
        }
        return cache_key("prepare", depends_on)

    def offers(
        self, candidate: Candidate, asked: Sequence[tuple[OfferedPass, dict[str, Any] | None, bool]]
    ) -> dict[str, str]:
        """The keys of what passes offer for a model; plugins are looked at once, as they are now.

        Returns:
            A key for each, by the pass's name.
        """
        versions = version_keys(offered.plugin for offered, _, _ in asked)
        depends_on = {
            "model": candidate.digest,
            "goal": [self._settings.goal, to_wire(self._settings.bounds)],
            "reference": self._reference,
            "seed": self._settings.seed,
            "machine": self._machine,
        }
        return {
            offered.name: cache_key(
                "offer", {**depends_on, "pass": [offered.name, versions[offered.plugin.name], options, forced]}
            )
            for offered, options, forced in asked
        }

    def candidate(self, trial: Application) -> str:
        """Returns the key of a candidate."""
        depends_on = {
            "on": [trial.candidate.digest, to_wire(trial.candidate.interfaces)],
            "pass": [trial.offered.name, plugin_version_key(trial.offered.plugin), trial.options],
            "reference": self._reference,
            "seed": self._settings.seed,
            "samples": self._prepared.explored,
        }
        return cache_key("candidate", depends_on)

    def repair(self, trial: Application, limit: float, samples: Sequence[int]) -> str:
        """Returns the key of a repair."""
        return cache_key("repair", self.candidate(trial), limit, samples)

    def session_digest(self, model: Model) -> str:
        """Returns the key of what the runtime makes of a model under its settings."""
        return cache_key("session-digest", model.digest, self._place, self._prepared.versions, self._machine)

    def found(self, kind: str, *depends_on: object) -> str:
        """Returns the key of what is found on the samples, or beside the original."""
        return cache_key(kind, *map(to_wire, depends_on), self._reference)

    def _data(self) -> object:
        """What tells one set of feeds from another before it is read."""
        data = self._settings.data
        if data is None:
            return None
        if not Path(data).exists():
            return [data, time.time_ns()]  # a function may return something else each time
        path = Path(data).absolute()
        files = sorted(path.rglob("*.npz")) if path.is_dir() else [path]
        return [str(path), [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.exists()]]


def machine_key() -> str:
    """Returns what a timing depends on of the machine; virtual machines have one name for many processors."""
    return f"{platform.node()}/{machine_kind()}/{' '.join(instruction_sets())}"


def machine_kind() -> str:
    """What machines have in common whose timings can be compared: the processor, and how many of it may be used."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    quota = ControlGroups().processors()
    return f"{model}/{usable_cores()}" + (f" for {quota:g}" if quota is not None else "")
