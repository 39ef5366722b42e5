"""A small Llama that has learned the language of docs/, byte by byte: a model whose perplexity says something.

    python benchmarks/decoders/text_decoder.py OUT                 # two minutes on two quiet cores; prints where it is
    python benchmarks/decoders/four_bits.py OUT/exported/model.onnx --perplexity   # bytes are its tokens

It is trained on the pages that ``four_bits.py`` calibrates on, and judged there on the others. The seed is fixed.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from four_bits import texts

import optim

BATCH, LENGTH, RATE = 16, 128, 3e-3


def train(folder: Path, steps: int, learned: str, judged: str) -> float:
    """Train on a text, and write as a Hugging Face folder.

    Args:
        folder: to write.
        steps: of training.
        learned: the text.
        judged: another one.

    Returns:
        The perplexity of a byte of ``judged``.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        dtype="float32",
    )
    model = LlamaForCausalLM(config)
    data, others = (torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).long() for text in (learned, judged))
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * step / steps))
    )
    places = np.random.default_rng(0)
    for step in range(steps):
        starts = places.integers(0, len(data) - LENGTH, BATCH)
        ids = torch.stack([data[start : start + LENGTH] for start in starts])
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: perplexity of a byte {loss.exp():.2f}", file=sys.stderr)
    with torch.no_grad():
        ids = others[: 64 * LENGTH].reshape(64, LENGTH)
        perplexity = float(model.eval()(ids, labels=ids).loss.exp())
    print(f"on text that it has not seen: {perplexity:.2f}", file=sys.stderr)
    model.save_pretrained(folder)
    return perplexity


def main() -> int:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=500)
    chosen = parser.parse_args()
    train(chosen.out, chosen.steps, *texts())
    optim.export(chosen.out, chosen.out / "exported")
    (graph,) = (chosen.out / "exported").rglob("*.onnx")
    print(graph)
    return 0


if __name__ == "__main__":
    sys.exit(main())
