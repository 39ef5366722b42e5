"""optim and its peers on the same models, in one run: speed, drift, size, time and memory.

    python benchmarks/bench.py                                    # everything; hours
    python benchmarks/bench.py --models digits-cnn --peers ort-dynamic onnxslim
    python benchmarks/bench.py --steps make tools --models gpt2-dynamo    # a part; later parts go on from it
    python benchmarks/bench.py --steps report                     # tables and plot of what has been measured

Steps: ``make`` the models, run the ``tools`` on them, ``time`` all results of a model interleaved with the original and
compare them, and ``report``. What is made already is not made again, unless ``--again`` says so. Everything lies in
``.cache/bench``, results in a folder for each kind of processor; ``report`` writes the section of this kind, and leaves
those of others as they are. Tools see calibration samples only; what is timed and compared is other data.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measured import run
from plan import HERE, MODELS, OLIVE, PYTHON, BenchModel, results_folder
from results import print_tables, write_results

STEPS = ("make", "tools", "time", "report")
FRESH = 3
"""Races for each group of results, each in fresh processes."""

AT_ONCE_BYTES = 8 << 30
"""Models open together while they are timed, weights and what a session makes of them."""


def main() -> int:
    """Do the steps that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=list(MODELS), metavar="MODEL")
    parser.add_argument("--peers", nargs="+", metavar="PEER", help="only these; optim always runs unless --no-optim")
    parser.add_argument("--no-optim", action="store_true")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--search-seconds", default="60")
    parser.add_argument("--seconds", type=float, default=30.0, help="of timing, for each model and heat")
    parser.add_argument("--timeout", type=float, default=1800.0, help="for one tool on one model, in seconds")
    parser.add_argument("--again", action="store_true", help="also what is there already")
    chosen = parser.parse_args()
    peers = known_peers() if chosen.peers is None else {name: known_peers()[name] for name in chosen.peers}
    for name in chosen.models if chosen.steps != ["report"] else ():
        model = MODELS[name]
        if "make" in chosen.steps:
            make(model, again=chosen.again)
        if "tools" in chosen.steps:
            for job in jobs(model, peers, chosen):
                apply(model, *job, timeout_s=chosen.timeout, again=chosen.again)
        if "time" in chosen.steps:
            measure(model, chosen.seconds)
            print_tables([name])
    if "report" in chosen.steps:
        write_results()
    return 0


def known_peers() -> dict[str, str]:
    """Every peer with what it is called in tables."""
    listed = subprocess.run([str(PYTHON), str(HERE / "peers" / "peer.py"), "--list"], capture_output=True, check=True)
    found: dict[str, str] = json.loads(listed.stdout)
    sys.path.insert(0, str(HERE / "peers"))
    from olive_peer import LABELS

    return {**found, **LABELS}


def make(model: BenchModel, *, again: bool) -> None:
    """Train or export a model."""
    folder = model.path.parent
    if again or not model.path.is_file() or not model.feeds_path.is_file():
        print(f"making {model.name}", flush=True)
        script, *arguments = model.maker
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([str(PYTHON), str(HERE / script), *arguments, "--out", str(folder)], check=True)
    if model.unseen_path != model.feeds_path and (again or not model.unseen_path.is_file()):
        command = [str(PYTHON), str(HERE / "models" / "unseen.py"), model.feeds, "--out", str(folder)]
        subprocess.run(command, check=True)


def jobs(model: BenchModel, peers: dict[str, str], chosen: argparse.Namespace) -> list[tuple[str, str, list[str]]]:
    """What is run on a model: name, label and command; ``{out}`` stands for the folder of its result."""
    known = ["--type", model.kind, "--heads", str(model.heads), "--hidden", str(model.hidden)]
    found = []
    for name, label in peers.items():
        python, script = (OLIVE, "olive_peer.py") if name.startswith("olive") else (PYTHON, "peer.py")
        command = [str(python), str(HERE / "peers" / script), name, str(model.path), "{out}"]
        found.append((name, label, [*command, "--calib", str(model.calib_path), *known]))
    for budget in () if chosen.no_optim else model.budgets:
        words = " ".join(budget).replace("--", "")
        command = [str(PYTHON), "-m", "optim", "run", str(model.path), "-o", "{out}", *budget]
        data = ["--data", str(model.calib_path), "--search-seconds", chosen.search_seconds]
        found.append((f"optim {words}", f"optim, {words}", [*command, *data]))
    return found


def apply(model: BenchModel, name: str, label: str, command: list[str], *, timeout_s: float, again: bool) -> None:
    """Run a tool on a model, from an empty cache, and note what that took."""
    out = results_folder(model.name) / name.replace(" ", "_")
    record = out / "applied.json"
    if record.is_file() and not again:
        return
    if name.startswith("olive") and not OLIVE.is_file():
        print(f"{name} left out: there is no {OLIVE}; make bench makes it")
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    print(f"{model.name}: {name}", flush=True)
    cache = out / "cache"
    done = run(
        [part.replace("{out}", str(out / "made")) for part in command],
        out / "log.txt",
        timeout_s,
        {"OPTIM_CACHE_DIR": str(cache)},
    )
    shutil.rmtree(cache, ignore_errors=True)
    for folder in (out / "made" / "work", out / "made" / "work-cache"):
        shutil.rmtree(folder, ignore_errors=True)
    for left in set(out.glob("*.data")) | set(out.glob("*.onnx")):
        left.unlink()
    record.write_text(json.dumps({"name": name, "label": label, **asdict(done)}, indent=1))


def measure(model: BenchModel, seconds: float) -> None:
    """Compare every result of a model, and time those that run, interleaved with the original."""
    rows: list[dict[str, Any]] = []
    ready: list[tuple[dict[str, Any], Path]] = []
    for record in sorted(results_folder(model.name).glob("*/applied.json")):
        row = json.loads(record.read_text())
        made = record.parent / "made"
        rows.append(row)
        if not (made / "model.onnx").is_file():
            row["error"] = last_line(row)
            continue
        path = made if (made / "session.json").is_file() else made / "model.onnx"
        compare(model, row, path)
        if not row.get("error"):
            ready.append((row, path))
    base: dict[str, Any] = {"name": "onnxruntime", "label": "onnxruntime, defaults", "latency_ratio": 1.0, "drift": 0.0}
    for heat in heats(model, ready):
        print(f"{model.name}: timing {len(heat)} results", flush=True)
        paths = [str(model.path), *(str(path) for _, path in heat)]
        arguments = (*paths, "--data", str(model.feeds_path), "--seconds", str(seconds / FRESH))
        pooled = pool([optim("bench", *arguments)["models"] for _ in range(FRESH)])
        base |= pooled[0]
        for (row, _), found in zip(heat, pooled[1:], strict=True):
            row |= found
    if model.metric:
        compare(model, base, model.path)
    measured = {"model": model.name, "races": FRESH, "race_s": seconds / FRESH, "rows": [base, *rows]}
    (results_folder(model.name) / "measured.json").write_text(json.dumps(measured, indent=1))


def pool(races: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """By model, what several races in fresh processes came to: their median, and an interval that holds all of theirs.

    Two processes with the same model differ by some percent (where its memory lies), which no single race can see.
    """
    found = []
    for entries in zip(*races, strict=True):
        failed = next((entry["error"] for entry in entries if entry["error"]), None)
        if failed:
            found.append({"error": failed})
            continue
        middle = sorted(entries, key=lambda entry: entry["latency_ratio"])[len(entries) // 2]
        ends = [entry["latency_ratio_ci"] for entry in entries]
        interval = [min(low for low, _ in ends), max(high for _, high in ends)] if all(ends) else None
        kept = ("latency_ms", "latency_ratio", "size_bytes", "peak_memory_bytes")
        found.append({**{key: middle[key] for key in kept}, "latency_ratio_ci": interval})
    return found


def heats(model: BenchModel, ready: list[tuple[dict[str, Any], Path]]) -> list[list[tuple[dict[str, Any], Path]]]:
    """So many results at a time as fit into memory; optim's are spread over them."""
    each = 3 * model.path.stat().st_size + (100 << 20)
    width = max(2, min(12, AT_ONCE_BYTES // each))
    count = -(-len(ready) // width)
    return [ready[i::count] for i in range(count)]


def compare(model: BenchModel, row: dict[str, Any], path: Path) -> None:
    """Drift, and the task metric where the model has one."""
    metric = ["--metric", model.metric] if model.metric else []
    found = optim("verify", str(model.path), str(path), "--data", str(model.unseen_path), "--max-drift", "1e9", *metric)
    if "error" in found:
        row["error"] = str(found["error"].get("cause") or found["error"]["what"])[:160]
        return
    row["drift"], row["task"] = found["drift"]["relative_error"], found.get("task")
    if row["drift"] is None:
        row["error"] = found["reason"]


def optim(*arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    command = [str(PYTHON), "-m", "optim", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(done.stderr) from None
    return found


def last_line(row: dict[str, Any]) -> str:
    """Why there is no model."""
    if row["status"] is None:
        return "it took too long"
    lines = [line.strip() for line in row["tail"].splitlines() if line.strip()]
    return lines[-1][:120] if lines else f"exit status {row['status']}"


if __name__ == "__main__":
    sys.exit(main())
