"""Contenders in processes of their own, timed in turns with the original; every round is kept."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from plan import HERE
from turns import in_turns

REST_S = 0.1
"""Before each turn: threads of onnxruntime spin after a run, and would take processor time from whoever comes next."""

RUNS, TURN_S = 20, 0.1
"""A turn ends after so many runs, or seconds; its median counts."""

Contender = dict[str, Any]


def race(model: Path, judged: Path, contenders: list[Contender], rounds: int, seed: int) -> dict[str, Any]:
    """Milliseconds of each round, by contender; ``original`` is onnxruntime with its defaults.

    Args:
        model: the original.
        judged: the file whose first sample is timed.
        contenders: what is timed beside it.
        rounds: in which each has a turn.
        seed: of the order of the turns; another one for each race, so that nobody always follows the same one.

    Returns:
        ``rounds_ms`` by key, and ``errors`` of those that did not open.
    """
    everyone: list[Contender] = [{"key": "original", "kind": "ort", "path": str(model)}, *contenders]
    open_ones, errors = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        started = [start(one, judged, Path(scratch) / str(number)) for number, one in enumerate(everyone)]
        for one, process in zip(everyone, started, strict=True):
            assert process.stdout is not None
            if process.stdout.readline().strip() == "open":
                open_ones[one["key"]] = process
            else:
                process.wait()
                said = (Path(scratch) / str(everyone.index(one))).read_text(errors="replace").strip().splitlines()
                errors[one["key"]] = (said or ["it crashed"])[-1][:200]
        turns = {key: partial(one_turn, process, RUNS, TURN_S) for key, process in open_ones.items()}
        random.seed(seed)
        times = in_turns(turns, rounds=rounds)
        for process in open_ones.values():
            process.communicate()
    return {"rounds_ms": {key: [rounded(1e3 * one) for one in found] for key, found in times.items()}, "errors": errors}


def one_turn(process: subprocess.Popen[str], most_runs: int, seconds: float) -> float:
    """Median seconds of the runs of a turn of one contender, one run at least; the first after a rest is not one."""
    time.sleep(REST_S)
    one_run(process)
    found = [one_run(process)]
    while len(found) < most_runs and sum(found) < seconds:
        found.append(one_run(process))
    return float(np.median(found))


def one_run(process: subprocess.Popen[str]) -> float:
    """Seconds of one run of a contender."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("run\n")
    return float(process.stdout.readline())


def start(one: Contender, judged: Path, log: Path) -> subprocess.Popen[str]:
    """A process that opens a contender; what it complains of goes to a file."""
    asked = {**one, "data": str(judged)}
    command = [sys.executable, str(HERE / "table" / "contender.py"), json.dumps(asked)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with log.open("w") as complaints:
        return subprocess.Popen(command, **pipes, stderr=complaints, text=True, bufsize=1)  # type: ignore[call-overload,no-any-return]


def rounded(value: float) -> float:
    """Four digits."""
    return float(f"{value:.4g}")
