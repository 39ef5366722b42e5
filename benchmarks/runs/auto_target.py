"""Whether ``--target auto`` is as fast as the best of what each target finds alone, with the same seconds.

    python benchmarks/runs/auto_target.py minilm --work FOLDER                       # or digits-cnn, digits-vit
    python benchmarks/runs/auto_target.py MODEL.onnx --data SAMPLES.npz --work FOLDER --search-seconds 60

``optim run`` goes three times over one model, for cpu, for openvino and for auto, each from an empty cache. The
folders, opened by their own ``load.py``, then take turns in processes of their own, 60 rounds in random order, each of
as many runs as take a tenth of a second, five at most; a second process of the folder of auto tells how much a process
of its own makes out. It holds where no single target is faster than both by more than the 95 % interval. A target that
cannot run the model is said, and left out. Some four minutes. Needs: optim-core[cpu], optim-plugins,
optim-plugin-openvino[nncf]; for minilm and the digits what their scripts in ``models/`` need.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from runtimes import HERE, exported, instruction_sets, optimized, raced, run, say

ROUNDS, MOST_RUNS, TURN_S = 60, 5, 0.1
TARGETS = ("cpu", "openvino", "auto")
AGAIN = "auto again"


def main() -> None:
    """Run, race, and say whether it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="minilm, digits-cnn, digits-resnet, digits-vit, or a file")
    parser.add_argument("--data", type=Path, help="samples of a file, as optim run takes them (0/input, 1/input, ...)")
    parser.add_argument("--work", type=Path, required=True, help="models and results, kept")
    parser.add_argument("--search-seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    chosen.work.mkdir(parents=True, exist_ok=True)
    model, data = made(chosen.model, chosen.data, chosen.work.resolve())
    folders = {}
    for target in TARGETS:
        say(f"{model.stem}: optim run --target {target}")
        folder = chosen.work.resolve() / f"{model.stem}-{target}"
        try:
            took = optimized(model, data, folder, "--target", target, "--search-seconds", str(chosen.search_seconds))
        except SystemExit as failed:
            if target == "auto":
                raise
            print(f"{target} alone delivers nothing: {failed}")
            continue
        say(f"{target}: {took:.0f} s")
        folders[target] = folder
    say("timing them in turns")
    contenders = {"auto": "auto", AGAIN: "auto", **{name: name for name in TARGETS[:2] if name in folders}}
    opened = {name: {"kind": "folder", "path": str(folders[of])} for name, of in contenders.items()}
    plain = {"onnxruntime": {"kind": "ort", "path": str(model)}}
    rows = {row["name"]: row for row in raced({**opened, **plain}, data, rounds=ROUNDS, turn=(MOST_RUNS, TURN_S))}
    print(f"{model.stem}; instruction sets: {instruction_sets()}; load: {os.getloadavg()[0]:.1f}")
    for name, row in rows.items():
        value, low, high = row["ratio"]
        times = f"{name:12s} {row['ms']:8.2f} ms  {value:5.2f} [{low:.2f}, {high:.2f}] of auto"
        print(f"{times}, drift from it {row['drift']:.4f}")
    least = min(1.0, rows[AGAIN]["ratio"][1])
    slower = [name for name in TARGETS[:2] if name in rows and rows[name]["ratio"][2] < least]
    print(f"FAILS: {' and '.join(slower)} alone is faster" if slower else "holds: no single target is faster")


def made(name: str, data: Path | None, work: Path) -> tuple[Path, Path]:
    """The model and its samples, ``0/input`` and so on, without labels."""
    if data is not None:
        return Path(name).resolve(), data.resolve()
    if name == "minilm":
        return exported(name, work)
    model, feeds = work / f"{name}.onnx", work / f"{name}.inputs.npz"
    if not feeds.is_file():
        run([str(HERE / "models" / "digits.py"), name.removeprefix("digits-"), "--out", str(work)])
        with np.load(work / f"{name}.calib.npz") as arrays:
            np.savez(feeds, **{key: arrays[key] for key in arrays.files if key.endswith("/images")})
    return model, feeds


if __name__ == "__main__":
    main()
