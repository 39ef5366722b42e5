"""Nested arguments as named tensors: ``mems=[(k, v), ...]`` becomes ``mems.0.0``, ``mems.0.1``, ...

Structures are those that torch itself knows: lists, tuples, dictionaries, named tuples, and what is registered with
its pytrees. Numbers, texts and None in them stay as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from optim import OptimError


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call, taken apart.

    Attributes:
        spec: of torch's pytree, of the mapping from argument to value.
        leaves: values in order; tensors are replaced when the call is put together again.
        names: of the leaves that are tensors, by position among the leaves.
    """

    spec: Any
    leaves: tuple[Any, ...]
    names: Mapping[int, str]

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors by name, in order."""
        return {name: self.leaves[index] for index, name in self.names.items()}

    def call(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """The arguments with other tensors, by name of argument."""
        leaves = list(self.leaves)
        for index, name in self.names.items():
            leaves[index] = tensors[name]
        arguments: dict[str, Any] = pytree.tree_unflatten(leaves, self.spec)
        return arguments


def take_apart(arguments: Mapping[str, Any]) -> Arguments:
    """The arguments of a call by name."""
    with_paths, spec = pytree.tree_flatten_with_path(dict(arguments))
    names = {
        index: ".".join(map(_key, path))
        for index, (path, leaf) in enumerate(with_paths)
        if isinstance(leaf, torch.Tensor)
    }
    return Arguments(spec, tuple(leaf for _, leaf in with_paths), names)


def named_tensors(value: Any, prefix: str) -> dict[str, torch.Tensor]:
    """The tensors of what a module returns: ``prefix.0``, keys of a mapping alone, ``prefix`` for a single one.

    Raises:
        OptimError[output-not-tensors]: it returns something that no graph can.
    """
    if isinstance(value, torch.Tensor):
        return {prefix: value}
    paths, _ = pytree.tree_flatten_with_path(value)
    strange = sorted({type(leaf).__name__ for _, leaf in paths if not isinstance(leaf, torch.Tensor | None)})
    if strange or not paths:
        raise OptimError(
            "output-not-tensors",
            "the module returns something other than tensors",
            f"a {strange[0]}" if strange else "nothing",
            "return tensors, in tuples, lists or dictionaries",
        )
    found = {}
    for path, leaf in paths:
        if leaf is not None:
            keys = [_key(entry) for entry in path]
            keyed = not keys[0].isdigit()
            found[".".join(keys if keyed else [prefix, *keys])] = leaf
    return found


def same_structure(one: Any, other: Any) -> bool:
    """Whether two values are nested alike, and tensors differ in one dimension at most; a list counts as a tuple."""
    one, other = _plain(one), _plain(other)
    a, spec = pytree.tree_flatten(one)
    b, other_spec = pytree.tree_flatten(other)
    tensors = all(isinstance(leaf, torch.Tensor) for leaf in (*a, *b))
    return bool(spec == other_spec and a and tensors and all(map(_alike, a, b)))


def bind(module: torch.nn.Module, example: tuple[Any, ...] | Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a module's forward by name.

    Raises:
        OptimError[example-does-not-fit]: the module takes other arguments.
    """
    signature = signature_of(module)
    try:
        bound = signature.bind(**example) if isinstance(example, Mapping) else signature.bind(*example)
    except TypeError as error:
        raise OptimError(
            "example-does-not-fit",
            "the example inputs are not what the module takes",
            f"forward{signature}: {error}",
            "return (module, (input, ...)) or (module, {'name': input}) from the factory",
        ) from error
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found |= value
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            raise OptimError(
                "example-does-not-fit",
                f"forward{signature} takes any number of inputs",
                f"*{name} gives them no names",
                "give forward a parameter for each input, or one that is a list",
            )
        else:
            found[name] = value
    return found


def signature_of(module: torch.nn.Module) -> inspect.Signature:
    """What a module's forward takes; of one that is scripted or traced, by its schema."""
    if not isinstance(module, torch.jit.ScriptModule):
        return inspect.signature(module.forward)
    arguments = module.forward.schema.arguments[1:]  # after self
    return inspect.Signature(
        [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY if one.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=one.default_value if one.has_default_value() else inspect.Parameter.empty,
            )
            for one in arguments
        ]
    )


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(one.ndim == other.ndim and sum(a != b for a, b in zip(one.shape, other.shape, strict=True)) <= 1)


def _plain(value: Any) -> Any:
    return pytree.tree_map(lambda leaf: leaf, list(value) if isinstance(value, tuple) else value)


def _key(entry: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)
