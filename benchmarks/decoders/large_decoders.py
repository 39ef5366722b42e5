"""What a large decoder takes on its way from a Hugging Face folder to 4 bits: memory of each process, disk, seconds.

    python benchmarks/decoders/large_decoders.py --gigabytes 2 4 --folder /somewhere/large -- --search-seconds 120

Makes a Llama with random weights for each size, a file for each layer, runs ``optim run`` on it with an empty cache and
with the options that are given after ``--``, and looks at the processes and the folders of the run while it goes.
Memory of a process is VmHWM, the most that was ever resident, mapped files included; beside it what was its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runs"))
from memory import descendants, high_water_bytes

GB = 1e9
HEADS, KEY_HEADS, VOCABULARY = 16, 4, 32000
FOUR_BITS = "ort.quantize-weights:bits=4,block_size=32,symmetric=false,method='k-quant'"
DEFAULT = ["--with", FOUR_BITS, "--max-drift", "1"]
"""Drift says little of random weights; what is to be shown is that the way is gone to its end."""
_LOOKS_A_SECOND = 10
_WORTH_TELLING = 100_000_000
"""Bytes by which the largest process or the files grew: beside the log of the run this says what takes them."""


def make(folder: Path, size_bytes: float, width: int) -> int:
    """A Llama's folder whose float32 weights are about so large; their size. One layer at a time is in memory."""
    intermediate, narrow = width * 11 // 4, width * KEY_HEADS // HEADS
    shapes = {
        "self_attn.q_proj": (width, width),
        "self_attn.k_proj": (narrow, width),
        "self_attn.v_proj": (narrow, width),
        "self_attn.o_proj": (width, width),
        "mlp.gate_proj": (intermediate, width),
        "mlp.up_proj": (intermediate, width),
        "mlp.down_proj": (width, intermediate),
    }
    of_layer = 4 * sum(rows * columns for rows, columns in shapes.values())
    layers = max(1, round((size_bytes - 8 * VOCABULARY * width) / of_layer))
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    index: dict[str, str] = {}
    total = 0

    def write(name: str, tensors: dict[str, np.ndarray]) -> None:
        nonlocal total
        save_file(tensors, folder / name, metadata={"format": "pt"})
        index.update(dict.fromkeys(tensors, name))
        total += sum(tensor.nbytes for tensor in tensors.values())

    def random(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(shape[-1] ** -0.5)

    def ones() -> np.ndarray:
        return np.ones(width, np.float32)

    for layer in range(layers):
        at = f"model.layers.{layer}"
        tensors = {f"{at}.{name}.weight": random(*shape) for name, shape in shapes.items()}
        tensors |= {f"{at}.{name}.weight": ones() for name in ("input_layernorm", "post_attention_layernorm")}
        write(f"layer-{layer:03}.safetensors", tensors)
    ends = {"model.embed_tokens.weight": random(VOCABULARY, width), "lm_head.weight": random(VOCABULARY, width)}
    write("ends.safetensors", {**ends, "model.norm.weight": ones()})
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_HEADS,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return total


def disk_bytes(folder: Path) -> int:
    """What files below a folder take; those linked more than once count once."""
    seen: dict[int, int] = {}
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                status = Path(at, name).lstat()
            except OSError:
                continue
            seen[status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


def own_bytes(pid: int) -> int:
    """What a process holds beside files that it maps, 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def measure(model: Path, work: Path, words: list[str]) -> dict[str, float | str]:
    """One run from an empty cache; its figures in bytes and seconds."""
    (work / "tmp").mkdir(parents=True)
    environment = {**os.environ, "OPTIM_CACHE_DIR": str(work / "cache"), "TMPDIR": str(work / "tmp")}
    command = [sys.executable, "-m", "optim", "run", str(model), "-o", str(work / "out"), *words]
    started = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=sys.stderr)
    high: Counter[int] = Counter()
    own: Counter[int] = Counter()
    disk = looks = 0
    while process.poll() is None:
        for pid in descendants(process.pid):
            if (now := high_water_bytes(pid)) > max(high.values(), default=0) + _WORTH_TELLING:
                print(f"[{time.monotonic() - started:6.1f} s] a process holds {now / GB:.2f} GB", file=sys.stderr)
            high[pid], own[pid] = max(high[pid], now), max(own[pid], own_bytes(pid))
        looks += 1
        if looks % _LOOKS_A_SECOND == 0:
            if (now := disk_bytes(work)) > disk + _WORTH_TELLING:
                print(f"[{time.monotonic() - started:6.1f} s] files take {now / GB:.2f} GB", file=sys.stderr)
            disk = max(disk, now)
        time.sleep(1 / _LOOKS_A_SECOND)
    seconds = time.monotonic() - started
    report = work / "out" / "report.json"
    said = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    return {
        "seconds": seconds,
        "high": max(high.values()),
        "own": max(own.values()),
        "parent": high[process.pid],
        "disk": max(disk, disk_bytes(work)),
        "result": float(disk_bytes(work / "out")),
        "said": f"{said['status']}: {said['reason']}" if said else f"exit {process.returncode}",
    }


def main() -> int:
    """Measure each size, and print a row for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", nargs="+", type=float, default=[2.0, 4.0])
    parser.add_argument("--folder", type=Path, required=True, help="a new folder for models, cache and results")
    parser.add_argument("--width", type=int, default=2048, help="of a layer: with less there are more of them")
    parser.add_argument("words", nargs="*", help="options of optim run, after --; 4 bits by k-quant if there are none")
    chosen = parser.parse_args()
    if chosen.folder.exists():
        parser.error(f"{chosen.folder} is there already, and would be removed at the end: name a folder that is not")
    print("| model | run | largest process, VmHWM | its own | parent | extra disk, of the model | result | verdict |")
    print("|---|---|---|---|---|---|---|---|")
    for size in chosen.gigabytes:
        try:
            total = make(chosen.folder / "model", size * GB, chosen.width)
            row = measure(chosen.folder / "model", chosen.folder / "work", chosen.words or DEFAULT)
        finally:
            shutil.rmtree(chosen.folder, ignore_errors=True)
        memory = " | ".join(f"{float(row[name]) / GB:.2f} GB" for name in ("high", "own", "parent"))
        disk = f"{float(row['disk']) / total:.2f} | {float(row['result']) / GB:.2f} GB"
        print(f"| {total / GB:.2f} GB | {row['seconds']:.0f} s | {memory} | {disk} | {row['said']} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
