"""Word error rate, by jiwer (extra ``wer``)."""

from __future__ import annotations

import importlib
from itertools import groupby
from typing import Any

import numpy as np
from pydantic import Field

from optim import Metric, OptimError, PassOptions
from optim.arrays import Array, Feeds, Outputs
from optim_plugins.metrics.pick import IGNORED, pick_label, pick_output
from optim_plugins.metrics.share import share


class WerOptions(PassOptions):
    """What is read, and how tokens become text."""

    output: str = Field(
        default="",
        description="what is read: text, token ids, or scores (batch, sequence, vocabulary), of which the highest "
        "counts; the first output if empty",
    )
    label: str = Field(
        default="",
        description="name of the labels, text or token ids; -100 does not count; a token is a word unless 'decode' "
        "makes text of it",
    )
    decode: str = Field(
        default="", description="package.module:function, called with a list of token ids, returns their text"
    )
    blank: int | None = Field(
        default=None,
        description="token of connectionist temporal classification (CTC): repeated tokens count once, blanks not",
    )


def wer(options: WerOptions) -> Metric:
    """Words wrong, left out or added, of those in the labels, over all samples together.

    Raises:
        OptimError[metric-library-missing]: jiwer is not installed.
        OptimError[unknown-metric]: there is no function ``decode``.
    """
    process_words = _jiwer()
    to_text = _import(options.decode) if options.decode else lambda ids: " ".join(map(str, ids))

    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Array:
        truth = _texts(pick_label(labels, options.label), to_text, None)
        found = _texts(pick_output(outputs, options.output), to_text, options.blank)
        if len(truth) != len(found):
            truth, found = [" ".join(truth)], [" ".join(found)]
        errors = words = 0
        for expected, heard in zip(truth, found, strict=True):
            words += len(expected.split())
            if not expected.split():  # jiwer takes no empty reference
                errors += len(heard.split())
                continue
            compared = process_words(expected, heard)
            errors += compared.substitutions + compared.deletions + compared.insertions
        return np.array([errors, words])

    return Metric("wer", False, call, share, needs_labels=True, summary="word error rate, by jiwer")


def _texts(array: Array, to_text: Any, blank: int | None) -> list[str]:
    """One text for each row."""
    if array.dtype.kind in "SUOT":
        return [word.decode() if isinstance(word, bytes) else str(word) for word in array.ravel().tolist()]
    ids = array.argmax(-1) if array.dtype.kind == "f" else array
    rows = np.atleast_2d(ids).reshape(-1, ids.shape[-1] if ids.ndim else 1).tolist()
    if blank is not None:
        rows = [[token for token, _ in groupby(row) if token != blank] for row in rows]
    return [to_text([token for token in row if token != IGNORED]) for row in rows]


def _jiwer() -> Any:
    try:
        return importlib.import_module("jiwer").process_words
    except ImportError as error:
        raise OptimError.usage(
            "metric-library-missing", "the metric wer needs jiwer", str(error), "pip install 'jiwer>=3.0'"
        ) from error


def _import(spec: str) -> Any:
    module, _, name = spec.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:
        raise OptimError.usage(
            "unknown-metric",
            f"there is no function {spec}",
            f"{type(error).__name__}: {error}",
            "decode='package.module:function', which takes token ids and returns their text",
        ) from error
