"""``torch.load-huggingface``: a Hugging Face model folder, its weights mapped into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Source, SourceContext, SourcePass, SourceResult, Target
from optim_plugins.torch.available import transformers_available

if TYPE_CHECKING:
    from optim.options import NoOptions


class LoadHuggingFace(SourcePass):
    """Reads config and safetensors with transformers; nothing is downloaded, no code of the folder is run."""

    name = "torch.load-huggingface"
    summary = "Loads a Hugging Face model folder."
    loads = True

    def applicable(self, source: Source, target: Target) -> Applicable:
        """To folders."""
        del target
        if source.request.folder is None:
            return Applicable.no(f"{source.request.spec} is no folder")
        available = transformers_available()
        return available if not available else APPLICABLE

    def apply(self, source: Source, options: NoOptions, context: SourceContext) -> SourceResult:
        """Load the model and split it into components."""
        from optim_plugins.torch.sources.huggingface.model_folder import load_folder
        from optim_plugins.torch.sources.huggingface.task_sources import huggingface_source

        del options, context
        assert source.request.folder is not None
        loaded = load_folder(source.request.folder, source.request)
        made = huggingface_source(loaded.model, source.request, loaded.weight_files)
        return SourceResult(made, True, loaded.notes, loaded.counts)
