"""One graph that takes a past, or an encoder and a decoder, driven token by token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optim.arrays import Array, Feeds
from optim.decoders import Decoder
from optim.engine.goals import OwnSession, shares_past
from optim.errors import OptimError
from optim_plugins.goals.decoders.interface import DecoderInterface, interface_of, session_inputs
from optim_plugins.goals.decoders.known import generates_alone, require_decoder
from optim_plugins.goals.decoders.prompts import bad_prompt, padded, require_ids, token_rows
from optim_plugins.goals.decoders.sampling import Sampling, choose
from optim_plugins.goals.decoders.steps import MADE, steps_of
from optim_plugins.goals.decoders.tensors import AnySession, tensors_of

if TYPE_CHECKING:
    from optim_plugins.adapted import AdaptedSession
    from optim_plugins.adapted.session import Adapters


class SessionDecoder(Decoder):
    """A decoder over sessions that run its graphs."""

    def __init__(
        self,
        session: AnySession | AdaptedSession,
        facts: Mapping[str, Any] | None = None,
        encoder: AnySession | AdaptedSession | None = None,
    ) -> None:
        self.session = session
        self.encoder = encoder
        self.facts = dict(facts or {})
        self.interface = session_interface(session, self.facts.get("state"))
        require_decoder(self.interface)

    @classmethod
    def of_sessions(cls, sessions: Mapping[str, AnySession], facts: Mapping[str, Any]) -> SessionDecoder:
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
        stop: Sequence[int] = (),
        adapter: Adapters | None = None,
    ) -> Array:
        """As :meth:`optim.Decoder.generate`."""
        try:
            sampling = Sampling(not sample, temperature, top_k, top_p)
        except ValueError as error:
            fix = "decoder.generate(prompt, sample=True, temperature=0.8, top_k=50, top_p=0.95)"
            raise OptimError("bad-generation", "these sampling settings are not possible", str(error), fix) from error
        feeds = self._feeds(prompt)
        tokens = self.stream(
            feeds, max_new_tokens=max_new_tokens, sampling=sampling, seed=seed, stop=stop, adapter=adapter
        )
        chosen = list(tokens)
        batch = next(iter(feeds.values())).shape[0]
        return np.stack(chosen, 1) if chosen else np.zeros((batch, 0), np.int64)

    def stream(
        self,
        prompt: Feeds | Array | list[list[int]],
        *,
        max_new_tokens: int,
        sampling: Sampling | None = None,
        seed: int = 0,
        stop: Sequence[int] = (),
        adapter: Adapters | None = None,
    ) -> Iterator[Array]:
        """As :meth:`optim.Decoder.stream`.

        Args:
            prompt: see there, as the others.
            max_new_tokens: see there.
            sampling: how tokens are drawn; None: the likeliest is taken.
            seed: see there.
            stop: see there.
            adapter: see there.
        """
        _require_counts(max_new_tokens=max_new_tokens, seed=seed)
        feeds = self._feeds(prompt)
        shared = self._share(adapter)
        constants, ids, mask = self._begin(feeds, shared.get("encoder"))
        session, weights = _with_weights(self.session, shared.get("decoder"))
        self._require_known(ids)
        capacity = ids.shape[1] + max_new_tokens
        self._require_room(ids.shape[1], max_new_tokens)
        steps = steps_of(session, self.interface, ids.shape[0], capacity, {**constants, **weights})
        random = np.random.default_rng(seed)
        ends, padding = [*_listed(self.facts.get("eos")), *stop], self._padding
        finished = np.zeros(ids.shape[0], bool)
        for _ in range(max_new_tokens):
            logits = steps.advance(ids, mask)
            token = np.where(finished, padding, choose(logits[:, -1], sampling or Sampling(), random))
            yield token
            finished |= np.isin(token, ends)
            if finished.all():
                return
            ids = token[:, None]
            mask = np.concatenate([mask, np.ones_like(ids)], 1)

    def __getattr__(self, name: str) -> Any:
        """What the session has."""
        if name == "session":  # it is not there yet
            raise AttributeError(name)
        return getattr(self.session, name)

    def _share(self, adapter: Adapters | None) -> dict[str, Adapters]:
        """What the encoder and the decoder are given of an adapter."""
        if adapter is None:
            return {}
        from optim_plugins.adapted import AdaptedSession
        from optim_plugins.adapted.supply import share_out

        sessions = {"decoder": self.session, "encoder": self.encoder}
        taking = {name: one.inputs for name, one in sessions.items() if isinstance(one, AdaptedSession)}
        return share_out(adapter, taking)

    @property
    def _padding(self) -> int:
        ends = _listed(self.facts.get("eos"))
        return int(self.facts.get("pad", ends[0] if ends else 0))

    def _feeds(self, prompt: Feeds | Array | list[list[int]]) -> Feeds:
        """A prompt by name, padded on the left for a decoder and on the right for an encoder."""
        if isinstance(prompt, Mapping):
            self._require(prompt)
            require_ids(prompt)
            return prompt
        self._require({"input_ids": prompt})
        rows = token_rows(prompt)
        if len({row.shape for row in rows}) == 1:
            return {"input_ids": np.stack(rows)}
        if "attention_mask" not in self._takes:
            raise OptimError(
                "bad-prompt",
                "cannot generate from prompts of several lengths at once",
                "the model takes no attention_mask, which would tell padding from text",
                "generate from one prompt at a time",
            )
        return padded(rows, self._padding, on_the_left=self.encoder is None)

    def _require_room(self, prompt: int, new: int) -> None:
        """Refuse what is longer than the context that the model was made for, where that is known."""
        context = self.facts.get("context")
        if self.encoder is None and isinstance(context, int) and prompt + new > context:
            raise OptimError(
                "bad-prompt",
                "the prompt and its answer are longer than the model's context",
                f"{prompt} tokens and {new} new ones are {prompt + new}, and the model was made for {context}",
                f"max_new_tokens={context - prompt}" if prompt < context else "shorten the prompt",
            )

    def _require_known(self, ids: NDArray[np.int64]) -> None:
        """Refuse ids that are no tokens of the model: some tables take them for others."""
        words = next(value.shape[-1] for value in self.session.get_outputs() if value.name == self.interface.logits)
        beyond = (ids >= words) if isinstance(words, int) and self.encoder is None else np.zeros_like(ids, bool)
        if (strange := ids[(ids < 0) | beyond]).size:
            most = f" to {words - 1}" if isinstance(words, int) else " on"
            raise OptimError(
                "bad-prompt",
                "the prompt has ids that are not tokens of the model",
                f"{int(strange[0])} is not an id: ids are 0{most}",
                "make the ids with the tokenizer of this model: tokenizer.json of its folder",
            )

    @property
    def _takes(self) -> list[str]:
        return [value.name for value in (self.encoder or self.session).get_inputs()]

    def _require(self, given: Mapping[str, Any]) -> None:
        """Refuse to begin without what the first run needs."""
        made = {*self.interface.state.values(), *MADE}
        missing = [name for name in self._takes if name not in given and name not in made]
        if missing:
            raise bad_prompt(
                f"the model takes {', '.join(missing)} too", "decoder.generate({'" + missing[0] + "': array, ...})"
            )

    def _begin(self, feeds: Feeds, adapter: Adapters | None) -> tuple[dict[str, Any], NDArray[np.int64], Array]:
        """What stays the same in every step, the first ids and their mask."""
        if self.encoder is None:
            ids = np.asarray(feeds["input_ids"], np.int64)
            mask = np.asarray(feeds.get("attention_mask", np.ones_like(ids)), np.int64)
            known = {*self.interface.state.values(), *MADE, "input_ids"}
            constants = {n: np.asarray(a) for n, a in feeds.items() if n in self.interface.inputs and n not in known}
            return constants, ids, mask
        constants = self._encode(feeds, adapter)
        batch = next(iter(feeds.values())).shape[0]
        start = np.full((batch, 1), int(self.facts.get("decoder_start", 0)), np.int64)
        ids = np.asarray(feeds.get("decoder_input_ids", start), np.int64)
        return constants, ids, np.ones_like(ids)

    def _encode(self, feeds: Feeds, adapter: Adapters | None) -> dict[str, Any]:
        """Keys and values of the encoder, where it computed them, under the names that the decoder takes them by."""
        assert self.encoder is not None
        takes = [value.name for value in self.encoder.get_inputs()]
        given = dict(feeds)
        if "attention_mask" in takes and "attention_mask" not in given:
            given["attention_mask"] = np.ones_like(given["input_ids"])
        session, weights = _with_weights(self.encoder, adapter)
        tensors = tensors_of(session)
        fed = {**{name: np.asarray(given[name]) for name in takes}, **weights}
        outputs = tensors.run({name: tensors.put(tensor) for name, tensor in fed.items()})
        found = {name.replace("present.", "past_key_values.", 1): value for name, value in outputs.items()}
        if "attention_mask" in given:
            found["encoder_attention_mask"] = np.asarray(given["attention_mask"], np.int64)
        return {name: value for name, value in found.items() if name in self.interface.inputs}


def _require_counts(**counts: int) -> None:
    """Refuse negative numbers, by their names."""
    for name, number in counts.items():
        if number < 0:
            raise OptimError(
                "bad-generation",
                f"{name} cannot be {number}",
                "it is 0 or more",
                f"decoder.generate(prompt, {name}=64)",
            )


def _with_weights(
    session: AnySession | AdaptedSession, adapter: Adapters | None
) -> tuple[AnySession, Mapping[str, Any]]:
    """The session below, and tensors of its adapter inputs for a whole generation."""
    from optim_plugins.adapted import AdaptedSession

    if isinstance(session, AdaptedSession):
        return session.session, session.values(adapter)
    return session, {}


def session_interface(session: AnySession | AdaptedSession, state: Mapping[str, str] | None = None) -> DecoderInterface:
    """The interface of a session's graph."""
    outputs = [value.name for value in session.get_outputs()]
    return interface_of(session_inputs(session.get_inputs()), outputs, state)


def _listed(value: Any) -> list[int]:
    return [] if value is None else [int(one) for one in value] if isinstance(value, list | tuple) else [int(value)]


def opened(sessions: Mapping[str, Any], facts: Mapping[str, Any]) -> SessionDecoder | None:
    """What drives the sessions of a folder; None where one alone generates nothing that is known to be text.

    Args:
        sessions: by component.
        facts: of an export, which says that they generate; empty where the graph alone tells it.
    """
    if facts:
        return SessionDecoder.of_sessions(sessions, facts)
    (session,) = sessions.values()
    if isinstance(session, OwnSession):
        return SessionDecoder(session) if generates_alone(session.model) else None
    metadata = session.get_modelmeta().custom_metadata_map if hasattr(session, "get_modelmeta") else {}
    return SessionDecoder(session) if shares_past(metadata) and session_interface(session).is_decoder else None
