"""Perplexity, and how many tokens stay the same: for models that give scores of the next token."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from optim import CannotJudge, Metric, PassOptions
from optim.arrays import Array, Feeds, Outputs
from optim_plugins.metrics.pick import IGNORED, classes_of, counted, pick_label, pick_output
from optim_plugins.metrics.share import share


class AgreementOptions(PassOptions):
    """Which output has the scores of tokens."""

    output: str = Field(
        default="",
        description="name of the logits, shape (batch, sequence, vocabulary); logits, else the first output, if empty",
    )


class PerplexityOptions(AgreementOptions):
    """Where the tokens that really come next are."""

    label: str = Field(
        default="",
        description="name of the labels, shape (batch, sequence): the token that the logits at that place predict; "
        "-100 does not count; if the samples have no labels, the next one of 'tokens'",
    )
    tokens: str = Field(default="input_ids", description="the input that holds token ids")


def perplexity(options: PerplexityOptions) -> Metric:
    """Exponential of the mean negative log likelihood of the tokens that really come next."""

    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Array:
        logits = np.asarray(pick_output(outputs, options.output), np.float64)
        truth = pick_label(labels, options.label) if labels else _next_tokens(feeds, options.tokens, logits)
        expected = classes_of(truth, logits)
        valid = counted(expected, logits.shape[-1])
        rows = logits.reshape(-1, logits.shape[-1])[valid]
        if not len(rows):
            return np.zeros(2)
        highest = rows.max(1, keepdims=True)
        sums = np.log(np.exp(rows - highest).sum(1)) + highest[:, 0]
        own = np.take_along_axis(rows, expected[valid][:, None], 1)[:, 0]
        return np.array([(sums - own).sum(), len(rows)])

    def finish(sums: Array) -> float:
        return float(np.exp(share(sums)))

    return Metric("perplexity", False, call, finish, summary="perplexity of a language model")


def token_agreement(options: AgreementOptions) -> Metric:
    """Share of places where the likeliest token is the original's; padding does not count."""

    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Array:
        own, other = (pick_output(each, options.output) for each in (outputs, labels))
        if own.ndim < 2:
            raise CannotJudge(f"the output has shape {list(own.shape)}; scores have (batch, ..., vocabulary)")
        same = own.argmax(-1) == other.argmax(-1)
        mask = feeds.get("attention_mask")
        if mask is not None and same.ndim == 2 and mask.ndim == 2 and mask.shape[1] >= same.shape[1]:
            same = same[np.asarray(mask)[:, -same.shape[1] :] != 0]
        return np.array([same.sum(), same.size])

    return Metric("token-agreement", True, call, share, "original", summary="share of tokens that stay the original's")


def _next_tokens(feeds: Feeds, tokens: str, logits: Array) -> Array:
    """Each place's next token; the last has none, nor has padding."""
    if tokens not in feeds:
        raise CannotJudge(f"the samples have neither labels nor '{tokens}'")
    ids = np.asarray(feeds[tokens], np.int64)
    if ids.shape != logits.shape[:-1] or ids.shape[-1] < 2:
        raise CannotJudge(
            f"without labels the next of '{tokens}' is expected, and that has shape {list(ids.shape)} for logits of "
            f"shape {list(logits.shape)}: two tokens are the least"
        )
    following = np.full_like(ids, IGNORED)
    following[..., :-1] = ids[..., 1:]
    mask = feeds.get("attention_mask")
    if mask is not None and np.shape(mask) == ids.shape:
        real = np.asarray(mask) != 0
        following[..., :-1][~(real[..., 1:] & real[..., :-1])] = IGNORED
    return following
