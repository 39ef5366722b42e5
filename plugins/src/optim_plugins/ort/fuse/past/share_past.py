"""``ort.share-past``: the past of a decoder and its present in one buffer, which each step only adds to.

An exported decoder joins a past to new keys and values, and returns the whole: each token copies all tokens before it,
in every layer. ``com.microsoft.GroupQueryAttention`` writes new keys and values into the memory of the past, where the
caller binds both to the same buffer (:mod:`optim.decoders.conventions`). It takes key heads that serve several query
heads as they are. :mod:`optim_plugins.ort.fuse.past.past_graph` has the rewriting.

Feeds, names and shapes stay: a caller who feeds a past and takes a longer present gets the same numbers. An input
with a default lets who generates have the last token's logits alone (:mod:`optim_plugins.ort.fuse.past.keep_logits`).

CUDA has the operator in float16 and bfloat16 only. A run for CUDA therefore tries the pass on graphs in 16 bits; for
others name it together with ``ort.convert-float16:io='convert'``. For CUDA it was checked with target cuda-offline, and
not run on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from optim import NoOptions

_CUDA = "CUDAExecutionProvider"
_KEPT = "optim.decoders.conventions"
_NO_CHUNKS = "its kernel takes several new tokens after a past for a batch of one only; one token takes any batch"


class SharePast(Pass):
    """Past and present of a decoder in one buffer."""

    name = "ort.share-past"
    summary = "lets the attention of a decoder append to its past in one buffer, and compute only the last logits"
    goals = ("generate",)
    after = ("ort.clean",)
    before = ("ort.fuse-transformer",)

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the graph joins an input with new keys or values and returns both."""
        from optim.onnx import operator_counts

        operators = operator_counts(model.path)
        if "com.microsoft:GroupQueryAttention" in operators:
            return Applicable.no("its attention is GroupQueryAttention already")
        if any("past" in info.name for info in model.inputs) and "Softmax" in operators:
            return APPLICABLE
        return Applicable.no("the graph has no past: none of its inputs is joined to keys and values that it returns")

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """On CUDA only for a past in 16 bits."""
        pasts = {info.dtype for info in model.inputs if "past" in info.name}
        if target.made_for != _CUDA or pasts & {"float16", "bfloat16"}:
            return APPLICABLE
        return Applicable.no(
            "CUDA has GroupQueryAttention in 16 bits only: name ort.share-past and ort.convert-float16:io='convert'"
        )

    def apply(self, model: Model, options: NoOptions, context: Context) -> PassResult:
        """Rewrite every attention over a past, or none."""
        from optim import Interface, Variant
        from optim.decoders import KEPT_LOGITS
        from optim_plugins.ort.fuse.past.keep_logits import keep_logits
        from optim_plugins.ort.fuse.past.past_graph import share_past

        graph = model.ir()
        done = share_past(graph)
        if isinstance(done, str):
            return PassResult(model, changed=False, notes=(done,))
        kept = keep_logits(graph)
        saved = context.save(graph, model)
        counts = {"GroupQueryAttention": done, **({KEPT_LOGITS: kept} if kept else {})}
        last = Variant("the last token's alone", None, f"{_KEPT}:asking_for_one", outputs=f"{_KEPT}:last_logits")
        interface = Interface(variants=(last,)) if kept else None
        return PassResult(saved, changed=True, notes=(_NO_CHUNKS,), counts=counts, interface=interface)
