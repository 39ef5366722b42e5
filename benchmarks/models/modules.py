"""The torch modules behind models of the table, compiled by torch.compile: what PyTorch itself makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn


def compiled(source: str, options: dict[str, Any]) -> Callable[[dict[str, Any]], list[Any]]:
    """A module that takes a sample and returns its outputs.

    Args:
        source: ``minilm``, a name of exports.py, or the folder of a Hugging Face decoder.
        options: of torch.compile.
    """
    torch.set_grad_enabled(False)
    module, nested = opened(source)
    made = torch.compile(module, **options)

    def run(sample: dict[str, Any]) -> list[Any]:
        given: list[Any] = [torch.from_numpy(array) for array in sample.values()]
        if nested:
            given = [*given[:-nested], given[-nested:]]
        found = made(*given)
        return [one.numpy() for one in (found if isinstance(found, (tuple, list)) else [found])]

    return run


def opened(source: str) -> tuple[nn.Module, int]:
    """A module, and how many inputs at the end it takes as one list."""
    if source == "minilm":
        from sentences import package
        from transformers import BertModel

        model = BertModel.from_pretrained(package(), attn_implementation="sdpa", add_pooling_layer=False)
        return Hidden(model).eval(), 0
    if Path(source).is_dir():
        from transformers import LlamaForCausalLM
        from wrapped import Decoder

        model = LlamaForCausalLM.from_pretrained(source, attn_implementation="sdpa")
        layers = model.config.num_hidden_layers
        return Decoder(model, layers).eval(), 2 * layers
    from exports import seeded

    built = seeded(source, outliers=True)
    return built.module, built.nested


class Hidden(nn.Module):
    """An encoder that returns its last hidden state alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> Any:
        return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
