"""Every pass on every backend model: ``python -m suite.whole`` in ``tests/``; prints what came of it, pass by pass.

Processes share the cases; one that dies or hangs costs the trial it was at, and another goes on behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from suite.known import KNOWN
from suite.trials import Outcome, Result
from suite.worker import Work, cases_of

_STALLED_S = 300.0
"""The longest trial, a whole network in several precisions, takes a minute."""


def try_all(work: Work, processes: int) -> Iterator[Result]:
    """Results of all cases of the work, in the order in which they come."""
    names = list(work.names) if work.names is not None else [case.name for case in cases_of(work)]
    found: queue.SimpleQueue[Result | None] = queue.SimpleQueue()

    def share(number: int) -> None:
        for result in _try_share(replace(work, names=tuple(names[number::processes]))):
            found.put(result)

    def all_shares() -> None:
        try:
            with ThreadPoolExecutor(processes) as pool:
                list(pool.map(share, range(processes)))
        finally:
            found.put(None)

    threading.Thread(target=all_shares).start()
    yield from iter(found.get, None)


def _try_share(work: Work) -> Iterator[Result]:
    """Results of one process, and of another behind every trial that ends one."""
    left = list(work.names or ())
    while left:
        at: list[str] = ["", "starting"]
        ended = ""
        for message in _messages(replace(work, names=tuple(left))):
            if "begin" in message:
                at = message["begin"]
            elif "result" in message:
                result = message["result"]
                yield Result(**{**result, "outcome": Outcome(result["outcome"])})
            elif "done" in message:
                left.remove(message["done"])
            elif "died" in message:
                ended = message["died"]
        if ended:
            case, name = at
            yield Result(case, name, "", Outcome.RAISED, ended)
            if case not in left:
                return
            left.remove(case)
        else:
            return


def _messages(work: Work) -> Iterator[dict[str, Any]]:
    """What a worker says, and at last that it died, where it did."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "suite.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    with contextlib.suppress(BrokenPipeError), worker.stdin as stream:
        json.dump(asdict(work), stream)
    ended = False
    lines = worker.stdout
    while True:
        watch = threading.Timer(_STALLED_S, worker.kill)
        watch.start()
        line = lines.readline()
        watch.cancel()
        if not line:
            break
        message = json.loads(line)
        ended = ended or "end" in message
        yield message
    status = worker.wait()
    lines.close()
    if not ended:
        yield {"died": f"the process ended with status {status}, or took {_STALLED_S:.0f} s"}


def table(results: Sequence[Result]) -> str:
    """How many trials came to what, a line for each pass."""
    counts = Counter((result.name, result.outcome) for result in results)
    columns = [outcome for outcome in Outcome if any(result.outcome is outcome for result in results)]
    head = f"{'':24}" + "".join(f"{outcome:>16}" for outcome in columns)
    names = dict.fromkeys(result.name for result in results)
    rows = [f"{name:24}" + "".join(f"{counts[name, outcome]:>16}" for outcome in columns) for name in names]
    total = f"{'':24}" + "".join(f"{sum(counts[name, outcome] for name in names):>16}" for outcome in columns)
    return "\n".join([head, *rows, total])


def escapes(results: Sequence[Result]) -> list[Result]:
    """What is wrong or raised and not known."""
    bad = (Outcome.WRONG, Outcome.RAISED)
    return [found for found in results if found.outcome in bad and not KNOWN.get((found.case, found.name))]


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--passes", default="", help="names, with commas between; all without")
    parser.add_argument("--modules", default="", help="of operators' tests, e.g. scan,loop; all models without")
    parser.add_argument("--json", type=Path, help="write all results there, one a line")
    arguments = parser.parse_args()
    passes = tuple(filter(None, arguments.passes.split(",")))
    modules = tuple(filter(None, arguments.modules.split(",")))
    results = []
    with contextlib.ExitStack() as stack:
        written = stack.enter_context(arguments.json.open("w")) if arguments.json else None
        for result in try_all(Work(modules=modules, passes=passes), arguments.processes):
            results.append(result)
            if written:
                written.write(json.dumps(asdict(result)) + "\n")
            if result.outcome in (Outcome.WRONG, Outcome.RAISED):
                print(
                    f"{result.outcome}: {result.name} ({result.options}) on {result.case}: {result.reason}", flush=True
                )
    print(table(results))
    return 1 if escapes(results) else 0


if __name__ == "__main__":
    sys.exit(main())
