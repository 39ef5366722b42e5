"""A small language model with a memory of its own kind: no transformers, no cache class.

Each layer remembers its inputs (as Transformer-XL does) and attends to them; ``mems`` is a list with one tensor for
each layer. The factories are what ``optim`` is given:

    cd examples/memory_decoder
    optim run memory_decoder:factory --state mems --dynamic input_ids=batch,sequence --dynamic mems=batch,past, -o out
"""

from __future__ import annotations

import math

import torch
from torch import nn


class Layer(nn.Module):
    """Attention over the memory and the new inputs, then a feed-forward part."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        slopes = [2.0 ** (-4.0 * (head + 1) / heads) for head in range(heads)]
        self.register_buffer("slopes", torch.tensor(slopes)[:, None, None], persistent=False)

    def forward(self, inputs: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """New hidden states, shape (batch, new, width), from those and a memory of (batch, past, width)."""
        seen = torch.cat([memory, inputs], dim=1)
        q, k, v = (self._split(f(x)) for f, x in ((self.query, inputs), (self.key, seen), (self.value, seen)))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        places = torch.arange(seen.shape[1])
        distance = places[memory.shape[1] :, None] - places[None, :]
        scores = scores - self.slopes * distance.clamp(min=0)
        scores = scores.masked_fill(distance < 0, torch.finfo(scores.dtype).min)
        attended = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        hidden = self.first(inputs + self.out(attended))
        return self.second(hidden + self.down(torch.relu(self.up(hidden))))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class MemoryDecoder(nn.Module):
    """Token ids and memories in, scores of the next token and longer memories out."""

    def __init__(self, vocabulary: int = 97, width: int = 32, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.score = nn.Linear(width, vocabulary)

    def forward(self, input_ids: torch.Tensor, mems: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """One step: ``input_ids`` (batch, new), ``mems`` one (batch, past, width) for each layer; past may be 0."""
        hidden, remembered = self.embed(input_ids), []
        for layer, memory in zip(self.layers, mems, strict=True):
            remembered.append(torch.cat([memory, hidden], dim=1))
            hidden = layer(hidden, memory)
        return self.score(hidden), remembered


def factory(layers: int = 2, width: int = 32) -> tuple[nn.Module, dict[str, object]]:
    """The model with random weights that do not collapse to one token, and an example of its inputs."""
    torch.manual_seed(1)
    model = MemoryDecoder(width=width, layers=layers)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, 1.5 / math.sqrt(parameter.shape[-1]))
    ids = torch.randint(0, 97, (2, 3))
    return model, {"input_ids": ids, "mems": [torch.randn(2, 4, width) for _ in range(layers)]}
