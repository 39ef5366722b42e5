"""The plugin ``metrics``: what it offers. A new metric is a function in a file beside this one, and one line here."""

from __future__ import annotations

from collections.abc import Sequence

from optim import MetricFamily, hookimpl

OPTIM_HOOK_API = 1


def _family(name: str, module: str, make: str, options: str, summary: str) -> MetricFamily:
    folder = f"optim_plugins.metrics.{module}"
    return MetricFamily(name, f"{folder}:{make}", f"{folder}:{options}", summary)


METRICS = (
    _family("top-1", "classification", "top_1", "TopOptions", "share of labels that have the highest score"),
    _family("top-k", "classification", "top_k", "TopKOptions", "share of labels among the k highest scores"),
    _family("f1", "classification", "f1", "F1Options", "F1 of classes: macro, micro or binary"),
    _family(
        "cosine", "embeddings", "cosine", "CosineOptions", "cosine of embeddings with the original's; needs no labels"
    ),
    _family(
        "perplexity",
        "decoders",
        "perplexity",
        "PerplexityOptions",
        "perplexity of a language model; without labels, of the next input ids",
    ),
    _family(
        "token-agreement", "decoders", "token_agreement", "AgreementOptions", "share of tokens that stay the original's"
    ),
    _family("mean-iou", "segmentation", "mean_iou", "MeanIouOptions", "intersection over union of segments"),
    _family("wer", "transcripts", "wer", "WerOptions", "word error rate, by jiwer (pip install 'jiwer>=3.0')"),
)


@hookimpl
def optim_metrics() -> Sequence[MetricFamily]:
    """All of them; none is imported before it is measured or listed."""
    return METRICS
