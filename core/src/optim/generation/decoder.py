"""``Decoder``: one graph that takes a past, or an encoder and a decoder, driven token by token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.arrays import Array, Feeds
from optim.errors import ExitStatus, OptimError
from optim.generation.interface import DecoderInterface, interface_of, session_inputs
from optim.generation.sampling import Sampling, choose
from optim.generation.steps import Steps

if TYPE_CHECKING:
    import onnxruntime


class Decoder:
    """Generates text with exported graphs.

    Attributes:
        session: of the decoder, an ``onnxruntime.InferenceSession``.
        encoder: of the encoder, where there is one.
        facts: of ``export.json``: ids that end and pad a text, the token that a decoder starts with.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        facts: Mapping[str, Any] | None = None,
        encoder: onnxruntime.InferenceSession | None = None,
    ) -> None:
        self.session = session
        self.encoder = encoder
        self.facts = dict(facts or {})
        self.interface = session_interface(session, self.facts.get("state"))
        if not self.interface.is_decoder:
            raise OptimError(
                "not-a-decoder", "the model is no decoder with a past",
                f"it takes {', '.join(self.interface.inputs)} and returns {', '.join(self.interface.outputs)}",
                "export it with --state, or run its session yourself", status=ExitStatus.USAGE,
            )  # fmt: skip

    @classmethod
    def of_sessions(cls, sessions: Mapping[str, onnxruntime.InferenceSession], facts: Mapping[str, Any]) -> Decoder:
        """From the sessions of a source's components."""
        return cls(sessions.get("decoder", next(iter(sessions.values()))), facts, sessions.get("encoder"))

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
    ) -> Array:
        """Continue a prompt.

        Args:
            prompt: token ids, shape (batch, sequence); or by name: ``input_ids`` with ``attention_mask`` where rows
                are padded, or inputs of the encoder. ``decoder_input_ids`` start a decoder with an encoder.
            max_new_tokens: at most so many.
            sample: draw tokens; else the likeliest is taken.
            temperature: see :class:`Sampling`, as ``top_k`` and ``top_p``.
            top_k: 0: all tokens.
            top_p: 1: all tokens.
            seed: of the draw.

        Returns:
            New tokens, int64, shape (batch, tokens); after a row's end of text come padding ids.
        """
        sampling = Sampling(not sample, temperature, top_k, top_p)
        chosen = list(self.stream(prompt, max_new_tokens=max_new_tokens, sampling=sampling, seed=seed))
        batch = _as_feeds(prompt)[next(iter(_as_feeds(prompt)))].shape[0]
        return np.stack(chosen, 1) if chosen else np.zeros((batch, 0), np.int64)

    def stream(
        self, prompt: Feeds | Array | list[list[int]], *, max_new_tokens: int, sampling: Sampling, seed: int = 0
    ) -> Iterator[Array]:
        """Tokens one by one, each of shape (batch,), until every row has ended."""
        feeds = _as_feeds(prompt)
        constants, ids, mask = self._begin(feeds)
        steps = Steps(self.session, self.interface, ids.shape[0], constants)
        random = np.random.default_rng(seed)
        ends = _listed(self.facts.get("eos"))
        padding = int(self.facts.get("pad", ends[0] if ends else 0))
        finished = np.zeros(ids.shape[0], bool)
        for _ in range(max_new_tokens):
            logits = steps.advance(ids, mask)
            token = np.where(finished, padding, choose(logits[:, -1], sampling, random))
            yield token
            finished |= np.isin(token, ends)
            if finished.all():
                return
            ids = token[:, None]
            mask = np.concatenate([mask, np.ones_like(ids)], 1)

    def _begin(self, feeds: Feeds) -> tuple[dict[str, Array], Array, Array]:
        """What stays the same in every step, the first ids and their mask."""
        if self.encoder is None:
            ids = np.asarray(feeds["input_ids"], np.int64)
            mask = np.asarray(feeds.get("attention_mask", np.ones_like(ids)), np.int64)
            known = {*self.interface.state.values(), "input_ids", "attention_mask", "position_ids"}
            return {n: a for n, a in feeds.items() if n in self.interface.inputs and n not in known}, ids, mask
        constants = self._encode(feeds)
        batch = next(iter(feeds.values())).shape[0]
        start = np.full((batch, 1), int(self.facts.get("decoder_start", 0)), np.int64)
        ids = np.asarray(feeds.get("decoder_input_ids", start), np.int64)
        return constants, ids, np.ones_like(ids)

    def _encode(self, feeds: Feeds) -> dict[str, Array]:
        """Keys and values of the encoder, under the names that the decoder takes them by."""
        assert self.encoder is not None
        takes = [value.name for value in self.encoder.get_inputs()]
        given = dict(feeds)
        if "attention_mask" in takes and "attention_mask" not in given:
            given["attention_mask"] = np.ones_like(given["input_ids"])
        names = [value.name for value in self.encoder.get_outputs()]
        outputs = dict(zip(names, self.encoder.run(None, {name: given[name] for name in takes}), strict=True))
        found = {name.replace("present.", "past_key_values.", 1): array for name, array in outputs.items()}
        if "attention_mask" in given:
            found["encoder_attention_mask"] = np.asarray(given["attention_mask"], np.int64)
        return {name: array for name, array in found.items() if name in self.interface.inputs}


def session_interface(
    session: onnxruntime.InferenceSession, state: Mapping[str, str] | None = None
) -> DecoderInterface:
    """The interface of a session's graph."""
    outputs = [value.name for value in session.get_outputs()]
    return interface_of(session_inputs(session.get_inputs()), outputs, state)


def _as_feeds(prompt: Feeds | Array | list[list[int]]) -> Feeds:
    return prompt if isinstance(prompt, Mapping) else {"input_ids": np.asarray(prompt, np.int64)}


def _listed(value: Any) -> list[int]:
    return [] if value is None else [int(one) for one in value] if isinstance(value, list | tuple) else [int(value)]
