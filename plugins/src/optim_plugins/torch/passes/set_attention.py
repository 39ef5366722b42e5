"""``torch.set-attention``: which implementation of attention a model of transformers is exported with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim import APPLICABLE, Applicable, Source, SourceContext, SourcePass, SourceResult, Target

if TYPE_CHECKING:
    from optim_plugins.torch.options import AttentionOptions

_EAGER_FAMILIES = ("t5", "mt5", "umt5", "longt5", "switch_transformers")
"""Their position bias depends on a size, which sdpa's kernels cannot take while it is traced."""


class SetAttention(SourcePass):
    """Chooses between sdpa, which exports to fewer nodes, and eager, which every exporter takes."""

    name = "torch.set-attention"
    summary = "sets the attention that the exporter supports"
    options = "optim_plugins.torch.options:AttentionOptions"
    after = ("torch.load-huggingface", "torch.load-factory")

    def applicable(self, source: Source, target: Target) -> Applicable:
        """To models of the library transformers."""
        if any(_model(component.module) is not None for component in source.components):
            return APPLICABLE
        return Applicable.no("the source is not a model of transformers")

    def apply(self, source: Source, options: AttentionOptions, context: SourceContext) -> SourceResult:
        """Set it on every component; they may share one model."""
        changed = []
        for component in source.components:
            model = _model(component.module)
            wanted = _wanted(model, options) if model is not None else ""
            if model is not None and wanted and model.config._attn_implementation != wanted:
                model.set_attn_implementation(wanted)
                changed.append(f"{component.name}: {wanted}")
        if not changed:
            return SourceResult(source, False, ("the exporter takes the attention that the model has",))
        return SourceResult(source, True, (f"attention of {', '.join(changed)}",))


def use_eager(module: Any) -> bool:
    """Switch a component's model to eager attention; whether there was anything to switch."""
    model = _model(module)
    if model is None or model.config._attn_implementation == "eager":
        return False
    model.set_attn_implementation("eager")
    return True


def _wanted(model: Any, options: AttentionOptions) -> str:
    if options.implementation != "auto":
        return options.implementation
    if model.config.model_type in _EAGER_FAMILIES:
        return "eager"
    return "" if model.config._attn_implementation in ("eager", "sdpa") else "eager"


def _model(module: Any) -> Any | None:
    model = getattr(module, "module", None)
    return model if hasattr(model, "set_attn_implementation") and hasattr(model, "config") else None
