"""``ort.clean``: what no runtime needs to see.

Small constants folded, equal nodes merged, nodes that do nothing or that nobody reads dropped, shapes inferred.
Weights are not read: folding stops at 64 KiB, so the pass writes a graph and no data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from optim import NoOptions


class Clean(Pass):
    """Constant folding, common subexpressions, dead nodes."""

    name = "ort.clean"
    summary = "fold small constants, merge equal nodes, drop dead ones, infer shapes"
    before = ("ort.fuse-transformer",)

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Always; whether there was anything to do shows afterwards."""
        del model, target
        return APPLICABLE

    def apply(self, model: Model, options: NoOptions, context: Context) -> PassResult:
        """Clean the graph; the counts say how many nodes went."""
        del options
        from optim_plugins.ort.clean_graph import clean

        graph = model.ir()
        before = sum(1 for _ in graph.graph.all_nodes())
        clean(graph)
        removed = before - sum(1 for _ in graph.graph.all_nodes())
        if removed <= 0:
            return PassResult(model, changed=False, notes=("nothing to fold, merge or drop",), counts={"nodes removed": 0})
        return PassResult(context.save(graph, model), changed=True, counts={"nodes removed": removed})
