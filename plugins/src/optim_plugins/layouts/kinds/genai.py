"""The layout ``genai``: a model folder of onnxruntime-genai. The run folder itself can be one.

    DIR/genai_config.json    what the graph takes and gives, sizes, ids that begin, end and pad a text, session options
    DIR/model.onnx           the decoder, with model.onnx.data
    DIR/tokenizer.json, ...  of the source

    generator = onnxruntime_genai.Generator(model, params)

A decoder whose attention is GroupQueryAttention keeps past and present in one buffer there; one that appends to its
past gets a new array for each token. It is judged by generation: each token that onnxruntime-genai chose must be the
result's own choice, and the scores that it chose by the result's own scores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from optim.layout import Laid, Layout, Result, carry_files, place_graph, require_provider
from optim.source import CONFIG_FILE
from optim_plugins.layouts.carried_settings import disabled_as_config
from optim_plugins.layouts.decoders import choices, does_not_fit, past_of, prompts
from optim_plugins.layouts.hub_files import missing_config, missing_tokenizer

if TYPE_CHECKING:
    from optim import SessionConfig
    from optim.arrays import Feeds, Outputs
    from optim_plugins.layouts.options import GenaiOptions

_GENAI_CONFIG_FILE = "genai_config.json"
_PROVIDERS: Mapping[str, list[dict[str, Any]]] = {"CPUExecutionProvider": [], "CUDAExecutionProvider": [{"cuda": {}}]}
_TYPE = "decoder"
"""Stands for every decoder of one graph; others of its types look for names of their own, as gpt2 does."""

_OPTIONS = (
    "intra_op_num_threads",
    "inter_op_num_threads",
    "enable_cpu_mem_arena",
    "enable_mem_pattern",
    "graph_optimization_level",
)
"""Session options that it reads by name; what it does not know is a config entry."""


class Genai(Layout):
    """A folder that onnxruntime-genai generates from."""

    name = "genai"
    summary = "a model folder of onnxruntime-genai, with genai_config.json"
    consumer = "pip install onnxruntime-genai"
    opener = Path(__file__).parents[1] / "openers" / "genai.py"
    options: ClassVar[str] = "optim_plugins.layouts.options:GenaiOptions"
    in_place = True

    def refuse(self, files: Path | None, options: GenaiOptions) -> str:
        """Sizes are in the source's config, and a text needs its tokenizer."""
        return missing_config(files) or ("" if options.without_tokenizer else missing_tokenizer(files))

    def write(self, result: Result, folder: Path, options: GenaiOptions) -> Laid:
        """The configuration, and where it is another folder the graph too."""
        require_provider(result, layout=self.name, providers=tuple(_PROVIDERS))
        assert result.files is not None
        source = json.loads((result.files / CONFIG_FILE).read_text(encoding="utf-8"))
        session = disabled_as_config(result.model.session)
        config = _config(result, source.get("text_config", source), session)
        if folder != result.folder:
            place_graph(result, folder / "model.onnx")
        carry_files(result.files, folder, head=False)
        (folder / _GENAI_CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        carried = {name: value for name, value in session.session_options.items() if name in _OPTIONS}
        told = {"tokens": options.tokens, "tokenizer": not options.without_tokenizer}
        return Laid("model.onnx", type(session)(carried, session.session_config), told)

    def samples(self, result: Result, feeds: Sequence[Feeds]) -> Sequence[Feeds]:
        """Prompts: a past of its own cannot be handed to it."""
        return prompts(result, feeds)

    def expected(self, result: Result, sample: Feeds, outputs: Outputs) -> Outputs:
        """The result's scores for the text that was generated."""
        return choices(result, sample, outputs)


def _config(result: Result, source: Mapping[str, Any], session: SessionConfig) -> dict[str, Any]:
    past = past_of(result)
    inputs = {info.name: info.name for info in result.model.inputs if info.name in _FED}
    strange = [info.name for info in result.model.inputs if info.name not in {*_FED, *past.inputs}]
    if strange:
        raise does_not_fit(f"input '{strange[0]}' is not one that it feeds: it knows {', '.join(_FED)} and a past")
    decoder = {
        "session_options": {
            **{name: value for name, value in session.session_options.items() if name in _OPTIONS},
            **session.session_config,
            "provider_options": _PROVIDERS[result.target.provider],
        },
        "filename": "model.onnx",
        "head_size": past.head_size,
        "hidden_size": _size(source, "hidden_size", "n_embd", "d_model"),
        "num_attention_heads": _size(source, "num_attention_heads", "n_head"),
        "num_hidden_layers": past.layers,
        "num_key_value_heads": past.heads,
        "inputs": {**inputs, "past_key_names": past.key_input, "past_value_names": past.value_input},
        "outputs": {"logits": "logits", "present_key_names": past.key_output, "present_value_names": past.value_output},
    }
    ends = result.facts.get("eos", source.get("eos_token_id"))
    length = _size(source, "max_position_embeddings", "n_positions")
    pad = result.facts.get("pad", source.get("pad_token_id"))
    last = ends[0] if isinstance(ends, list) and ends else ends
    ids = {
        "bos_token_id": source.get("bos_token_id"),
        "eos_token_id": ends,
        "pad_token_id": last if pad is None else pad,
    }
    return {
        "model": {
            **{name: value for name, value in ids.items() if value is not None},
            "type": _TYPE,
            "context_length": length,
            "vocab_size": _size(source, "vocab_size"),
            "decoder": decoder,
        },
        "search": {"do_sample": False, "max_length": length, "past_present_share_buffer": past.shared},
    }


_FED = ("input_ids", "attention_mask", "position_ids")


def _size(source: Mapping[str, Any], *names: str) -> int:
    """A size by the names that configs have for it.

    Raises:
        OptimError[layout-does-not-fit]: the config has none of them.
    """
    for name in names:
        if isinstance(source.get(name), int):
            return int(source[name])
    raise does_not_fit(f"{CONFIG_FILE} says no {names[0]}")
