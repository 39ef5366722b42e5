"""``torch.load-huggingface``: a Hugging Face model folder, its weights mapped into memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Source, SourceContext, SourcePass, SourceRequest, SourceResult, Target
from optim.source import ADAPTER_FILE, CONFIG_FILE, MODULES_FILE
from optim_plugins.torch.available import transformers_available

if TYPE_CHECKING:
    from optim import NoOptions
    from optim_plugins.torch.sources.huggingface.sentence_encoder import SentenceParts


_FILES = (CONFIG_FILE, ADAPTER_FILE, MODULES_FILE)


class LoadHuggingFace(SourcePass):
    """Reads config and safetensors with transformers; nothing is downloaded, no code of the folder is run."""

    name = "torch.load-huggingface"
    summary = "loads a Hugging Face model folder"
    loads = True

    def applicable(self, source: Source, target: Target) -> Applicable:
        """To Hugging Face model folders."""
        folder = source.request.folder
        if folder is None or not any((folder / name).is_file() for name in _FILES):
            return Applicable.no(f"{source.request.spec} is not a folder with {CONFIG_FILE}")
        available = transformers_available()
        return available if not available else APPLICABLE

    def apply(self, source: Source, options: NoOptions, context: SourceContext) -> SourceResult:
        """Load the model and split it into components."""
        from optim_plugins.torch.sources.huggingface.model_folder import load_folder
        from optim_plugins.torch.sources.huggingface.sentence_encoder import sentence_parts
        from optim_plugins.torch.sources.huggingface.task_sources import huggingface_source

        assert source.request.folder is not None
        if not source.request.task:  # a task is one of the transformer alone
            parts = sentence_parts(source.request.folder)
            if parts is not None:
                return _sentence_encoder(parts, source.request)
        loaded = load_folder(source.request.folder, source.request)
        made = huggingface_source(loaded.model, source.request, loaded.weight_files)
        return SourceResult(made, True, loaded.notes, loaded.counts)


def _sentence_encoder(parts: SentenceParts, request: SourceRequest) -> SourceResult:
    """The transformer with its pooling, and what comes behind that, as one graph."""
    from optim_plugins.torch.sources.huggingface.model_folder import load_folder
    from optim_plugins.torch.sources.huggingface.sentence_encoder import SentenceEncoder
    from optim_plugins.torch.sources.huggingface.task_sources import sentence_source

    loaded = load_folder(parts.transformer, replace(request, task="feature-extraction"))
    whole = SentenceEncoder(loaded.model, parts.after).eval().requires_grad_(False)
    made = sentence_source(loaded.model, whole, request, (*loaded.weight_files, *parts.weight_files))
    names = ", ".join(type(part).__name__ for part in parts.after)
    notes = (*loaded.notes, f"a folder of sentence-transformers: the graph has its {names}")
    return SourceResult(made, True, notes, loaded.counts)
