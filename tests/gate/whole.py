"""The whole corpus, all sizes, seeds and number formats: ``python -m gate.whole`` in ``tests/``.

    python -m gate.whole                          # some minutes
    python -m gate.whole --only sentinels boxes   # generators or kinds with such a word in their name
    python -m gate.whole --seeds 1 --fast         # each generator once

Prints each pair whose verdict is not accepted: an *escape* is a wrong pair that passes, a *false alarm* a right pair
that does not. The exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "core" / "fixtures")]

from gate.case import SIZES, USUAL, Generator, Size, generators  # noqa: E402 - below the path of the fixtures


@dataclass(frozen=True, slots=True)
class Row:
    """What verify says of one pair.

    Attributes:
        name: of the case.
        kind: of the attack.
        is_right: whether the models compute the same.
        is_accepted: whether the verdict is one of those that are accepted.
        verdict: in one of our words.
        text: in the words of verify.
    """

    name: str
    kind: str
    is_right: bool
    is_accepted: bool
    verdict: str
    text: str


def main() -> int:
    """Judge every pair and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--fast", action="store_true", help="the usual size and the first number format only")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--all", action="store_true", help="print each pair, also if its verdict is accepted")
    chosen = parser.parse_args()
    wanted = [
        (one.name, size, seed, dtype)
        for one in generators()
        if not chosen.only or any(word in f"{one.kind} {one.name}" for word in chosen.only)
        for size in ((USUAL,) if chosen.fast else SIZES)
        for seed in range(chosen.seeds)
        for dtype in (one.dtypes[:1] if chosen.fast else one.dtypes)
    ]
    rows: list[Row] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as store, ProcessPoolExecutor(chosen.processes) as pool:
        os.environ["OPTIM_CACHE_DIR"] = store  # a pair is needed once: the user's cache keeps none of them
        for row in pool.map(_row, wanted, chunksize=4):
            rows.append(row)
            if len(rows) % 200 == 0 or len(rows) == len(wanted):
                seconds = time.monotonic() - began
                print(f"{len(rows)} of {len(wanted)} pairs, {seconds:.0f} s", file=sys.stderr, flush=True)
            if chosen.all or not row.is_accepted:
                fault = "" if row.is_accepted else "FALSE ALARM " if row.is_right else "ESCAPE "
                print(f"{fault}{row.kind}/{row.name}: {row.verdict}: {row.text}", flush=True)
    print("\n".join(_table(rows)))
    return int(any(not row.is_accepted for row in rows))


def _row(wanted: tuple[str, Size, int, str]) -> Row:
    from gate.judged import judged

    name, size, seed, dtype = wanted
    generator: Generator = next(one for one in generators() if one.name == name)
    case = generator.case(size, seed, dtype)
    with tempfile.TemporaryDirectory() as folder:
        found = judged(case, Path(folder))
    is_accepted = found.verdict in case.accepted
    return Row(case.name, generator.kind, generator.is_right, is_accepted, found.verdict, found.text)


def _table(rows: list[Row]) -> Iterator[str]:
    """Counts for each kind, as a table of markdown."""
    yield "| kind | pairs | verdicts | escapes | false alarms |"
    yield "|---|---|---|---|---|"
    for kind in dict.fromkeys(row.kind for row in rows):
        yield _line(kind, [row for row in rows if row.kind == kind])
    yield _line("all wrong", [row for row in rows if not row.is_right])
    yield _line("all right", [row for row in rows if row.is_right])


def _line(name: str, rows: list[Row]) -> str:
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(row.verdict for row in rows).most_common())
    faulty = [row for row in rows if not row.is_accepted]
    escapes, alarms = (sum(row.is_right is is_right for row in faulty) for is_right in (False, True))
    return f"| {name} | {len(rows)} | {verdicts} | {escapes} | {alarms} |"


if __name__ == "__main__":
    sys.exit(main())
