"""Models of transformers as exporters take them: tensors in, a tuple of tensors out."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import DynamicCache


class Encoder(nn.Module):
    """A sentence encoder."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        """Hidden states and what the pooler makes of them."""
        made = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return made.last_hidden_state, made.pooler_output


class Decoder(nn.Module):
    """A decoder whose past is one list: key and value of each layer in turn."""

    def __init__(self, model: nn.Module, layers: int) -> None:
        super().__init__()
        self.model = model
        self.layers = layers

    def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any, past: Any) -> Any:
        """Logits, then key and value of each layer in turn."""
        cache = DynamicCache()
        for layer in range(self.layers):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        made = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
        )
        present = [half for layer in made.past_key_values.layers for half in (layer.keys, layer.values)]
        return made.logits, *present
