"""Counterparts of steps on text: the tokenizers library, and NumPy in float64."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from optim_prepost.plans.settings import read_vocabulary
from optim_prepost.reference.arrays import Array, Arrays

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def bert_tokenizer(
    text: Array, tokenizer_param: Any, need_token_type_ids_output: bool = False, name: str | None = None
) -> Arrays:
    """WordPiece with [CLS] and [SEP] around one text, or two: ids, mask, and which text a token is of, [1, tokens]."""
    words = [str(part) for part in np.asarray(text).ravel()]
    tokenizer = _tokenizer(json.dumps(tokenizer_param["params"], sort_keys=True))
    encoded = tokenizer.encode(words[0], words[1] if len(words) > 1 else None)
    rows = (encoded.ids, encoded.attention_mask, encoded.type_ids)
    return tuple(np.array([row], dtype=np.int64) for row in rows[: 2 if need_token_type_ids_output else 3])


def bert_tokenizer_qa_decoder(
    start: Array, end: Array, ids: Array, tokenizer_param: Any, name: str | None = None
) -> Arrays:
    """The text between the best start and the best end, pieces of words put together; it begins with a whole word."""
    first, last = int(start.argmax(-1).ravel()[0]), int(end.argmax(-1).ravel()[0])
    tokenizer = _tokenizer(json.dumps(tokenizer_param["params"], sort_keys=True))
    chosen = ids.ravel()[first : last + 1].tolist()
    while chosen and str(tokenizer.id_to_token(chosen[0])).startswith("##"):
        chosen.pop(0)
    return (np.array([tokenizer.decode(chosen, skip_special_tokens=False)], dtype=object),)


def mean_pool(states: Array, mask: Array, name: str | None = None) -> Arrays:
    """Mean over the tokens that the mask keeps."""
    weights = mask.astype(np.float64)[..., None]
    total = (states.astype(np.float64) * weights).sum(1)
    return ((total / np.maximum(weights.sum(1), 1e-9)).astype(np.float32),)


def first_token(states: Array, name: str | None = None) -> Arrays:
    """The state of the first token."""
    return (states[:, 0],)


def unit_length(vector: Array, name: str | None = None) -> Arrays:
    """Rows of length 1."""
    wide = vector.astype(np.float64)
    length = np.linalg.norm(wide, axis=-1, keepdims=True)
    return ((wide / np.maximum(length, 1e-12)).astype(np.float32),)


def answer_span(start: Array, end: Array, name: str | None = None) -> Arrays:
    """The best start and the best end."""
    return start.argmax(-1), end.argmax(-1)


@lru_cache(maxsize=4)
def _tokenizer(params: str) -> Tokenizer:
    """BERT's tokenizer as the tokenizers library builds it from a vocabulary."""
    from tokenizers import Tokenizer
    from tokenizers.decoders import WordPiece as WordPieceDecoder
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing

    given = json.loads(params)
    known = given["vocab_or_file"]
    vocabulary = read_vocabulary(known) if isinstance(known, str) else known
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    lower = bool(given.get("do_lower_case"))
    tokenizer.normalizer = BertNormalizer(lowercase=lower, strip_accents=bool(given.get("strip_accents")))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer
