"""``torch.merge-lora``: low-rank adapters become part of the weights they adapt.

    W x + scale * B (A x)  ->  (W + scale * B A) x

Left out (``--without torch.merge-lora``, or because ``adapters.extract`` is asked for), the adapters stay in the graph
under their own names, for extraction.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from optim import APPLICABLE, Applicable, Source, SourceContext, SourcePass, SourceResult, Target

if TYPE_CHECKING:
    from optim import NoOptions


class MergeLora(SourcePass):
    """Merges the active adapters of peft."""

    name = "torch.merge-lora"
    summary = "merges LoRA adapters into the weights"
    after = ("torch.load-huggingface", "torch.load-factory")
    yields_to = ("adapters.extract", "adapters.extract-packed")

    def applicable(self, source: Source, target: Target) -> Applicable:
        """To modules with adapters of peft."""
        if any(has_adapters(component.module) for component in source.components):
            return APPLICABLE
        return Applicable.no("there is no LoRA adapter")

    def apply(self, source: Source, options: NoOptions, context: SourceContext) -> SourceResult:
        """Merge and put the plain layers back; components may share them."""
        merged = sum(_merge(component.module) for component in source.components)
        return SourceResult(source, True, counts={"merged": merged})


def has_adapters(module: Any) -> bool:
    """Whether a module holds adapter layers of peft."""
    if importlib.util.find_spec("peft") is None or not hasattr(module, "modules"):
        return False
    from peft.tuners.tuners_utils import BaseTunerLayer

    return any(isinstance(part, BaseTunerLayer) for part in module.modules())


def _merge(module: Any) -> int:
    from peft.tuners.tuners_utils import BaseTunerLayer

    merged = 0
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, BaseTunerLayer):
                child.merge(safe_merge=True)  # into new tensors: weights mapped from a file are not written to
                setattr(parent, name, child.get_base_layer())
                merged += 1
    return merged
