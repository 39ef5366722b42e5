"""A model of transformers as components, by its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from optim import OptimError, Source, SourceRequest
from optim_plugins.torch.sources.huggingface.causal_source import causal_source
from optim_plugins.torch.sources.huggingface.dual_encoder_source import dual_encoder_source, is_dual_encoder
from optim_plugins.torch.sources.huggingface.encoder_source import encoder_source
from optim_plugins.torch.sources.huggingface.model_tasks import task_of
from optim_plugins.torch.sources.huggingface.seq2seq_source import seq2seq_source


def huggingface_source(model: Any, request: SourceRequest, weight_files: Sequence[Path] = ()) -> Source:
    """The components of a model, with what is known about it.

    Args:
        model: ``PreTrainedModel`` in evaluation mode.
        request: what the user asked for.
        weight_files: that its parameters are mapped from.

    Raises:
        OptimError[task-not-supported]: models like this one cannot be exported yet.
    """
    auto_map = getattr(model.config, "auto_map", None)
    task = request.task or task_of(type(model).__name__, model.main_input_name, auto_map)
    try:
        source = _by_task(model, task, request)
    except OptimError:
        raise
    except Exception as error:  # a model's own code raises anything over inputs that are not its own
        raise _needs_a_factory(model, task, error) from error
    facts = {"task": task, "architecture": type(model).__name__, **source.facts}
    return replace(source, facts=facts, weight_files=tuple(weight_files))


def sentence_source(model: Any, whole: Any, request: SourceRequest, weight_files: Sequence[Path]) -> Source:
    """A transformer with what sentence-transformers puts behind it; raises as :func:`huggingface_source`.

    Args:
        model: the transformer, whose inputs it takes.
        whole: both as one module.
        request: what the user asked for.
        weight_files: that its parameters are mapped from.
    """
    try:
        source = encoder_source(model, request, whole)
    except OptimError:
        raise
    except Exception as error:
        raise _needs_a_factory(model, "sentence embeddings", error) from error
    facts = {"task": "sentence-similarity", "architecture": type(model).__name__, **source.facts}
    return replace(source, facts=facts, weight_files=tuple(weight_files))


def _needs_a_factory(model: Any, task: str, error: Exception) -> OptimError:
    name = type(model).__name__
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return OptimError.usage(
        "task-not-supported",
        f"{name} cannot be exported from its folder",
        f"it does not run on inputs that were synthesized for {task}: {said}",
        f"write mine.py, whose factory() returns the {name} or a part of it, with example inputs: "
        "optim run mine:factory -o OUT",
    )


def _by_task(model: Any, task: str, request: SourceRequest) -> Source:
    if task == "text-generation" and not model.config.is_encoder_decoder:
        return causal_source(model, request)
    if task in ("text2text-generation", "speech-to-text"):
        if not model.config.is_encoder_decoder:
            raise OptimError.usage(
                "task-not-supported",
                f"{type(model).__name__} cannot be exported",
                "it joins several kinds of input before one decoder",
                "export its parts from a factory of your own",
            )
        return seq2seq_source(model, request)
    if task == "feature-extraction" and is_dual_encoder(model):
        return dual_encoder_source(model, request)
    return encoder_source(model, request)
