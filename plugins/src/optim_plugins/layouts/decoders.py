"""Decoders of one graph: how their past is called, what they are asked, and what they should have answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim import ExitStatus, OptimError
from optim.source import CONFIG_FILE

if TYPE_CHECKING:
    from optim.arrays import Array, Feeds, Outputs
    from optim.layout import Result

_SHORTEST = 4
"""Tokens of a prompt: a step of a decoder has one, and a prompt of several takes another way through the graph."""

_SPREAD = 5e-3
"""Of the largest score: with weights of 8 bits two words that are nearer than that are told apart by rounding alone."""


@dataclass(frozen=True, slots=True)
class Past:
    """Names and sizes of keys and values that are carried on; names have ``%d`` for the layer.

    Attributes:
        key_input: of a layer.
        value_input: of a layer.
        key_output: of a layer.
        value_output: of a layer.
        outputs: what a step gives: ``logits``, and by output the input that takes it in the next step.
        layers: how many.
        heads: of keys.
        head_size: of each.
        shared: whether one buffer holds past and present: where attention is GroupQueryAttention.
    """

    key_input: str
    value_input: str
    key_output: str
    value_output: str
    outputs: Mapping[str, str]
    layers: int
    heads: int
    head_size: int
    shared: bool

    @property
    def inputs(self) -> frozenset[str]:
        """All that carry it."""
        return frozenset(name for name in self.outputs.values() if name)


def past_of(result: Result) -> Past:
    """The past of a decoder.

    Raises:
        OptimError[layout-does-not-fit]: it has none, or names and shapes are others than layers of keys and values.
    """
    taken = {info.name: info for info in result.model.inputs}
    given = {output.name for output in result.model.outputs}
    pairs = dict(result.state) or {
        f"present.{name.partition('.')[2]}": name for name in taken if name.startswith("past_key_values.")
    }
    if not pairs:
        raise does_not_fit("the graph has no past: it is not a decoder, or it computes a whole text each time")
    names: dict[str, dict[str, int]] = {"key": {}, "value": {}}
    for output, name in pairs.items():
        found = re.fullmatch(r"(.*?)\d+(.*\.(key|value))", name)
        if found is None or output not in given or name not in taken:
            raise does_not_fit(f"its state '{name}' is not a key or value of a layer")
        names[found[3]][f"{found[1]}%d{found[2]}"] = 0
        names[found[3]][re.sub(r"\d+", "%d", output, count=1)] = 1
    (key_in, key_out), (value_in, value_out) = (sorted(names[kind], key=names[kind].__getitem__) for kind in names)
    shape = taken[key_in % 0].shape or ()
    if len(shape) != 4 or not isinstance(shape[1], int) or not isinstance(shape[3], int):
        raise does_not_fit(f"'{key_in % 0}' has the shape {list(shape)}, and not batch, heads, length, size")
    from optim.onnx import operator_counts

    counts = operator_counts(result.model.path)
    shared = any(name.endswith("GroupQueryAttention") for name in counts)
    outputs = {"logits": "", **pairs}
    return Past(key_in, value_in, key_out, value_out, outputs, len(pairs) // 2, shape[1], shape[3], shared)


def prompts(result: Result, feeds: Sequence[Feeds]) -> list[Feeds]:
    """One text of each sample, padding left out; a single token is repeated."""
    import numpy as np

    found: list[Feeds] = []
    for sample in feeds:
        if "input_ids" not in sample:
            raise does_not_fit("the graph takes no input_ids")
        row = np.asarray(sample["input_ids"])[0]
        mask = np.asarray(sample.get("attention_mask", np.ones((1, len(row)))))[0][-len(row) :]
        text = row[mask.astype(bool)] if mask.any() else row
        found.append({"input_ids": np.resize(text, (1, max(_SHORTEST, len(text)))).astype(np.int64)})
    return found


def choices(result: Result, sample: Feeds, outputs: Outputs) -> Outputs:
    """What the result itself scores, word by word, where a consumer generated ``tokens`` with the scores ``logits``.

    The consumer is asked for so many tokens, and takes none that ends the text before.

    Raises:
        OptimError[layout-differs]: a token is another than the result would have chosen.
    """
    import numpy as np

    tokens = np.asarray(outputs["tokens"])
    prompt = np.asarray(sample["input_ids"])[0]
    scores, ends = _scores(result, prompt, tokens), _ends_of(result)
    for place, (row, token) in enumerate(zip(scores, tokens, strict=True)):
        allowed = row.copy()
        allowed[ends] = -np.inf
        behind = float(allowed.max() - allowed[token])
        if behind > _SPREAD * float(np.abs(row).max()):
            raise OptimError(
                "layout-differs",
                "onnxruntime-genai generates another text than the result",
                f"token {place} is {int(token)}, and the result's is {int(allowed.argmax())}",
                "this is an issue of the layout or of its consumer: the run folder itself is right",
                status=ExitStatus.NOT_HELD,
            )
    return {"logits": scores, "tokens": tokens}


def _ends_of(result: Result) -> list[int]:
    """Ids that end a text, by the source or by its configuration."""
    ends = result.facts.get("eos")
    if ends is None and result.files is not None:
        source = json.loads((result.files / CONFIG_FILE).read_text(encoding="utf-8"))
        ends = source.get("text_config", source).get("eos_token_id")
    return [int(one) for one in (ends if isinstance(ends, list | tuple) else [] if ends is None else [ends])]


def _scores(result: Result, prompt: Array, tokens: Array) -> Array:
    """The scores before each token: the prompt in one call, then word by word, as a generation loop has it.

    Where activations are quantized as they come, a whole text in one call has other scores than its words.
    """
    import numpy as np

    from optim.arrays import dtype_of
    from optim.onnx import open_session

    session = open_session(result.model.path, result.model.session, result.target)
    past, types = past_of(result), {info.name: dtype_of(info.dtype) for info in result.model.inputs}
    state = {
        info.name: np.zeros(
            [size if isinstance(size, int) else int(not at) for at, size in enumerate(info.shape or ())]
        )
        for info in result.model.inputs
        if info.name in past.inputs
    }
    scores, seen = [], 0
    for words in (prompt, *(tokens[at : at + 1] for at in range(len(tokens) - 1))):
        whole = seen + len(words)
        given = {"input_ids": words[None], "attention_mask": np.ones((1, whole))}
        given |= {"position_ids": np.arange(seen, whole)[None], **state}
        feeds = {name: given[name].astype(dtype) for name, dtype in types.items()}
        found = dict(zip(past.outputs, session.run(list(past.outputs), feeds), strict=True))
        scores.append(found.pop("logits")[0, -1])
        state = {past.outputs[name]: array for name, array in found.items()}
        seen = whole
    return np.stack(scores)


def does_not_fit(cause: str) -> OptimError:
    """The error for what is no decoder that onnxruntime-genai runs."""
    return OptimError.usage(
        "layout-does-not-fit",
        "onnxruntime-genai would not run the result",
        cause,
        "export a decoder from its Hugging Face folder: optim run FOLDER --deliver genai",
    )
