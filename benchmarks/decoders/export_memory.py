"""Memory that exporting a decoder takes, by optim and the naive way: resident, beyond what the imports take.

usage: python benchmarks/decoders/export_memory.py [--layers 24] [--hidden 1024] [--json]

Makes a Llama with random weights in a temporary folder (1.1 GB by default), and exports it in a process of its own each
way. The naive way reads the weights into memory, exports, and saves one model with external data.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

WAYS = ("optim", "optim, linked", "naive")


def main() -> None:
    """Measure every way, or the one that a process of its own is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.way:
        print(json.dumps(measure(asked.way, asked.folder)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "llama"
        size = make(folder, asked.layers, asked.hidden)
        rows = [run(way, folder, size) for way in WAYS]
    if asked.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"a Llama of {asked.layers} layers, {size / 1e9:.2f} GB")
    for row in rows:
        print(f"{row['way']:<15}{row['peak_bytes'] / 1e6:8.0f} MB{row['share']:8.2f} of its size")


def make(folder: Path, layers: int, hidden: int) -> int:
    """A folder with random weights; their size in bytes."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8000,
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 256,
        max_position_embeddings=2048,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return sum(parameter.nbytes for parameter in model.parameters())


def run(way: str, folder: Path, size: int) -> dict[str, object]:
    """One way, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--way", way, "--folder", str(folder)], capture_output=True, text=True, check=True
    )
    peak = json.loads(done.stdout.splitlines()[-1])["peak_bytes"]
    return {"way": way, "peak_bytes": peak, "share": peak / size}


def measure(way: str, folder: Path) -> dict[str, int]:
    """Peak memory of exporting, in this process."""
    import torch.onnx._internal.exporter._core  # noqa: F401 - likewise
    import transformers.models.llama.modeling_llama  # noqa: F401 - imported before the measurement begins

    from optim.jobs.resources import peak_memory_bytes

    before = peak_memory_bytes()
    with tempfile.TemporaryDirectory() as scratch:
        if way == "naive":
            naive(folder, Path(scratch) / "model.onnx")
        else:
            by_optim(folder, Path(scratch), "link" if "linked" in way else "copy")
    return {"peak_bytes": peak_memory_bytes() - before}


def by_optim(folder: Path, scratch: Path, weights: str) -> None:
    """The job that ``optim export`` runs."""
    from dataclasses import replace
    from types import SimpleNamespace

    from optim import SourceRequest
    from optim._engine.plugins.registry import load_registry
    from optim._engine.sources.exported import Choice
    from optim_plugins.export import export_job

    target = replace(load_registry().target("cpu"), probe=None)
    request = export_job.Request(SourceRequest(str(folder), weights=weights), target, Choice(), scratch / "store")
    export_job.run(request, SimpleNamespace(event=lambda *_, **__: None))


def naive(folder: Path, path: Path) -> None:
    """What a tutorial says: load, trace with a past, save."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoConfig, DynamicCache, LlamaForCausalLM

    config = AutoConfig.from_pretrained(folder)
    model = LlamaForCausalLM(config)
    state = {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}
    model.load_state_dict(state)
    layers = config.num_hidden_layers

    class Wrapper(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
            ids, mask, *past = tensors
            cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
            found = self.model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
            return (found.logits, *(t for layer in found.past_key_values.layers for t in (layer.keys, layer.values)))

    past = [torch.randn(2, config.num_key_value_heads, 5, 64) for _ in range(2 * layers)]
    example = [torch.ones(2, 3, dtype=torch.long), torch.ones(2, 8, dtype=torch.long), *past]
    dimensions = [{0: "batch", 1: "sequence"}, {0: "batch", 1: "total"}, *[{0: "batch", 2: "past"}] * len(past)]
    with torch.no_grad():
        torch.onnx.export(
            Wrapper().eval(), (example,), str(path), dynamo=True, dynamic_shapes=(dimensions,), external_data=True
        )


if __name__ == "__main__":
    main()
