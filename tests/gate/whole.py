"""The whole corpus, all sizes, seeds and number formats: ``python -m gate.whole`` in ``tests/``.

    python -m gate.whole                          # ten minutes
    python -m gate.whole --only sentinels boxes   # generators or kinds with such a word in their name
    python -m gate.whole --seeds 1 --fast         # each generator once
    python -m gate.whole --seeds 1 --fast --constants   # the same with constants of the gate halved and doubled

Prints each pair whose verdict is not accepted: an *escape* is a wrong pair that passes, a *false alarm* a right pair
that does not. The exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "core" / "fixtures")]

import pytest  # noqa: E402

from gate.case import SIZES, USUAL, Generator, Size, generators  # noqa: E402 - below the path of the fixtures
from optim._engine.gate import outputs, variation  # noqa: E402


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

    @property
    def drift(self) -> float:
        """That verify says; 0 if it says none."""
        found = re.search(r"drift (\S+?),? ", self.text)
        return float(found[1]) if found else 0.0


_Pair = tuple[str, Size, int, str]
CONSTANTS = (
    (outputs, "_MOST_ROWS"),
    (outputs, "_ROWS"),
    (outputs, "_LEAST"),
    (outputs, "_STEPS"),
    (variation, "_SORTED"),
    (variation, "_ROUNDING_STEPS"),
    (variation, "_FAR"),
)


def main() -> int:
    """Judge every pair and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--fast", action="store_true", help="the usual size and the first number format only")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--all", action="store_true", help="print each pair, also if its verdict is accepted")
    parser.add_argument("--constants", action="store_true", help="the effect of each constant, as a table")
    chosen = parser.parse_args()
    wanted = [
        (one.name, size, seed, dtype)
        for one in generators()
        if not chosen.only or any(word in f"{one.kind} {one.name}" for word in chosen.only)
        for size in ((USUAL,) if chosen.fast else SIZES)
        for seed in range(chosen.seeds)
        for dtype in (one.dtypes[:1] if chosen.fast else one.dtypes)
    ]
    if chosen.constants:
        print("\n".join(_effects(wanted, chosen.processes)))
        return 0
    rows = []
    for row in _rows(wanted, chosen.processes):
        rows.append(row)
        if chosen.all or not row.is_accepted:
            fault = "" if row.is_accepted else "FALSE ALARM " if row.is_right else "ESCAPE "
            print(f"{fault}{row.kind}/{row.name}: {row.verdict}: {row.text}", flush=True)
    print("\n".join(_table(rows)))
    return int(any(not row.is_accepted for row in rows))


def _rows(wanted: Sequence[_Pair], processes: int) -> Iterator[Row]:
    """Judge pairs, in order; says how far it is on standard error."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as store, ProcessPoolExecutor(processes) as pool:
        os.environ["OPTIM_CACHE_DIR"] = store  # a pair is needed once: the user's cache keeps none of them
        for count, row in enumerate(pool.map(_row, wanted, chunksize=4), 1):
            yield row
            if count % 200 == 0 or count == len(wanted):
                print(f"{count} of {len(wanted)} pairs, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _effects(wanted: Sequence[_Pair], processes: int) -> Iterator[str]:
    """What halving and doubling a constant of the gate does to the corpus, as a table of markdown."""
    yield "| constant | value | escapes | false alarms | verdicts that change | drifts that change by 1 % or more |"
    yield "|---|---|---|---|---|---|"
    usual = list(_rows(wanted, processes))
    for module, name in CONSTANTS:
        was = getattr(module, name)
        for value in (type(was)(was / 2), type(was)(was * 2)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(module, name, value)  # processes are forks of this one
                rows = list(_rows(wanted, processes))
            faults = [[one for one in rows if not one.is_accepted and one.is_right is right] for right in (False, True)]
            escapes, alarms = (" ".join([str(len(some)), *(one.name for one in some)]) for some in faults)
            other = sum(one.verdict != two.verdict for one, two in zip(rows, usual, strict=True))
            moved = sum(abs(one.drift - two.drift) > two.drift / 100 for one, two in zip(rows, usual, strict=True))
            yield f"| `{name}` = {was:g} | {value:g} | {escapes} | {alarms} | {other} | {moved} |"


def _row(wanted: _Pair) -> Row:
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
