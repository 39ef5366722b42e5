"""Which workers of a cluster do a run's jobs: those with its code, its targets, and one kind of machine."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from optim.engine.fleet import let_stand
from optim.errors import ExitStatus, OptimError, describe_exception
from optim.target import Target
from optim.workplace import WorkplaceRequest
from optim_fleet.cluster.connection import LostError
from optim_fleet.cluster.describe import CLOCK, Worker, describe, describe_there, read, what_differs

_FRESH_S = 2.0
"""A list of workers that is older is asked for anew before a job is handed out: it costs some milliseconds."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run asks of a worker.

    Attributes:
        core: digest of optim and of this package.
        version: of optim and Python, for people.
        plugins: what stands for the code of each plugin that takes part, by name.
        targets: as the user wrote them.
        required: those of them that a worker must have; of several that compete, none.
        clock: the resource of dask that stands for the clock of the machine; empty where nothing is timed.
        libraries: that are here, of those that plugins can do without; a worker may have others.
    """

    core: str
    version: str
    plugins: Mapping[str, str]
    targets: tuple[str, ...]
    required: tuple[str, ...]
    clock: str
    libraries: Mapping[str, str] = field(default_factory=dict)

    @property
    def clocks(self) -> dict[str, float]:
        """What a race holds of dask's resources."""
        return {self.clock: 1.0} if self.clock else {}


@dataclass(frozen=True, slots=True)
class Member:
    """A worker of the cluster.

    Attributes:
        address: of it.
        worker: what it says of itself.
        threads: tasks that it runs at a time.
        clocks: names of the clocks that it has.
    """

    address: str
    worker: Worker
    threads: int
    clocks: frozenset[str]

    @property
    def text(self) -> str:
        """What it is, for a sentence."""
        clocks = ", ".join(sorted(self.clocks)) or "no clock"
        return f"{self.address} on {self.worker.host} (targets {', '.join(self.worker.usable)}; {clocks})"


class Pool:
    """The workers of one run.

    Args:
        client: gives the client of dask.
        cluster: as the user wrote it.
        needs: of the run.
        say: told who is left out.

    Attributes:
        kind: of the machines that take part, once :meth:`settle` has chosen it.
    """

    def __init__(self, client: Callable[[], Any], cluster: str, needs: Needs, say: Callable[[str], None]) -> None:
        self._client = client
        self._cluster = cluster
        self._needs = needs
        self._say = say
        self._guard = threading.RLock()
        self._members: dict[str, Member] = {}
        self._left_out: dict[str, str] = {}
        self._silent: set[str] = set()
        self._asked_at = 0.0
        self.kind = ""

    def settle(self) -> None:
        """Look at the workers, and choose the kind of machine that takes part.

        Raises:
            OptimError[cluster-unfit]: none can do what the run needs.
        """
        with self._guard:
            try:
                self.refresh()
            except LostError as error:
                raise self._unfit() from error
            usable = [one for one in self._members.values() if one.address not in self._left_out]
            holding = [one for one in usable if set(self._needs.clocks) <= one.clocks]
            if not holding:
                raise self._unfit()
            kinds = Counter(one.worker.kind for one in holding)
            self.kind = max(kinds, key=lambda kind: (kinds[kind], kind))
            self._look()

    @property
    def fit(self) -> list[Member]:
        """The workers that take part now."""
        with self._guard:
            if time.monotonic() - self._asked_at > _FRESH_S:
                with suppress(LostError):  # who hands out a job sees it
                    self._look()
            return [one for one in self._members.values() if one.address not in self._left_out]

    @property
    def timing(self) -> list[Member]:
        """Those of them that have the clocks."""
        return [one for one in self.fit if set(self._needs.clocks) <= one.clocks]

    @property
    def is_exhausted(self) -> bool:
        """Whether there are workers, and all of them have been left out."""
        with self._guard:
            return bool(self._members) and set(self._members) <= set(self._left_out)

    def leave_out(self, address: str, reason: str) -> None:
        """Give a worker nothing more."""
        with self._guard:
            if address not in self._left_out:
                self._left_out[address] = reason
                let_stand(self._say, f"{self._name(address)} is left out: {reason}")

    def refresh(self) -> None:
        """Look at the workers anew.

        Raises:
            LostError: the scheduler does not answer.
        """
        with self._guard:
            self._look()

    def none_left(self) -> OptimError:
        """The error for when nobody is left who could do a job."""
        return self._unfit()

    def _name(self, address: str) -> str:
        known = self._members.get(address)
        return f"{address} on {known.worker.host}" if known else address

    def _look(self) -> None:
        client, found = self._client(), {}
        try:
            # not client.scheduler_info(): its periodic refresh, which leaves workers out, may overwrite the answer
            there: Mapping[str, Mapping[str, Any]] = client.sync(client.scheduler.identity)["workers"]
            self._asked_at = time.monotonic()
            self._members = {address: one for address, one in self._members.items() if address in there}
            unknown = [address for address in there if address not in self._members and address not in self._left_out]
            if unknown:
                found = client.run(describe_there, "", list(self._needs.targets), workers=unknown, on_error="return")
        except Exception as error:  # dask's own, of a connection that is gone or a client that is closed
            raise LostError(describe_exception(error)) from error
        for address, answer in found.items():
            self._meet(address, there[address], answer)
        if self.kind:
            for one in self._members.values():
                if one.worker.kind != self.kind:
                    apart = what_differs(one.worker.kind, self.kind)
                    self.leave_out(one.address, f"it is another kind of machine: {apart}")

    def _meet(self, address: str, said: Mapping[str, Any], answer: object) -> None:
        if isinstance(answer, ImportError | AttributeError):
            self.leave_out(address, f"it has another version of optim than this process: {describe_exception(answer)}")
            return
        if not isinstance(answer, str):
            if address not in self._silent:  # it is asked again
                self._silent.add(address)
                let_stand(self._say, f"{address} does not answer: {answer}")
            return
        try:
            worker = read(answer)
        except ValueError:
            self.leave_out(address, f"it has another version of optim than this process ({self._needs.version})")
            return
        clocks = frozenset(name for name in said.get("resources", {}) if name.startswith(CLOCK))
        self._members[address] = Member(address, worker, int(said.get("nthreads", 1)), clocks)
        if reason := self._reason(worker):
            self.leave_out(address, reason)

    def _reason(self, worker: Worker) -> str:
        """Why a worker cannot take part; empty where it can."""
        needs = self._needs
        if worker.core != needs.core:
            return f"it has {worker.version}, this process {needs.version}, and their sources differ"
        if lacked := self._lacked(worker):
            return f"it lacks {'plugins' if len(lacked) > 1 else 'plugin'} {', '.join(lacked)}"
        for name, key in needs.plugins.items():
            if worker.plugins[name] != key:
                return f"its plugin {name}, or a library of that, has another version than here"
        for name in needs.targets:
            if name not in worker.targets:
                return f"it has no target {name}; it has {', '.join(worker.usable)}"
            if worker.targets[name].reason and name in needs.required:
                return f"target {name} cannot be used there: {worker.targets[name].reason}"
        return ""

    def _lacked(self, worker: Worker) -> list[str]:
        """Plugins of this run that a worker with the same optim does not have."""
        if worker.core != self._needs.core:
            return []
        return sorted(self._needs.plugins.keys() - worker.plugins.keys())

    def _unfit(self) -> OptimError:
        clock = self._needs.clock
        lacked = sorted({name for one in self._members.values() for name in self._lacked(one.worker)})
        without = (
            f"; or leave out what the workers do not have: {' '.join(f'--disable-plugin {name}' for name in lacked)}"
        )
        out = [f"{self._name(address)}: {reason}" for address, reason in self._left_out.items()]
        lacking = [f"{one.text} lacks {clock}" for one in self._members.values() if one.address not in self._left_out]
        start = "dask worker ADDRESS --nthreads 1" + (f" --resources {clock}=1" if clock else "")
        return OptimError(
            "cluster-unfit",
            f"no worker of {self._cluster} can do what this run needs",
            "; ".join([*out, *lacking]) or "it has no workers",
            f"on a machine with the target, optim and its plugins: {start}" + (without if lacked else ""),
            status=ExitStatus.TARGET_UNAVAILABLE,
        )


def needs_of(request: WorkplaceRequest) -> Needs:
    """What a run asks of a worker: optim, and the plugins that take part; every race holds the baseline's clock."""
    here, targets = read(describe()), request.targets
    return Needs(
        here.core,
        here.version,
        {name: key for name, key in here.plugins.items() if name in request.plugins},
        tuple(target.name for target in targets),
        request.required,
        CLOCK + targets[0].name.partition(":")[0] if targets[0].timed else "",
        here.libraries,
    )


def seen_by(worker: Worker, target: Target) -> Target:
    """A target as it is where a worker is."""
    device = worker.targets.get(target.name)
    if device is None:
        return target
    return replace(
        target,
        probe=lambda: device.reason or None,
        identify=lambda: device.hardware,
        free_memory=lambda: device.free_bytes,
    )
