"""``inc.quantize-aware-of-accuracy``: neural-compressor tries ways to quantize until one is accurate enough.

Its strategies choose for each node between static and dynamic, calibrations, granularities and float. optim measures
every model that they try on the target of the run, by the task metric, or else by the drift from the original. The
patterns are those of ``inc.quantize-dynamic`` and ``inc.quantize-static``. The objective ``modelsize`` is not offered:
the library measures it with tensorflow alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import Applicable, Context, Model, PassResult, Target
from optim_inc.product_quantizer import ProductQuantizer

if TYPE_CHECKING:
    from optim_inc.options import QuantizeAwareOfAccuracyOptions


class QuantizeAwareOfAccuracy(ProductQuantizer):
    """Quantization tuned to a tolerable loss."""

    name = "inc.quantize-aware-of-accuracy"
    summary = "lets neural-compressor quantize to 8 bits node by node until the accuracy loss is tolerable"
    options = "optim_inc.options:QuantizeAwareOfAccuracyOptions"
    calibrates = True

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """Only where it is named: it is a search of its own, and repair of the other passes takes fewer evaluations."""
        return Applicable.no("it searches by itself for minutes: optim tries it only if --with names it")

    def apply(self, model: Model, options: QuantizeAwareOfAccuracyOptions, context: Context) -> PassResult:
        """Let the worker try, and answer how accurate each model is."""
        from optim_inc.quantizing import graph_recipe, quantize, reduce_range

        if context.score is None:
            return PassResult(model, changed=False, notes=("there is nothing to measure accuracy with",))
        config = {
            "approach": options.approach,
            "quant_level": options.quant_level,
            "reduce_range": reduce_range(options.weight_bits),
            "quant_format": "QDQ",
            "calibration_sampling_size": [options.samples],
            "recipes": {
                "optypes_to_exclude_output_quant": ["MatMul", "Gemm"],
                **graph_recipe(options.graph_optimization),
            },
        }
        tuning = {
            "strategy": options.strategy,
            "max_trials": options.max_trials,
            "seconds": options.seconds,
            "tolerable_loss": options.tolerable_loss,
            "relative_loss": options.relative_loss,
            "confidence_batches": options.confidence_batches,
            "objective": options.objective,
        }
        return quantize(model, context, config, options.keep, samples=options.samples, alike=True, tuning=tuning)
