"""What an adapter that is fed costs, token by token, against the same adapter merged into the weights.

    python benchmarks/decoders/adapters.py [--hidden 512] [--layers 4] [--rounds 40]
    python benchmarks/decoders/adapters.py --drift [--hidden 256] [--layers 2]

A Llama with random weights is exported twice, with an adapter of peft merged and with it extracted; peft and torch must
be installed. Both generate in turns, each token of the extracted one with another of two adapters, on one thread and
one session. Printed is the ratio of the medians of all tokens; at most 1.15 is the aim, and a new adapter opens no new
session.

With ``--drift`` nothing is timed: the base is rounded to 4 bits, and what that changes is compared on the same texts
without an adapter, with both, and with others of their sizes, each against floats with the same adapter: over all texts
as one array, and by the text, as the gate looks at them, with what it foresees of the next one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import optim
from optim.onnx import describe_model, open_session
from optim_plugins.adapted import AdaptedSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from samples import drift
from samples import drifts as drifts_of

TARGETS = ["q_proj", "v_proj"]
ONE_THREAD = optim.SessionConfig({"intra_op_num_threads": 1})


def main() -> int:
    """Export, generate in turns, print."""
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--hidden", type=int, default=512)
    words.add_argument("--layers", type=int, default=4)
    words.add_argument("--rounds", type=int, default=40, help="of some tokens each")
    words.add_argument("--drift", action="store_true", help="what 4 bits in the base change with each adapter")
    asked = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        merged, extracted, files = make_models(Path(folder), asked.hidden, asked.layers)
        if asked.drift:
            figures = drifts(extracted, files, Path(folder))
        else:
            figures = measure(merged, extracted, files, asked.rounds)
    print(json.dumps(figures, indent=2))
    return 0


def make_models(folder: Path, hidden: int, layers: int) -> tuple[Path, Path, list[Path]]:
    """The merged graph, the extracted one, and two adapters for it."""
    import peft
    import torch
    import transformers

    from optim_plugins.adapted import write_adapter
    from optim_plugins.adapters.commands.extracting import write_extracted
    from optim_plugins.adapters.convert.convert import convert

    config = transformers.LlamaConfig(
        vocab_size=2000,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=8,
    )
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "base")
    for rank in (4, 8):
        base = transformers.LlamaForCausalLM.from_pretrained(folder / "base")
        adapted = peft.get_peft_model(
            base, peft.LoraConfig(r=rank, target_modules=TARGETS, init_lora_weights=False), adapter_name="default"
        )
        adapted.peft_config["default"].base_model_name_or_path = str(folder / "base")
        adapted.save_pretrained(folder / f"rank{rank}")
    optim.export(folder / "rank4", folder / "merged")
    optim.export(folder / "rank4", folder / "kept", without=("torch.merge-lora",))
    made = write_extracted(folder / "kept" / "model.onnx", folder / "extracted")
    other = folder / "rank8.onnx_adapter"
    write_adapter(convert(folder / "rank8", describe_model(made.model).adapters).adapter, other)
    return folder / "merged" / "model.onnx", made.model, [made.adapter, other]


def measure(merged: Path, extracted: Path, files: list[Path], rounds: int) -> dict[str, Any]:
    """Seconds of tokens, in turns, and what switching did."""
    plain = open_session(merged, ONE_THREAD)
    session = AdaptedSession(open_session(extracted, ONE_THREAD), describe_model(extracted).adapters)
    opened = count_sessions()
    feeds = first_feeds(plain)
    seconds: dict[str, list[float]] = {"merged": [], "switched": [], "stayed": []}
    for turn in range(rounds + 5):
        for token in range(8):
            lanes = {"merged": (), "switched": (files[token % 2],), "stayed": (files[0],)}
            for name in np.random.default_rng(turn * 8 + token).permutation(list(lanes)):
                begun = time.perf_counter()
                if name == "merged":
                    plain.run(["logits"], feeds)
                else:
                    session.run(["logits"], feeds, adapter=lanes[name])
                if turn >= 5:
                    seconds[name].append(time.perf_counter() - begun)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    return {
        "token_ms": {name: round(1000 * found, 4) for name, found in medians.items()},
        "ratio_switched": round(medians["switched"] / medians["merged"], 3),
        "ratio_stayed": round(medians["stayed"] / medians["merged"], 3),
        "tokens": len(seconds["merged"]),
        "new_sessions": len(opened),
    }


TEXTS, LENGTH, OTHERS = 6, 64, 4


def drifts(extracted: Path, files: list[Path], folder: Path) -> dict[str, Any]:
    """Drift by adapter: over all texts at once, of the worst, and foreseen; the first two also over the base's."""
    from optim.onnx import OnnxRuntimeBackend
    from optim_plugins.adapted import read_adapter
    from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights
    from optim_testing import Trial

    class Cpu(OnnxRuntimeBackend):
        name = "ort"

    target = optim.Target("cpu", "ort", "CPUExecutionProvider", device="CPU")
    trial = Trial.of(extracted, folder / "trial", target, Cpu())
    options = trial.options(QuantizeWeights, {"bits": 4, "block_size": 32})
    rounded = trial.apply(QuantizeWeights(), trial.model, options).model
    plain, four = open_session(trial.model.path, ONE_THREAD), open_session(rounded.path, ONE_THREAD)
    adapters: dict[str, dict[str, np.ndarray]] = {"none": {}}
    for file in files:
        arrays = dict(read_adapter(file).arrays)
        rank = min(min(array.shape) for array in arrays.values())
        adapters[f"rank {rank}"] = arrays
        for seed in range(OTHERS):
            adapters[f"rank {rank}, other {seed}"] = others_like(arrays, seed)
    texts = [text_feeds(plain, seed) for seed in range(TEXTS)]
    found = {name: figures_of(plain, four, [{**text, **arrays} for text in texts]) for name, arrays in adapters.items()}
    base = found["none"]
    return {
        name: {key: round(value, 3) for key, value in each.items()}
        | {f"{key}_of_base": round(each[key] / base[key], 3) for key in ("whole", "worst")}
        for name, each in found.items()
    }


def figures_of(plain: Any, four: Any, texts: list[dict[str, np.ndarray]]) -> dict[str, float]:
    """Of the logits, relative to those in floats with the same adapter."""
    from optim.drift import foresee

    pairs = [tuple(session.run(["logits"], feeds)[0] for session in (plain, four)) for feeds in texts]
    each = drifts_of([({"logits": one}, {"logits": other}) for one, other in pairs])
    wanted, got = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    whole = drift([({"logits": wanted}, {"logits": got})])
    return {"whole": whole, "worst": max(each), "foreseen": foresee(each)}


def others_like(arrays: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Random arrays of the same shapes and spread."""
    random = np.random.default_rng(seed)
    return {name: random.normal(0, array.std(), array.shape).astype(array.dtype) for name, array in arrays.items()}


def text_feeds(session: Any, seed: int) -> dict[str, np.ndarray]:
    """Random tokens behind no past."""
    ids = np.random.default_rng(seed).integers(0, 2000, (1, LENGTH))
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(LENGTH)[None]}
    empty = {
        value.name: np.zeros([1, value.shape[1], 0, value.shape[3]], np.float32)
        for value in session.get_inputs()
        if "past" in value.name
    }
    return {**empty, **{value.name: known[value.name] for value in session.get_inputs() if value.name in known}}


def count_sessions() -> list[str]:
    """A list that grows with each session that is opened from now on."""
    found: list[str] = []
    open_one = onnxruntime.InferenceSession.__init__

    def counted(self: Any, path: Any, *more: Any, **named: Any) -> None:
        found.append(str(path))
        open_one(self, path, *more, **named)

    onnxruntime.InferenceSession.__init__ = counted
    return found


def first_feeds(session: Any) -> dict[str, np.ndarray]:
    """One token behind a past of 32."""
    past = 32
    sizes = {value.name: value.shape for value in session.get_inputs()}
    feeds = {}
    for name, shape in sizes.items():
        if "past" in name:
            feeds[name] = np.zeros([1, shape[1], past, shape[3]], np.float32)
    known = {"input_ids": np.array([[5]]), "attention_mask": np.ones((1, past + 1), np.int64)}
    known["position_ids"] = np.array([[past]])
    return {**feeds, **{name: array for name, array in known.items() if name in sizes}}


if __name__ == "__main__":
    sys.exit(main())
