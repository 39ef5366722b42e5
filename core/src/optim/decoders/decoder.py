"""``Decoder``: what :func:`optim.load` opens a decoder as, whose sessions a plugin drives token by token."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim.adapters.session import Adapters
    from optim.arrays import Array, Feeds


class Decoder(ABC):
    """Generates text with exported graphs; whatever else it has is its session's own, such as ``run``.

    Attributes:
        session: of the decoder: an ``onnxruntime.InferenceSession``, or one of a runtime of its own; one that
            takes adapters, where its graph does.
        encoder: of the encoder, where there is one.
        facts: of ``export.json``: ids that end and pad a text, the token that a decoder starts with.
    """

    session: Any
    encoder: Any
    facts: dict[str, Any]

    @abstractmethod
    def generate(
        self,
        prompt: Feeds | Array | list[list[int]],
        *,
        max_new_tokens: int = 64,
        sample: bool = False,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop: Sequence[int] = (),
        adapter: Adapters | None = None,
    ) -> Array:
        """Continue a prompt.

        Args:
            prompt: token ids, shape (batch, sequence), or lists of them, which are padded where their lengths differ;
                or by name: ``input_ids`` with ``attention_mask`` where rows are padded, or inputs of the encoder.
                ``decoder_input_ids`` start a decoder with an encoder.
            max_new_tokens: at most so many.
            sample: draw tokens; else the likeliest is taken.
            temperature: logits are divided by it, > 0; below 1 the likely become likelier.
            top_k: only so many are drawn from; 0: all tokens.
            top_p: only the fewest whose probabilities add up to this are drawn from, 0..1; 1: all tokens.
            seed: of the draw.
            stop: tokens that end a row, beside the model's own ends of text.
            adapter: None: that of :func:`optim.load`; an empty sequence: none. Arrays for the encoder go to the
                encoder. Generations with different adapters may be under way at once.

        Returns:
            New tokens, int64, shape (batch, tokens); after a row's end of text come padding ids.

        Raises:
            OptimError[bad-prompt]: the model cannot take it, or has no room for the prompt and its answer.
            OptimError[bad-generation]: tokens cannot be drawn so, or not so many.
            OptimError[past-too-large]: the machine has no memory for the past.
            OptimError[adapter-not-taken]: the model takes no adapters. Others, of one that does not fit.
        """

    @abstractmethod
    def stream(
        self,
        prompt: Feeds | Array | list[list[int]],
        *,
        max_new_tokens: int,
        seed: int = 0,
        stop: Sequence[int] = (),
        adapter: Adapters | None = None,
    ) -> Iterator[Array]:
        """The likeliest tokens one by one, each of shape (batch,), until every row has ended.

        Args:
            prompt: as of :meth:`generate`, like the others.
            max_new_tokens: at most so many.
            seed: of the draw.
            stop: tokens that end a row, beside the model's own ends of text.
            adapter: of the decoder.

        Raises:
            OptimError[bad-prompt]: the model cannot take it, or has no room for the prompt and its answer.
            OptimError[bad-generation]: less than no tokens are asked for.
            OptimError[past-too-large]: the machine has no memory for the past.
        """
