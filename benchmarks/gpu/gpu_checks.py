"""What was built for NVIDIA's GPUs without one, held against one: a row for each claim, in some minutes.

    python benchmarks/gpu/gpu_checks.py --work FOLDER                       # with a GPU; the table is FOLDER/checks.md
    python benchmarks/gpu/gpu_checks.py --work FOLDER --only options/cuda memory
    python benchmarks/gpu/as_gpu.py python benchmarks/gpu/gpu_checks.py --work FOLDER --tiny # without: see as_gpu.py

Each check is a process of its own with a limit, some at once, so that a crash costs no other's rows; the table is
written anew after each, and keeps what earlier commands found on the same device. ``chains/...`` apply passes to a
model of the benchmark, open what comes of it on the GPU, hold it against the CPU's float32 and time it, unsearched:
first figures, not the benchmark. Where a GPU is pretended nothing is held against the CPU or timed. Ends with status 1
where a row does not hold. Models are exported into FOLDER where they are not there: export them beforehand where time
on the GPU is dear.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from gpu import ENCODER, MODELS, device_text, unavailable
from gpu_check_rows import CHAINS, COMPUTES, Row, chain_rows
from gpu_check_settings import graph_rows, memory_rows, option_rows, run_rows

HERE = Path(__file__).resolve().parent
LIMIT_S = 240.0
"""Of one check: an engine of TensorRT takes up to a minute, and each model has some."""

TARGETS = tuple(CHAINS)
NAMES = (
    *(f"options/{target}" for target in TARGETS),
    *(f"memory/{target}" for target in TARGETS),
    *(f"graph/{target}" for target in TARGETS),
    *(f"chains/{target}/{model}" for target in TARGETS for model in MODELS),
    *(f"run/{target}" for target in TARGETS),
)


def main() -> int:
    """All checks, or one of them for the process that runs all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="+", help=f"beginnings of names: {', '.join(NAMES)}")
    parser.add_argument("--tiny", action="store_true", help="a narrow layer of each model")
    parser.add_argument(
        "--at-once", type=int, default=4, help="checks at a time; times are of their kernels only with 1"
    )
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds of one check")
    parser.add_argument("--rows-of", choices=NAMES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rows_of:
        for row in rows(asked.rows_of, asked.work, tiny=asked.tiny):
            print(json.dumps(dataclasses.asdict(row)), flush=True)
        return 0
    asked.work.mkdir(parents=True, exist_ok=True)
    absent = unavailable()
    for target, reason in absent.items():
        print(f"target {target}: {reason or 'available'}", flush=True)
    chosen = [
        name
        for name in NAMES
        if not absent[name.split("/")[1]]
        and (COMPUTES or name != "memory/tensorrt")  # a pretended engine knows no sizes that its inputs do not name
        and (not asked.only or any(name.startswith(one) for one in asked.only))
    ]
    if not chosen:
        return 5
    exported(sorted({name.split("/")[2] for name in chosen if name.startswith("chains")} | {ENCODER}), asked)
    found = known(asked.work)
    with ThreadPoolExecutor(asked.at_once) as pool:
        waiting = {pool.submit(checked, name, asked): name for name in chosen}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            for row in found[waiting[done]]:
                print(f"{'holds' if row.holds else 'FAILS'}  {waiting[done]}: {row.what}: {row.said}", flush=True)
            keep(found, asked.work)
    wrong = [row for name in chosen for row in found[name] if not row.holds]
    print(f"{sum(len(found[name]) for name in chosen)} rows, {len(wrong)} do not hold: {asked.work / 'checks.md'}")
    return 1 if wrong else 0


def known(work: Path) -> dict[str, list[Row]]:
    """Rows of checks that ran here before, on the same device."""
    path = work / "checks.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if kept.get("where") != where():
        return {}
    return {name: [Row(**row) for row in rows] for name, rows in kept["checks"].items() if name in NAMES}


def keep(found: dict[str, list[Row]], work: Path) -> None:
    """The table, and the same for later checks."""
    checks = {name: [dataclasses.asdict(row) for row in several] for name, several in found.items()}
    (work / "checks.json").write_text(json.dumps({"where": where(), "checks": checks}), encoding="utf-8")
    (work / "checks.md").write_text(table(found), encoding="utf-8")


def where() -> str:
    """On what the checks run."""
    return device_text() if COMPUTES else "a pretended GPU: nothing was computed"


def exported(models: list[str], asked: argparse.Namespace) -> None:
    """The models that are not there yet."""
    for name in models:
        if not (asked.work / f"{name}-dynamo.onnx").is_file():
            words = [str(HERE.parent / "models" / "exports.py"), name, "--out", str(asked.work)]
            subprocess.run([sys.executable, *words, *(["--tiny"] if asked.tiny else [])], check=True)


def checked(name: str, asked: argparse.Namespace) -> list[Row]:
    """The rows of one check, from a process of its own."""
    words = [str(HERE / "gpu_checks.py"), "--work", str(asked.work), "--rows-of", name, *(["--tiny"] * asked.tiny)]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=asked.limit, check=False
        )
        said, status = done.stdout, done.returncode
        ended = " ".join(done.stderr.split())[-300:] if status else ""
    except subprocess.TimeoutExpired as late:
        said, status, ended = (late.stdout or b"").decode(errors="replace"), 1, f"it took longer than {asked.limit:g} s"
    found = [Row(**json.loads(line)) for line in said.splitlines() if line.startswith('{"what"')]
    if status or not found:
        found.append(Row("the check itself", False, ended or "it has no rows"))
    return [*found, Row("seconds", True, f"{time.monotonic() - begun:.0f}")]


def rows(name: str, work: Path, *, tiny: bool) -> Iterator[Row]:
    """What a check finds, row by row: what is ended for its time has told what it found before."""
    kind, target, *model = name.split("/")
    if kind == "chains":
        return chain_rows(model[0], target, work, tiny=tiny)
    if kind == "run":
        return run_rows(target, work)
    return {"options": option_rows, "memory": memory_rows, "graph": graph_rows}[kind](target)


def table(found: dict[str, list[Row]]) -> str:
    """All rows that are known."""
    lines = [f"Checked on {where()}.", "", "| check | what | holds | |", "|---|---|---|---|"]
    for name in sorted(found, key=NAMES.index):
        lines += [f"| {name} | {row.what} | {'yes' if row.holds else '**no**'} | {row.said} |" for row in found[name]]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
