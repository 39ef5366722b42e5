"""Models of transformers with two layers and random weights that do not collapse to one token, as folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf

TEXT = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
BART = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

MODELS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
    ),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**TEXT, num_key_value_heads=2)),
    "llama-64": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**{**TEXT, "hidden_size": 64, "intermediate_size": 96}, num_key_value_heads=2)
    ),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**TEXT, num_key_value_heads=2, head_dim=8)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(
        hf.Gemma3TextConfig(
            **TEXT,
            num_key_value_heads=1,
            head_dim=8,
            sliding_window=6,
            layer_types=["sliding_attention", "full_attention"],
        )
    ),
    "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**TEXT, **SPECIAL, num_key_value_heads=2)),
    "t5": lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
    ),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**BART, max_position_embeddings=64)),
    "whisper": lambda: hf.WhisperForConditionalGeneration(
        hf.WhisperConfig(
            **BART,
            **SPECIAL,
            max_source_positions=50,
            max_target_positions=64,
            num_mel_bins=16,
            decoder_start_token_id=3,
        )
    ),
    "vit": lambda: hf.ViTForImageClassification(
        hf.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            image_size=32,
            patch_size=8,
            num_labels=5,
        )
    ),
    "resnet": lambda: hf.ResNetForImageClassification(
        hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=5)
    ),
    "wav2vec2": lambda: hf.Wav2Vec2ForCTC(
        hf.Wav2Vec2Config(
            vocab_size=20,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            conv_dim=[16, 16],
            conv_stride=[5, 4],
            conv_kernel=[10, 8],
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
        )
    ),
    "roberta": lambda: hf.RobertaForSequenceClassification(hf.RobertaConfig(**TEXT, num_labels=3, pad_token_id=1)),
    "bert-qa": lambda: hf.BertForQuestionAnswering(hf.BertConfig(**TEXT)),
    "bert": lambda: hf.BertModel(hf.BertConfig(**TEXT)),
}


def build(name: str) -> Any:
    """One of the models, in evaluation mode."""
    torch.manual_seed(0)
    model = MODELS[name]()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.9 / parameter.shape[-1] ** 0.5, generator=generator)
    return model.eval()


def save(name: str, folder: Path, **options: Any) -> Path:
    """One of the models as a Hugging Face folder."""
    hf.logging.disable_progress_bar()
    build(name).save_pretrained(folder, **options)
    return folder
