"""Arguments that are a module's memory: which part of what it returns is fed to its next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from optim import OptimError
from optim.errors import unknown_name
from optim_plugins.torch.arguments.argument_tree import same_structure, signature_of, take_apart


@dataclass(frozen=True, slots=True)
class StateArguments:
    """Where the new state stands in what a module returns.

    Attributes:
        places: by argument, the key or index of its new value among the outputs.
        carried: by output, the input that takes it.
        growing: by input, the dimensions that grow with each step.
    """

    places: Mapping[str, Any] = field(default_factory=dict)
    carried: Mapping[str, str] = field(default_factory=dict)
    growing: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def renamed(self, names: Mapping[str, str]) -> StateArguments:
        """The same under the names of the graph.

        Args:
            names: by a name of the module's, that of the graph.
        """
        return replace(
            self,
            carried={names.get(giver, giver): names.get(taker, taker) for giver, taker in self.carried.items()},
            growing={names.get(name, name): axes for name, axes in self.growing.items()},
        )

    def split(self, found: Any) -> tuple[Any, dict[str, torch.Tensor]]:
        """What a module returned, without its new state; and that, by name of the output."""
        if not self.places:
            return found, {}
        carried: dict[str, torch.Tensor] = {}
        for argument, place in self.places.items():
            tensors = take_apart({argument: found if place is None else found[place]}).tensors()
            carried |= {f"present.{name}": tensor for name, tensor in tensors.items()}
        taken = set(self.places.values())
        if None in taken:
            return None, carried
        if isinstance(found, Mapping):
            return {key: value for key, value in found.items() if key not in taken}, carried
        rest = [value for index, value in enumerate(found) if index not in taken]
        return rest[0] if len(rest) == 1 else tuple(rest) or None, carried


def find_state(
    module: torch.nn.Module, examples: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> tuple[StateArguments, list[dict[str, Any]]]:
    """Run a module to see which outputs are its new state, and which dimensions grow.

    Args:
        module: called with the first example.
        examples: arguments by name; a state that is absent, None or empty is taken from what the module returns.
        names: arguments that are state.

    Returns:
        Where the state is, and the examples with a state each.

    Raises:
        OptimError[unknown-input]: the module has no such argument.
        OptimError[state-not-returned]: nothing that the module returns looks like that argument.
    """
    complete = [dict(example) for example in examples]
    if not names:
        return StateArguments(), complete

    known = signature_of(module).parameters
    for name in names:
        if name not in known:
            raise unknown_name("input", name, known, fix="correct the name in --state")
    with torch.inference_mode():
        found = module(**complete[0])
        places = _places(found, complete[0], names)
        for example in complete:
            missing = [name for name in names if not _tensors(name, example.get(name))]
            if missing:
                returned = module(**example)
                example |= {name: _at(returned, places[name]) for name in missing}
        ordered = {name: complete[0][name] for name in known if name in complete[0]}
        complete[0] = ordered
        after = module(**complete[0])
    growing = {}
    for name in names:
        new = take_apart({name: _at(after, places[name])}).tensors()
        for key, old in take_apart({name: complete[0][name]}).tensors().items():
            if key not in new or new[key].ndim != old.ndim:
                raise _not_returned(name, "it comes back in another structure")
            growing[key] = tuple(axis for axis in range(old.ndim) if old.shape[axis] != new[key].shape[axis])
    carried = {f"present.{key}": key for key in growing}
    return StateArguments(places, carried, growing), [_in_order(example, ordered) for example in complete]


def _places(found: Any, example: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """For each argument the key, or the index, of the output that is its new value."""
    if isinstance(found, torch.Tensor):
        if len(names) == 1 and same_structure(found, example.get(names[0])):
            return {names[0]: None}
        raise _not_returned(names[0], "the module returns one tensor of another shape")
    places: dict[str, Any] = {}
    entries = list(found.items()) if isinstance(found, Mapping) else list(enumerate(found))
    for name in names:
        given = example.get(name)
        by_key = [key for key, _ in entries if isinstance(key, str) and key.removeprefix("new_") == name]
        alike = [key for key, value in entries if key not in places.values() and same_structure(value, given)]
        nested = [key for key, value in entries if key not in places.values() and not isinstance(value, torch.Tensor)]
        if not by_key and not alike and not (nested and not _tensors(name, given)):
            raise _not_returned(name, "no output has its structure")
        places[name] = (by_key or alike[-1:] or nested[-1:])[0]
    return places


def _at(found: Any, place: Any) -> Any:
    return found if place is None else found[place]


def _tensors(name: str, value: Any) -> dict[str, torch.Tensor]:
    return {} if value is None else take_apart({name: value}).tensors()


def _in_order(example: Mapping[str, Any], ordered: Mapping[str, Any]) -> dict[str, Any]:
    return {name: example[name] for name in ordered if name in example}


def _not_returned(name: str, why: str) -> OptimError:
    return OptimError.usage(
        "state-not-returned",
        f"the module does not return a new '{name}'",
        why,
        f"return it beside the other outputs, nested as the argument is: (logits, {name}) or {{'{name}': ...}}",
    )
