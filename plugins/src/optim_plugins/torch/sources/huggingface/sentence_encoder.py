"""Folders of sentence-transformers: what their ``modules.json`` puts behind the transformer becomes part of the graph.

    input_ids, attention_mask -> transformer -> Pooling -> Dense -> Normalize -> sentence_embedding

Pooling as in sentence-transformers, ``models/Pooling.py``: tokens that the mask hides count nowhere. Several modes are
put side by side, in the order of :data:`_MODES`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from optim import OptimError
from optim.source import MODULES_FILE

OUTPUT = "sentence_embedding"
_SMALL = 1e-9


def _mean(tokens: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    return (tokens * shown).sum(1) / shown.sum(1).clamp(min=_SMALL)


def _mean_sqrt_len(tokens: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    return (tokens * shown).sum(1) / shown.sum(1).clamp(min=_SMALL).sqrt()


def _first(tokens: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    """Of a row that is padded on the left the first that is shown."""
    place = shown.argmax(1, keepdim=True).expand(-1, -1, tokens.shape[-1])
    return tokens.gather(1, place).squeeze(1)


def _last(tokens: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    places = torch.arange(1, tokens.shape[1] + 1, device=tokens.device).reshape(1, -1, 1)
    place = (shown * places).argmax(1, keepdim=True).expand(-1, -1, tokens.shape[-1])
    return (tokens * shown).gather(1, place).squeeze(1)


def _most(tokens: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    return torch.where(shown > 0, tokens, torch.full_like(tokens, -1e9)).amax(1)


def _weighted_mean(tokens: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    """Tokens count by their place among those that are shown."""
    weights = shown.cumsum(1) * shown
    return (tokens * weights).sum(1) / weights.sum(1).clamp(min=_SMALL)


_MODES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cls": _first,
    "max": _most,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt_len,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
}
_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""As sentence-transformers wrote them before it had one word for it."""

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Tanh": torch.tanh,
    "Identity": lambda x: x,
    "ReLU": torch.relu,
    "GELU": torch.nn.functional.gelu,
    "Sigmoid": torch.sigmoid,
}


@dataclass(frozen=True, slots=True)
class SentenceParts:
    """What a folder of sentence-transformers is made of.

    Attributes:
        transformer: folder of the model of transformers.
        after: what comes behind it: modules of torch, the first of which takes token embeddings and the mask.
        weight_files: safetensors of those.
    """

    transformer: Path
    after: tuple[torch.nn.Module, ...]
    weight_files: tuple[Path, ...]


class Pooling(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """One embedding of those of the tokens."""

    def __init__(self, modes: Sequence[str]) -> None:
        super().__init__()
        self.modes = tuple(modes)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """From (batch, length, width) and (batch, length)."""
        shown = mask.unsqueeze(-1).to(tokens.dtype)
        return torch.cat([_MODES[mode](tokens, shown) for mode in self.modes], 1)


class Dense(torch.nn.Module):  # type: ignore[misc]
    """A product with a bias and an activation."""

    def __init__(self, linear: torch.nn.Linear, activation: str) -> None:
        super().__init__()
        self.linear, self.activation = linear, _ACTIVATIONS[activation]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of embeddings."""
        return self.activation(self.linear(x))


class Normalize(torch.nn.Module):  # type: ignore[misc]
    """Embeddings of length 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of embeddings."""
        return torch.nn.functional.normalize(x, dim=1)


class SentenceEncoder(torch.nn.Module):  # type: ignore[misc]
    """A transformer and what comes behind it, called as the transformer is."""

    def __init__(self, transformer: torch.nn.Module, after: Sequence[torch.nn.Module]) -> None:
        super().__init__()
        self.transformer = transformer
        self.pooling, *rest = after
        self.rest = torch.nn.Sequential(*rest)

    def forward(self, attention_mask: torch.Tensor, **named: Any) -> dict[str, torch.Tensor]:
        """Inputs of the transformer, of which the mask says which tokens count."""
        found = self.transformer(attention_mask=attention_mask, **named)
        return {OUTPUT: self.rest(self.pooling(found["last_hidden_state"], attention_mask))}


def sentence_parts(folder: Path) -> SentenceParts | None:
    """The parts of a folder; None where it is no folder of sentence-transformers.

    Raises:
        OptimError[source-config-unreadable]: a file of it cannot be read.
        OptimError[source-unknown-module]: a part, a way of pooling or an activation that is not known here.
        OptimError[source-is-pickled]: weights of a part are a pickle.
    """
    if not (folder / MODULES_FILE).is_file():
        return None
    kinds = []
    for entry in _list(folder / MODULES_FILE):
        place = folder / str(entry.get("path", ""))
        if not place.resolve().is_relative_to(folder.resolve()):
            raise _unknown(folder, f"modules.json names {entry.get('path')}, which lies outside")
        kinds.append((str(entry.get("type", "")).rpartition(".")[2], place))
    names = [kind for kind, _ in kinds]
    if names[:2] != ["Transformer", "Pooling"]:
        begins = ", ".join(names[:2]) or "nothing"
        raise _unknown(folder, f"modules.json begins with {begins}, and not with Transformer, Pooling")
    after: list[torch.nn.Module] = [Pooling(_modes(kinds[1][1], folder))]
    weights: list[Path] = []
    for kind, place in kinds[2:]:
        if kind == "Dense":
            after.append(_dense(place, folder))
            weights.append(place / "model.safetensors")
        elif kind == "Normalize":
            after.append(Normalize())
        else:
            raise _unknown(folder, f"modules.json has a {kind or 'part without a type'}")
    return SentenceParts(kinds[0][1], tuple(after), tuple(weights))


def _modes(place: Path, folder: Path) -> list[str]:
    config = _table(place / "config.json")
    said = config.get("pooling_mode")
    named = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    named = named or [mode for flag, mode in _FLAGS.items() if config.get(flag)]
    found = [mode for mode in _MODES if mode in named]
    if not found or len(found) != len(named):
        raise _unknown(folder, f"it pools by {', '.join(map(str, named)) or 'nothing'}")
    return found


def _dense(place: Path, folder: Path) -> Dense:
    from safetensors.torch import load_file

    config = _table(place / "config.json")
    activation = str(config.get("activation_function", "torch.nn.modules.linear.Identity")).rpartition(".")[2]
    if activation not in _ACTIVATIONS:
        raise _unknown(folder, f"its Dense has the activation {activation}")
    file = place / "model.safetensors"
    if not file.is_file():
        raise OptimError.usage(
            "source-is-pickled",
            f"{place} has no weights that can be read",
            "its weights are not safetensors",
            "save it again: SentenceTransformer(FOLDER).save(OTHER)",
        )
    weights = load_file(file)
    try:
        sizes = int(config["in_features"]), int(config["out_features"])
        linear = torch.nn.Linear(*sizes, bias=bool(config.get("bias", True)))
        linear.load_state_dict({name.removeprefix("linear."): tensor.float() for name, tensor in weights.items()})
    except (KeyError, TypeError, ValueError, RuntimeError) as error:  # sizes that are none, or weights of other sizes
        raise _unreadable(place / "config.json", str(error)) from error
    return Dense(linear, activation)


def _list(path: Path) -> list[dict[str, Any]]:
    found = _json(path)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise _unreadable(path, "it is not a list of parts")
    return found


def _table(path: Path) -> dict[str, Any]:
    found = _json(path)
    if not isinstance(found, dict):
        raise _unreadable(path, "it is not a table")
    return found


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, why: str) -> OptimError:
    return OptimError("source-config-unreadable", f"{path} cannot be read", why, "copy the folder again")


def _unknown(folder: Path, why: str) -> OptimError:
    return OptimError.usage(
        "source-unknown-module",
        f"{folder} is a folder of sentence-transformers that cannot be exported",
        why,
        "write mine.py, whose factory() returns a module with example inputs: optim run mine:factory -o OUT",
    )
