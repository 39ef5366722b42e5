"""llama.cpp, in the wheels of xllamacpp: Q4_0, written by the package gguf as llama.cpp's converter writes it.

llama-cpp-python has no wheels on the registry, and its build takes long on two cores.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import queue
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import serve

_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
}
_GREEDY = {"temperature": 0.0, "top_k": 1, "cache_prompt": False}
_WORD = "t"
"""Begins every word of the vocabulary: what comes as text is the number of a token."""
_MOST = 2048
"""Tokens of a context: prompt and answer of this benchmark."""


def build(model: Path, out: Path) -> None:
    """One file: matrices in Q4_0, norms in float32, and the head in Q8_0, where llama.cpp's own tool takes Q6_K."""
    import gguf
    from safetensors import safe_open

    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    out.mkdir(parents=True)
    writer = gguf.GGUFWriter(out / "model.gguf", "llama")
    heads, key_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["hidden_size"] // heads)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"{_WORD}{index}" for index in range(config["vocab_size"])])
    writer.add_token_types([gguf.TokenType.NORMAL] * config["vocab_size"])
    writer.add_token_merges([f"{_WORD} 0"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    with safe_open(model / "model.safetensors", "np") as tensors:
        for name in tensors.keys():  # noqa: SIM118 - no mapping
            array = _permuted(name, tensors.get_tensor(name).astype(np.float32), heads, key_heads)
            kind = "F32" if array.ndim == 1 else "Q8_0" if name.startswith("lm_head") else "Q4_0"
            made = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(_name(name), gguf.quants.quantize(array, made), raw_dtype=made)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    shutil.copy(model / "config.json", out)


def _name(name: str) -> str:
    bare = name.removeprefix("model.").removesuffix(".weight")
    if not bare.startswith("layers."):
        return f"{_NAMES[bare]}.weight"
    _, layer, part = bare.split(".", 2)
    return f"blk.{layer}.{_NAMES[part]}.weight"


def _permuted(name: str, array: np.ndarray, heads: int, key_heads: int) -> np.ndarray:
    """Rows of queries and keys in pairs, for llama.cpp rotates neighbours and Hugging Face halves."""
    count = heads if "q_proj" in name else key_heads if "k_proj" in name else 0
    if not count:
        return array
    halves = array.reshape(count, 2, array.shape[0] // count // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(array.shape))


class LlamaCpp:
    """Its server within this process, without its network."""

    def __init__(self, folder: Path) -> None:
        import xllamacpp

        self._words = json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
        params = xllamacpp.CommonParams()
        params.model.path = str(folder / "model.gguf")
        params.n_ctx, params.n_parallel, params.n_predict = _MOST, 1, -1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = os.cpu_count() or 1
        params.cache_prompt, params.cache_ram_mib, params.warmup = False, 0, False
        self._server = xllamacpp.Server(params)
        self.version = f"xllamacpp {importlib.metadata.version('xllamacpp')}; {xllamacpp.get_system_info().strip()}"

    def answer(self, prompt: list[int], new: int) -> Iterator[int]:
        """As :class:`serve.Peer`."""
        asked = {"prompt": prompt, "n_predict": new, "stream": True, "ignore_eos": True, **_GREEDY}
        came: queue.SimpleQueue[str] = queue.SimpleQueue()
        thread = threading.Thread(target=self._server.handle_completions, args=(json.dumps(asked), came.put))
        thread.start()
        for _ in range(new):
            yield int(json.loads(came.get(timeout=600))["choices"][0]["text"].removeprefix(_WORD))
        thread.join()

    def scores(self, prompt: list[int]) -> np.ndarray:
        """As :class:`serve.Peer`: logarithms of probabilities, all of them."""
        asked = {"prompt": prompt, "n_predict": 1, "n_probs": self._words, "ignore_eos": False, **_GREEDY}
        (found,) = self._server.handle_completions(asked)["choices"][0]["logprobs"]["content"]
        scores = np.empty(self._words, np.float32)
        for row in found["top_logprobs"]:
            scores[row["id"]] = row["logprob"]
        return scores


if __name__ == "__main__":
    serve.main(build, LlamaCpp)
