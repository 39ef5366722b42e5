"""What a plugin hands back is not trusted, and neither is what it did to the files it was given.

Outputs are compared by name, on some samples, elsewhere. A program may also give inputs and read outputs by their
place, send other sizes, or call a model a million times: :func:`hidden_differences` finds what such a program meets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import onnx
from pydantic import ValidationError

from optim.errors import OptimError, some_of
from optim.jobs.process import encodable
from optim.jobs.wire import from_wire, to_wire
from optim.model import Model
from optim.onnx.adapter_inputs import lost_adapter_inputs
from optim.onnx.checker import check_graph
from optim.onnx.data_files import file_digest
from optim.onnx.external_data import external_files
from optim.onnx.files import describe_model
from optim.onnx.operators import walk_nodes
from optim.onnx.skeleton import read_skeleton
from optim.passes import Pass, PassResult

if TYPE_CHECKING:
    import onnx_ir as ir

T = TypeVar("T")

_LONGEST_NOTE, _MOST_NOTES = 2_000, 100
"""Characters of a note, and notes of a step: with a library's whole log in it, no program opens a report any more."""

_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomUniform")
"""The beginnings of the names of operators that give other numbers in each call."""
_NAMED = 4
"""Inputs or outputs that a sentence names."""

PLUGINS_ISSUE = "leave the pass out (--without), and report this to its plugin"


@dataclass(frozen=True, slots=True)
class Untouched:
    """A model's files, and the graph of them that passes share, as they were before a pass was given them."""

    model: Model
    graph: str
    weights: tuple[tuple[str, int, int], ...]
    shared: ir.Model
    outline: int

    @classmethod
    def now(cls, model: Model) -> Untouched:
        """The digest of the graph, size and time of every data file, and what the shared graph is made of."""
        weights = tuple(_seen(model.path.parent / location) for location in external_files(model.path))
        shared = model.ir_to_read()
        return cls(model, file_digest(model.path), weights, shared, _outline(shared))

    def require(self, name: str) -> None:
        """Refuse what the pass ``name`` did.

        Raises:
            OptimError[mutated-input]: a file is gone or not as it was, or the shared graph is not.
        """
        folder = self.model.path.parent
        try:
            same = file_digest(self.model.path) == self.graph and all(
                _seen(folder / seen[0]) == seen or _is_called_rightly(folder / seen[0]) for seen in self.weights
            )
        except OSError:
            same = False
        if not same:
            raise _mutated(name, "it changed its files in the cache")
        if _outline(self.shared) != self.outline:
            raise _mutated(name, "it edited the graph of ir_to_read(), which other passes share")


def _mutated(name: str, cause: str) -> OptimError:
    fix = "a pass changes model.ir(), which is a copy, and writes through context.save or context.adopt"
    return OptimError("mutated-input", f"{name} changed its input model", cause, fix)


def _outline(model: ir.Model) -> int:
    """What a graph is made of: names, operators, and which objects hang together; some microseconds for each node."""
    parts: list[object] = [(value.name, id(value)) for value in (*model.graph.inputs, *model.graph.outputs)]
    parts += [(name, id(value), id(value.const_value)) for name, value in model.graph.initializers.items()]
    for node in model.graph.all_nodes():
        values = ((id(one), one.name, id(one.type), id(one.shape)) for one in node.outputs)
        attributes = ((name, id(one)) for name, one in node.attributes.items())
        parts.append((node.domain, node.op_type, node.name, *map(id, node.inputs), *values, *attributes))
    return hash(tuple(parts))


def _seen(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return path.name, status.st_size, status.st_mtime_ns


def _is_called_rightly(path: Path) -> bool:
    """Returns whether a file of the store has been written anew with the same bytes, as another run may do."""
    return file_digest(path) == path.stem


def require_fit(value: T, kind: type[T], name: str) -> T:
    """``value``, which the pass ``name`` returned, as its contract says, field by field.

    Raises:
        OptimError[bad-result]: it is something else, or has something else inside.
    """
    article = "an" if kind.__name__[0] in "AEIO" else "a"
    if not isinstance(value, kind):
        what = f"{name} returned {type(value).__name__}, not {article} {kind.__name__}"
        raise OptimError("bad-result", what, "its plugin breaks the contract of passes", PLUGINS_ISSUE)
    if isinstance(value, PassResult) and isinstance(value.notes, tuple | list):
        notes = (encodable(note[:_LONGEST_NOTE]) if isinstance(note, str) else note for note in value.notes)
        value = replace(value, notes=tuple(islice(notes, _MOST_NOTES)))
    try:
        return from_wire(kind, to_wire(value))
    except (ValidationError, ValueError) as error:
        problem = str(error)
        if isinstance(error, ValidationError):
            problem = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        what = f"{name} returned {article} {kind.__name__} that does not fit"
        raise OptimError("bad-result", what, problem, PLUGINS_ISSUE) from error


def checked_model(result: PassResult, parent: Model, store: Path, name: str) -> Model:
    """The model of a result as it really is on disk: in the store, valid, described anew.

    Raises:
        OptimError: not-in-store, store-changed, invalid-graph, adapter-input-lost.
    """
    model = result.model
    if model.path.parent.resolve() != store.resolve():
        raise OptimError(
            "not-in-store",
            f"{name} returned a model outside the store",
            str(model.path),
            "a pass returns what context.save or context.adopt gave it",
        )
    found = describe_model(model.path, session=model.session, provenance=(*parent.provenance, name))
    if file_digest(model.path) != model.path.stem:
        raise OptimError("store-changed", f"{name} wrote into a file of the store", model.path.name, PLUGINS_ISSUE)
    try:
        check_graph(read_skeleton(model.path), model.path)
    except OptimError as error:
        what = f"{name} made an invalid graph"
        raise OptimError("invalid-graph", what, error.cause or error.what, PLUGINS_ISSUE) from error
    if lost := lost_adapter_inputs(parent.adapters, found.adapters, (info.name for info in found.inputs)):
        raise OptimError("adapter-input-lost", f"{name} does not keep the inputs of adapters", lost, PLUGINS_ISSUE)
    return found


def require_in_place(result: PassResult, parent: Model, found: Model, made_by: type[Pass]) -> None:
    """Refuse a model with right outputs that programs cannot use in the place of the one before.

    A pass with ``inputs_for`` says that it fixes sizes.

    Raises:
        OptimError[interface-changed]: it has a difference that no output shows, and no interface.
    """
    fixes_sizes = made_by.inputs_for is not Pass.inputs_for
    if result.interface is None and (changes := hidden_differences(parent, found, fixes_sizes=fixes_sizes)):
        what = f"{made_by.name} made a model that does not take the place of the one before"
        fix = "a pass that changes inputs or outputs must return PassResult(interface=...)"
        raise OptimError("interface-changed", what, "; ".join(changes), fix)


def unchanged(result: PassResult, model: Model) -> PassResult:
    """The result of a pass that changed nothing, with a reason in any case."""
    return replace(result, model=model, changed=False, notes=result.notes or ("the model is unchanged",))


def hidden_differences(before: Model, after: Model, *, fixes_sizes: bool = False) -> tuple[str, ...]:
    """Returns a sentence for each difference, with ``it`` for the model ``after``, which may have fixed sizes."""
    sizes = () if fixes_sizes else _fixed_sizes(before, after)
    return (*_other_names(before, after), *sizes, *_new_randomness(before.path, after.path))


def _other_names(before: Model, after: Model) -> Iterator[str]:
    for kind, old, new in (("inputs", before.inputs, after.inputs), ("outputs", before.outputs, after.outputs)):
        names, others = ([info.name for info in infos] for infos in (old, new))
        if lost := [name for name in names if name not in others]:
            yield f"it lacks {kind} {some_of(lost, _NAMED)}"
        if added := [name for name in others if name not in names]:
            yield f"it has more {kind}: {some_of(added, _NAMED)}"
        if sorted(names) == sorted(others) and names != others:
            place = next(place for place, name in enumerate(names) if name != others[place])
            yield f"its {kind} are in another order: '{others[place]}' is in the place of '{names[place]}'"


def _fixed_sizes(before: Model, after: Model) -> Iterator[str]:
    """Sizes of outputs may become known; those of inputs, which programs choose, may not."""
    known = {info.name: info for info in before.inputs}
    for info in after.inputs:
        old_shape = known[info.name].shape if info.name in known else None
        for place, (was, size) in enumerate(zip(old_shape or (), info.shape or (), strict=False)):
            if isinstance(size, int) and not isinstance(was, int):
                yield f"it takes no other size than {size} in dimension {place} of input '{info.name}', which was open"


def _new_randomness(before: Path, after: Path) -> Iterator[str]:
    if (drawn := _random_operators(after)) and not _random_operators(before):
        yield f"it draws random numbers ({', '.join(sorted(drawn))}), so another call may give another answer"


def _random_operators(path: Path) -> set[str]:
    def draws(node: onnx.NodeProto) -> bool:
        trains = node.op_type == "Dropout" and len(node.input) > 2 and bool(node.input[2])
        return trains or node.op_type.startswith(_RANDOM)

    return {node.op_type for node in walk_nodes(read_skeleton(path)) if draws(node)}
