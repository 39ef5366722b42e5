"""Models that read all at once: encoders of text, images and sound, with any head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optim import Source, SourceRequest
from optim.arrays import Array
from optim_plugins.torch.arguments.dimension_symbols import named_shapes
from optim_plugins.torch.arguments.flat_module import FlatModule, component_of, shapes_of, to_tensor, without_computing
from optim_plugins.torch.arguments.named_dimensions import with_named_dimensions
from optim_plugins.torch.sources.huggingface.encoder_inputs import EncoderInputs

_SKIPPED_OUTPUTS = frozenset({"hidden_states", "attentions", "past_key_values", "loss", "cross_attentions"})


def encoder_source(model: Any, request: SourceRequest, whole: Any = None) -> Source:
    """One component ``model`` with the outputs that the model names, without hidden states and attentions.

    Args:
        model: of transformers.
        request: what the user asked for.
        whole: a module around it that is called as it is, and becomes the graph; None: the model itself.
    """
    maker = EncoderInputs(model.forward, model.config, model.main_input_name, request.seed)
    example, sizes = maker.make(2, maker.sizes[1], padded="right"), maker.sizes_of(2, 1)
    module = FlatModule(model if whole is None else whole, list(example))
    module.output_names = _output_names(module, example)
    other, other_sizes = maker.make(3, maker.sizes[2]), maker.sizes_of(3, 2)
    inputs = with_named_dimensions(maker.declare(example), example, request)
    outputs = named_shapes(
        module.output_names, shapes_of(module, example), shapes_of(module, other), sizes, other_sizes
    )
    component = component_of("model", module, inputs, outputs, example, lambda: maker.trials(inputs, outputs))
    return Source(request, (component,), {"kind": "encoder"})


def _output_names(module: FlatModule, example: Mapping[str, Array]) -> tuple[str, ...]:
    import torch

    found = without_computing(
        lambda: module.module(**{name: to_tensor(array) for name, array in example.items()}, return_dict=True)
    )
    return tuple(
        name for name, value in found.items() if isinstance(value, torch.Tensor) and name not in _SKIPPED_OUTPUTS
    )
