"""Imported by each Python that finds this folder on its path: notes what every process of a command used.

Lines of JSON go to the file that ``ACCOUNTED_IN`` names: what a process is, when it is known, and what it used, as it
says when it ends, or as whoever waited for it was told. Used by ``benchmarks/cluster/processor_time.py`` alone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_FILE = os.environ.get("ACCOUNTED_IN", "")

_WATCHED = ("optim.jobs.talk", "optim_fleet.batch.held")


def _note(**said: object) -> None:
    with open(_FILE, "a", encoding="utf-8") as file:  # one short write: lines of other processes stay whole
        file.write(json.dumps(said) + "\n")


def _used(usage: Any) -> float:
    return float(usage.ru_utime + usage.ru_stime)


def _watch_this_process() -> None:
    import atexit
    import resource

    exit_at_once, began = os._exit, f"program {' '.join(sys.orig_argv[1:4])}"

    def ends() -> None:
        _note(process=os.getpid(), used_s=_used(resource.getrusage(resource.RUSAGE_SELF)))

    def exits(status: int) -> None:
        ends()
        exit_at_once(status)

    def waits(process: int, options: int) -> tuple[int, int]:
        found, status, usage = os.wait4(process, options)
        if found:
            _note(process=found, waited_for_s=_used(usage))
        return found, status

    _note(process=os.getpid(), kind=began)
    atexit.register(ends)
    os.register_at_fork(after_in_child=lambda: _note(process=os.getpid(), kind="fork of a server"))
    os._exit, os.waitpid = exits, waits  # type: ignore[assignment]
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Has the modules watched that know what their process is there for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As Python finds it, with a function of it wrapped."""
        if fullname not in _WATCHED:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            execute: Callable[[ModuleType], None] = loader.exec_module

            def executed(module: ModuleType) -> None:
                execute(module)
                _wrap(module)

            loader.exec_module = executed
        return spec


def _wrap(module: Any) -> None:
    if module.__name__ == _WATCHED[1]:
        run = module.run

        @wraps(run)
        def running(arguments: Sequence[str]) -> int:
            _note(process=os.getpid(), kind="run")
            return int(run(arguments))

        module.run = running
        return
    receive = module.Channel.receive

    @wraps(receive)
    def receiving(channel: Any, *args: Any, **more: Any) -> Any:
        message = receive(channel, *args, **more)
        if "job" in message:
            _note(process=os.getpid(), kind=f"job {message['job'].removeprefix('optim._engine.')}")
        return message

    module.Channel.receive = receiving


if _FILE:
    _watch_this_process()
