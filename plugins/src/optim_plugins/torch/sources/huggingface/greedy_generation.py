"""Greedy generation by transformers itself, which exported decoders are held against token for token."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from optim.arrays import Array, Feeds
from optim_plugins.torch.arguments.flat_module import to_array, to_tensor


def generation_facts(model: Any) -> dict[str, Any]:
    """Ids that begin, end and pad what a model generates, as far as it tells."""
    config = getattr(model, "generation_config", None)
    text = model.config.get_text_config()

    def told(name: str) -> Any:
        value = getattr(config, name, None)
        return getattr(text, name, None) if value is None else value

    eos, pad = told("eos_token_id"), told("pad_token_id")
    ends = list(eos) if isinstance(eos, list | tuple) else [] if eos is None else [eos]
    padding = pad if isinstance(pad, int) and pad >= 0 else (ends[0] if ends else 0)
    facts: dict[str, Any] = {"eos": ends, "pad": padding}
    context = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None)
    if isinstance(context, int) and not model.config.is_encoder_decoder:
        facts["context"] = context
    start = told("decoder_start_token_id")
    if model.config.is_encoder_decoder:
        facts["decoder_start"] = start if start is not None else told("bos_token_id") or 0
    return facts


def greedy(model: Any, prompt: Feeds, *, new_tokens: int, skip: int) -> Array:
    """New tokens of ``generate`` without sampling, beams or processors, int64, shape (batch, tokens).

    Args:
        model: with ``generate``.
        prompt: tensors by name.
        new_tokens: at most so many.
        skip: tokens of the prompt that ``generate`` returns before them.
    """
    from transformers import GenerationConfig
    from transformers.generation import GenerationMixin

    facts = generation_facts(model)
    plain = GenerationConfig(
        do_sample=False,
        num_beams=1,
        max_new_tokens=max(1, new_tokens),
        use_cache=True,
        eos_token_id=facts["eos"] or None,
        pad_token_id=facts["pad"],
        decoder_start_token_id=facts.get("decoder_start"),
        bos_token_id=facts.get("decoder_start"),
    )
    before = model.generation_config
    model.generation_config = plain
    try:
        with torch.inference_mode():
            tensors = {name: to_tensor(array) for name, array in prompt.items()}
            found = GenerationMixin.generate(model, **tensors, generation_config=plain)
    finally:
        model.generation_config = before
    return to_array(found)[:, skip:].astype(np.int64)
