"""``ort.clean``: what no runtime needs to see.

Small constants folded, shapes inferred, equal nodes merged, nodes that do nothing or that nobody reads dropped::

    Reshape(x, Concat(Gather(Shape(y), 0), [-1], [64]))        becomes, where y is [2, n],
    Reshape(x, [2, -1, 64])

The branch of an ``If`` that is always taken takes its place: the condition is a constant, or an operator that follows
refuses what the other branch gives (:mod:`optim_plugins.ort.prepare.refused_branches`).

Masks that exporters look up at counted positions become the masks themselves
(:mod:`optim_plugins.ort.prepare.shorten_masks`).

A Reshape of a Reshape, and the Transpose of a quantized weight that nothing else reads, need no node of their own
(:mod:`optim_plugins.ort.prepare.joined_moves`).

A product with a one-hot matrix, as jax embeds by, takes rows of the weight by number
(:mod:`optim_plugins.ort.prepare.one_hot_lookups`).

The steps of an LSTM that an exporter wrote out become one operator
(:mod:`optim_plugins.ort.prepare.recurrent.roll_lstms`).

Old exporters list every weight among the inputs. A run may replace an input, so nothing can be folded into it. The pass
takes these weights out of the inputs. An input with a default that a run may choose stays.

Denormal weights become zeros (:mod:`optim_plugins.ort.prepare.denormal_weights`). Folding stops at 16,384 elements. The
pass writes other weights only if it changes them.

The exception is asked for: with ``fold_transposes`` a large ``Transpose(W)`` becomes a weight of its own. ONNX Runtime
does that itself when it opens the model, and ``ort.quantize-dynamic`` reads through it, so it is for other tools, and
for running without the runtime's own optimizations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from optim_plugins.ort.prepare.clean_options import CleanOptions


class Clean(Pass):
    """Constant folding, common subexpressions, dead nodes, denormal weights."""

    name = "ort.clean"
    summary = "folds small constants, infers shapes, merges equal nodes, removes unused ones, zeros denormal weights"
    options = "optim_plugins.ort.prepare.clean_options:CleanOptions"
    before = ("ort.fuse-transformer",)

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Always; the counts show whether there was anything to do."""
        return APPLICABLE

    def apply(self, model: Model, options: CleanOptions, context: Context) -> PassResult:
        """Clean the graph; the counts say how many nodes went."""
        from optim_plugins.ort.graph.fixed_weights import fix_weights
        from optim_plugins.ort.graph.known_attributes import notes_on_unknown
        from optim_plugins.ort.prepare.clean_graph import clean, fold_transposes
        from optim_plugins.ort.prepare.denormal_weights import zero_denormal_weights

        graph = model.ir()
        before = sum(1 for _ in graph.graph.all_nodes())
        fixed = fix_weights(graph)
        folded = fold_transposes(graph) if options.fold_transposes else 0
        rewritten = clean(graph)
        zeroed = zero_denormal_weights(graph)
        removed = before - sum(1 for _ in graph.graph.all_nodes())
        counts = {"nodes removed": removed, "weights that were inputs": fixed, "Transpose folded": folded}
        counts |= rewritten | ({"denormal weights set to zero": zeroed} if zeroed else {})
        if removed <= 0 and not fixed and not rewritten and not zeroed:
            notes = notes_on_unknown(graph) or ("nothing to fold, merge or drop",)
            return PassResult(model, changed=False, notes=notes, counts=counts)
        return PassResult(context.save(graph, model), changed=True, notes=notes_on_unknown(graph), counts=counts)
