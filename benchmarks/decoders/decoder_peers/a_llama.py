"""A Llama with random weights, as Hugging Face saves one: what every peer begins with."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

WORDS, LENGTH, PROMPTS = 32000, 32, 8


def prompts() -> list[list[int]]:
    """What scores are compared on; no id of the three that begin and end a text."""
    return np.random.default_rng(1).integers(3, WORDS, (PROMPTS, LENGTH)).tolist()


def main(out: Path, reference: Path) -> None:
    """Write the folder, with a tokenizer that builders ask for, and the scores of torch."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        dtype="float32",
    )
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(out)
    letters = ["<unk>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words = models.BPE(vocab={word: index for index, word in enumerate(letters)}, merges=[], unk_token="<unk>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), bos_token="<s>", eos_token="</s>")
    tokenizer.save_pretrained(out)
    with torch.no_grad():
        scores = [model(torch.tensor([prompt])).logits[0, -1].numpy() for prompt in prompts()]
    np.savez(reference, scores=np.stack(scores), parameters=sum(one.numel() for one in model.parameters()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
