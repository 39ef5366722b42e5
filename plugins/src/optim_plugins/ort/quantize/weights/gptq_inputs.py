"""What products are given on the samples, as gptq needs it: summed while the samples go by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optim import Context, Model
from optim_plugins.ort.graph.products import Product
from optim_plugins.ort.measure.captured_values import capture
from optim_plugins.ort.quantize.weights.gptq import Inputs


def gather_inputs(model: Model, context: Context, products: Sequence[Product]) -> dict[str, Inputs]:
    """The inputs of products by the products' names.

    A product in a branch, or with inputs that are not finite, is left out.

    Args:
        model: with the products as they were, before any is rewritten.
        context: gives the samples.
        products: one whose input is read by others too shares its sums with them.
    """
    if not products:
        return {}
    names = {product.name: product.a.name or "" for product in products}
    sums: dict[str, Inputs] = {}
    for values in capture(model.ir(), sorted(set(names.values())), model, context):
        for name, array in values.items():
            rows = array.reshape(-1, array.shape[-1]).astype(np.float32, copy=False)
            known = sums.get(name)
            squares = rows.T @ rows
            sums[name] = (
                Inputs(squares, len(rows))
                if known is None
                else Inputs(np.add(known.squares, squares, out=known.squares), known.rows + len(rows))
            )
    return {
        product: sums[name] for product, name in names.items() if name in sums and np.isfinite(sums[name].squares).all()
    }
