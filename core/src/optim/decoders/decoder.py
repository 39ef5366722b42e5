"""``Decoder``: a decoder that ``optim.load`` opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim.arrays import Array, Feeds


class Decoder(ABC):
    """Generates text with exported graphs. All other members are those of its session, such as ``run``.

    Attributes:
        session: session of the decoder: an ``onnxruntime.InferenceSession``, or one of another runtime. It takes
            adapters if its graph does.
        encoder: session of the encoder, if there is one.
        facts: facts of ``export.json``: token ids that end and pad a text, and the first token of a decoder.
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
        adapter: Any = None,
    ) -> Array:
        """Continues a prompt.

        Args:
            prompt: token ids, shape (batch, sequence), or lists of them, which are padded to one length; or arrays by
                name: ``input_ids`` with ``attention_mask`` for padded rows, or inputs of the encoder.
                ``decoder_input_ids`` start a decoder with an encoder.
            max_new_tokens: largest number of new tokens.
            sample: draw tokens at random, instead of the likeliest.
            temperature: divides the logits, > 0. Below 1, likely tokens become likelier.
            top_k: draw from the likeliest so many tokens; 0: all.
            top_p: draw from the fewest tokens whose probabilities add up to this, 0..1; 1: all.
            seed: random seed for the draw.
            stop: tokens that end a row, beside the ends of text of the model.
            adapter: None: that of ``optim.load``; an empty sequence: none. Arrays for the encoder go to the encoder.
                Generations with different adapters may run at the same time.

        Returns:
            New tokens, int64, shape (batch, tokens). Padding ids follow the end of text of a row.

        Raises:
            OptimError[bad-prompt]: the model cannot take the prompt, or has no room for it and its answer.
            OptimError[bad-generation]: the options for drawing tokens, or their number, are wrong.
            OptimError[past-too-large]: the machine has no memory for the past.
            OptimError[adapter-not-taken]: the model takes no adapters. There are further errors for an adapter that
                does not fit.
        """

    @abstractmethod
    def stream(
        self,
        prompt: Feeds | Array | list[list[int]],
        *,
        max_new_tokens: int,
        seed: int = 0,
        stop: Sequence[int] = (),
        adapter: Any = None,
    ) -> Iterator[Array]:
        """Yields the likeliest tokens one by one, each of shape (batch,), until every row has ended.

        Args:
            prompt: as in ``generate``.
            max_new_tokens: largest number of new tokens.
            seed: random seed.
            stop: tokens that end a row, beside the ends of text of the model.
            adapter: adapter of the decoder.

        Raises:
            OptimError[bad-prompt]: the model cannot take the prompt, or has no room for it and its answer.
            OptimError[bad-generation]: the number of tokens is negative.
            OptimError[past-too-large]: the machine has no memory for the past.
        """
