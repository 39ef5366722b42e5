"""Opens the layout ``genai``: onnxruntime-genai continues each prompt, word by word."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import textwrap
from pathlib import Path
from typing import Any


def missing() -> str:
    """What is not installed."""
    return "" if importlib.util.find_spec("onnxruntime_genai") else "onnxruntime-genai is not installed"


def open_and_run(folder: Path, samples: list[dict[str, Any]], told: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Generate greedily; the scores before each token, and the tokens."""
    import numpy as np
    import onnxruntime_genai as genai

    model = genai.Model(str(folder))
    outputs = []
    for sample in samples:
        prompt = np.asarray(sample["input_ids"], np.int32)
        params = genai.GeneratorParams(model)
        length = prompt.shape[1] + told["tokens"]
        params.set_search_options(max_length=length, min_length=length, do_sample=False, batch_size=1)
        generator = genai.Generator(model, params)
        generator.append_tokens(prompt)
        scores = []
        while not generator.is_done():
            scores.append(np.array(generator.get_logits()).reshape(-1))
            generator.generate_next_token()
        tokens = np.array(generator.get_sequence(0))[prompt.shape[1] :]
        outputs.append({"logits": np.stack(scores)[: len(tokens)], "tokens": tokens})
    if told["tokenizer"]:
        _open_tokenizer(genai, model)
    return f"onnxruntime-genai {importlib.metadata.version('onnxruntime-genai')}", outputs


def _open_tokenizer(genai: Any, model: Any) -> None:
    """Fail in one line that names the tokenizer: the graph was run before, and is right."""
    try:
        genai.Tokenizer(model)
    except Exception as error:
        said = textwrap.shorten(str(error), 150)  # optim shows 300 characters, and the way out comes last
        raise RuntimeError(
            f"onnxruntime-genai runs the graph, but cannot read the tokenizer: {said}; "
            "if your program makes the ids itself: genai:without_tokenizer=true"
        ) from error
