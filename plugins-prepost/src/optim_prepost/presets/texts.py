"""What all tasks on text begin with: BERT's tokenizer inside the model, or token ids from a tokenizer outside."""

from __future__ import annotations

from typing import Any

from optim_prepost.plans.plan import PlannedStep, Port
from optim_prepost.presets.request import Request, shape_text

TOKENS = "Tokens"
"""Label of the step that gives the model's inputs."""

_ORDER = ("input_ids", "attention_mask", "token_type_ids")
_TYPES = {"int64": "int64", "int32": "int32"}


def text_steps(request: Request, *, pair: bool = False) -> tuple[tuple[Port, ...], list[PlannedStep], dict[str, Any]]:
    """Inputs, steps, and what the page needs of the tokenizer.

    Raises:
        OptimError[preset-does-not-fit]: the model has other inputs than BERT's, or there is no vocabulary.
    """
    names = [info.name for info in request.inputs]
    for info in request.inputs:
        if info.name not in _ORDER or info.dtype not in _TYPES or (info.shape is not None and len(info.shape) != 2):
            known = ", ".join(_ORDER)
            raise request.unfit(f"input '{info.name}' {shape_text(info)} is none of {known}, [batch, tokens]")
    if "input_ids" not in names:
        raise request.unfit(f"the model has no input input_ids; it has {', '.join(names)}")
    ids = request.kind("text", "ids") == "ids"
    params = _tokenizer_params(request, pair=pair)
    if ids:
        return (
            _id_ports(request),
            [PlannedStep("Identity", {"num_inputs": len(names)}, TOKENS)],
            {"input": "ids", "tokenizer": params, "order": names, "pair": pair},
        )
    if any(info.dtype != "int64" for info in request.inputs):
        raise request.unfit("its inputs are int32; the tokenizer gives int64")
    if params is None:
        raise request.unfit("the tokenizer needs a vocabulary: give vocabulary = 'vocab.txt', or settings = a folder")
    port = Port(request.port_name("text"), "string", (2 if pair else 1,))
    step = PlannedStep("BertTokenizer", {"tokenizer_param": {"type": "TokenizerParam", "params": params}}, TOKENS)
    return (port,), [step], {"input": "text", "pair": pair, "tokenizer": params}


def place_of(request: Request, name: str) -> int:
    """Where among the outputs of :data:`TOKENS` an input of the model is.

    Raises:
        OptimError[preset-does-not-fit]: token ids come from outside, and the model has no such input.
    """
    if request.kind("text", "ids") == "text":
        return _ORDER.index(name)
    names = [info.name for info in request.inputs]
    if name not in names:
        raise request.unfit(f"it needs the model's input {name}; the model has {', '.join(names)}")
    return names.index(name)


def _tokenizer_params(request: Request, *, pair: bool) -> dict[str, Any] | None:
    """Parameters of the tokenizer; None where nobody named a vocabulary."""
    path = request.options.vocabulary or request.settings.vocabulary
    if not path:
        return None
    lower = request.options.lower_case
    lower = bool(request.settings.tokenizer.get("do_lower_case", True)) if lower is None else lower
    strip = request.options.strip_accents
    strip = request.settings.tokenizer.get("strip_accents") if strip is None else strip
    strip = lower if strip is None else bool(strip)
    return {
        "vocab_or_file": path,
        "do_lower_case": int(lower),
        "strip_accents": int(strip),
        "is_sentence_pair": int(pair),
    }


def _id_ports(request: Request) -> tuple[Port, ...]:
    return tuple(
        Port(info.name, info.dtype, tuple(_size(size, place) for place, size in enumerate(info.shape or (None, None))))
        for info in request.inputs
    )


def _size(size: int | str | None, place: int) -> int | str:
    return size if isinstance(size, int) else ("batch", "tokens")[place]
