"""Modules of torch in a pipeline: their nested arguments as named tensors, their export, and what replaces them."""

from __future__ import annotations

import copy
import inspect
import sys
from collections import Counter, UserDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.utils import _pytree as pytree

import optim
from optim import OptimError
from optim.arrays import Array
from optim_plugins.record.kept import Room
from optim_plugins.record.modules import Call, ModuleCall, ModuleListener, NoGraphError, PipelineModule
from optim_plugins.record.values import as_array

_CONSTANTS = (type(None), bool, int, float, str, torch.dtype, torch.device)
FILE = "module.pt"


@dataclass(frozen=True, slots=True)
class Nested:
    """A nested value taken apart.

    Attributes:
        spec: of torch's pytree.
        leaves: in order.
        names: of the leaves that are tensors, by their place.
    """

    spec: Any
    leaves: tuple[Any, ...]
    names: Mapping[int, str]

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors by name."""
        return {name: self.leaves[index] for index, name in self.names.items()}

    def arrays(self) -> dict[str, Array]:
        """The tensors as arrays."""
        return {name: as_array(one) for name, one in self.tensors().items()}

    def with_tensors(self, tensors: Mapping[str, torch.Tensor]) -> Any:
        """The value with other tensors."""
        leaves = list(self.leaves)
        for index, name in self.names.items():
            leaves[index] = tensors[name]
        return pytree.tree_unflatten(leaves, self.spec)

    @property
    def key(self) -> Any:
        """The same for values that differ in what tensors hold, and in their sizes, alone."""
        return self.spec, [
            (str(leaf.dtype), leaf.ndim) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves
        ]


def take_apart(value: Any, names: Sequence[str] = (), single: str = "output") -> Nested:
    """A nested value; ``names`` are those of the positional arguments, where it is ``(args, kwargs)``."""
    with_paths, spec = pytree.tree_flatten_with_path(_plain(value))
    places = {i: _keys(path, names) for i, (path, leaf) in enumerate(with_paths) if isinstance(leaf, torch.Tensor)}
    short = {i: keys[-1] if keys else single for i, keys in places.items()}
    times = Counter(short.values())
    return Nested(
        spec,
        tuple(leaf for _, leaf in with_paths),
        {
            i: short[i] if times[short[i]] == 1 and not short[i].isdigit() else ".".join([single, *keys])
            for i, keys in places.items()
        },
    )


def _keys(path: Sequence[Any], names: Sequence[str]) -> list[str]:
    """The path of a leaf; of the arguments of a call the first is ``args`` or ``kwargs``."""
    keys = [str(next(getattr(one, a) for a in ("key", "idx", "name") if hasattr(one, a))) for one in path]
    if not names:
        return keys
    is_positional, rest = keys[0] == "0", keys[1:]
    if is_positional:
        place = int(rest[0])
        rest[0] = names[place] if place < len(names) else f"{names[-1]}.{place}"
    return rest


def parameters_of(function: Call) -> list[str]:
    """Names of the parameters of ``forward``; at least one."""
    try:
        return list(inspect.signature(function).parameters) or ["input"]
    except (TypeError, ValueError):
        return ["input"]


class FlatCall(torch.nn.Module):  # type: ignore[misc] # torch may be missing where types are checked
    """A module called with named tensors, which returns named tensors; what is no tensor is as in an example."""

    def __init__(self, module: torch.nn.Module, example: Any, names: Sequence[str], outputs: Mapping[int, str]) -> None:
        super().__init__()
        self.module = module
        self.nested = take_apart(example, names, "input")
        self.outputs = outputs

    def forward(self, **tensors: torch.Tensor) -> dict[str, torch.Tensor]:
        """Put the arguments together, and take apart what comes back."""
        args, kwargs = self.nested.with_tensors(tensors)
        leaves = pytree.tree_leaves(self.module(*args, **kwargs))
        return {name: leaves[index] for index, name in self.outputs.items()}


def recorded_module(folder: str) -> tuple[torch.nn.Module, list[dict[str, torch.Tensor]]]:
    """The factory that an export calls in a process of its own: the module that a pipeline was recorded with."""
    path = Path(folder) / FILE
    sys.path.extend(one for one in (Path(folder) / "path.txt").read_text().splitlines() if one not in sys.path)
    held = torch.load(path, weights_only=False)  # optim has written it a moment ago
    made = FlatCall(held["module"], held["examples"][0], held["names"], held["outputs"])
    return made.eval(), [take_apart(one, held["names"], "input").tensors() for one in held["examples"]]


@dataclass(frozen=True, slots=True)
class _Whole:
    """What is kept of a call beside its arrays.

    Attributes:
        given: the arguments.
        returned: the result; tensors that are those of the arguments are not among its names.
        same: by place among the leaves of the result, that of the argument that it is.
        container: whether the result is the first argument itself, a dictionary that was written into.
    """

    given: Nested
    returned: Nested
    same: Mapping[int, int]
    container: bool


class PipelineTorchModule(PipelineModule):
    """A ``torch.nn.Module``, called through ``forward``."""

    kind = "torch"
    attribute = "forward"
    gains_by_export = True

    def __init__(self, name: str, subject: Any, room: Room) -> None:
        super().__init__(name, subject, room)
        self.parameters = parameters_of(self.original)

    @property
    def device(self) -> str:
        """Of its first parameter."""
        first = next((one.device.type for one in self.subject.parameters()), "cpu")
        return str(first)

    def synchronize(self) -> None:
        """Wait for the GPU."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def before(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The arguments, with copies of their tensors."""
        return pytree.tree_map(_copied, _plain((args, dict(kwargs))))

    def after(self, kept: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], returned: Any) -> ModuleCall:
        """The call with copies of all tensors."""
        given = take_apart(kept, self.parameters, "input")
        try:
            whole = _whole(given, args, take_apart((args, dict(kwargs)), self.parameters, "input"), returned)
        except NoGraphError as error:
            return ModuleCall(given.arrays(), {}, problem=str(error), whole=_Whole(given, given, {}, False))
        return ModuleCall(given.arrays(), whole.returned.arrays(), key=given.key, whole=whole)

    def prepare(self, calls: Sequence[ModuleCall], folder: Path, say: Callable[[str], None]) -> Path:
        """Export the module in a process of its own, and compare the graph with it."""
        examples = [one.whole.given for one in _examples(calls)]
        held = {
            "module": self.subject,
            "examples": [one.with_tensors(one.tensors()) for one in examples],
            "names": self.parameters,
            "outputs": calls[0].whole.returned.names,
        }
        with TemporaryDirectory(prefix="optim-record-") as scratch:
            _write(held, Path(scratch))
            factory = f"{recorded_module.__module__}:{recorded_module.__name__}"
            try:
                optim.export(factory, folder, arguments={"folder": scratch}, say=say)
            except OptimError as error:
                raise NoGraphError(f"it cannot be exported: {error.what}: {error.cause}") from error
        return folder

    def bind(self, session: Any, call: ModuleCall) -> Call:
        """Run the session where a call is like one that was recorded; else the module itself."""
        whole: _Whole = call.whole
        names = {one.name for one in session.get_inputs()}
        sizes = {one.name: one.shape for one in session.get_inputs()}
        order = [one.name for one in session.get_outputs()]

        def run(*args: Any, **kwargs: Any) -> Any:
            nested = take_apart((args, kwargs), self.parameters, "input")
            if self.subject.training or nested.key != call.key or not _fits(nested, sizes):
                return self.original(*args, **kwargs)
            feeds = {name: as_array(one) for name, one in nested.tensors().items() if name in names}
            device = next(iter(nested.tensors().values())).device
            made = dict(zip(order, session.run(None, feeds), strict=True))
            leaves = list(whole.returned.leaves)
            for place, name in whole.returned.names.items():
                leaves[place] = torch.from_numpy(made[name]).to(device, leaves[place].dtype)
            for place, argument in whole.same.items():
                leaves[place] = nested.leaves[argument]
            returned = pytree.tree_unflatten(leaves, whole.returned.spec)
            if not whole.container:
                return returned
            args[0].update(returned)
            return args[0]

        return run

    def inner(self, room: Room) -> list[PipelineModule]:
        """The outermost modules inside that are called."""
        found: list[PipelineModule] = [
            PipelineTorchModule(f"{self.name}.{name}", module, room)
            for name, module in self.subject.named_modules()
            if name
        ]
        with ModuleListener(found), torch.no_grad():
            for call in self.calls.calls:
                given: Nested = call.whole.given
                args, kwargs = pytree.tree_map(_copied, given.with_tensors(given.tensors()))
                self.original(*args, **kwargs)
        return [one for one in found if one.calls.count]


def _whole(given: Nested, args: tuple[Any, ...], now: Nested, returned: Any) -> _Whole:
    """What a call did to its arguments, and what it returned.

    Args:
        given: the arguments, copied before the call.
        args: those by position.
        now: the arguments after the call.
        returned: the result.

    Raises:
        NoGraphError: a graph cannot do that.
    """
    container = bool(args) and isinstance(returned, dict | UserDict) and returned is args[0]
    for leaf in given.leaves:
        if not isinstance(leaf, (torch.Tensor, *_CONSTANTS)):
            raise NoGraphError(f"it takes a {type(leaf).__name__}, and a graph takes tensors")
    if not container and now.spec != given.spec:
        raise NoGraphError("it adds to its arguments or removes from them, which a graph cannot do")
    after = now.tensors()
    for name, tensor in given.tensors().items():
        if name in after and not _equal(tensor, after[name]):
            raise NoGraphError(f"it changes its input '{name}' in place, which a graph cannot do")
    found, places = take_apart(returned), {name: place for place, name in given.names.items()}
    own = {id(tensor): places[name] for name, tensor in after.items() if name in places}
    same = {place: own[id(leaf)] for place, leaf in enumerate(found.leaves) if id(leaf) in own}
    for leaf in found.leaves:
        if not isinstance(leaf, (torch.Tensor, *_CONSTANTS)):
            raise NoGraphError(f"it returns a {type(leaf).__name__}, and a graph returns tensors")
    names = {place: name for place, name in found.names.items() if place not in same}
    if not names:
        raise NoGraphError("it returns no tensor of its own")
    copies = Nested(found.spec, tuple(map(_copied, found.leaves)), names)
    return _Whole(given, copies, same, container)


def _plain(value: Any) -> Any:
    """The value with plain dictionaries for those that torch does not take apart, such as a tokenizer's."""
    if isinstance(value, UserDict) or type(value) is dict:
        return {key: _plain(one) for key, one in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (tuple, list) else value


def _copied(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else copy.deepcopy(leaf)


def _equal(one: torch.Tensor, other: Any) -> bool:
    if not isinstance(other, torch.Tensor) or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _fits(nested: Nested, sizes: Mapping[str, Sequence[Any]]) -> bool:
    """Whether the tensors have the sizes that a graph has fixed."""
    tensors = nested.tensors()
    return all(
        not isinstance(size, int) or size == own
        for name, shape in sizes.items()
        for own, size in zip(tensors[name].shape, shape, strict=True)
    )


def _examples(calls: Sequence[ModuleCall]) -> list[ModuleCall]:
    """The first call, and for each size that varies a call that shows it."""
    sizes = [[size for array in call.given.values() for size in array.shape] for call in calls]
    first, shown, found = sizes[0], set[int](), [calls[0]]
    for call, own in zip(calls, sizes, strict=True):
        varies = {place for place, size in enumerate(own) if size != first[place]}
        if not varies <= shown:
            shown |= varies
            found.append(call)
    return found


def _write(held: Mapping[str, Any], folder: Path) -> None:
    """Pickle a module; classes of the main program go along where cloudpickle is installed."""
    (folder / "path.txt").write_text("\n".join(sys.path))
    try:
        import cloudpickle as by  # type: ignore[import-untyped]
    except ImportError:
        import pickle as by

        own = sorted({type(one).__name__ for one in held["module"].modules() if type(one).__module__ == "__main__"})
        if own:
            raise NoGraphError(
                f"{own[0]} is defined in the main program, which the process that exports it cannot import:"
                " pip install cloudpickle, or move the class into a module"
            ) from None
    try:
        torch.save(held, folder / FILE, pickle_module=by)
    except Exception as error:
        what = "it cannot be handed to the process that exports it"
        raise NoGraphError(f"{what}: {type(error).__name__}: {error}") from error
