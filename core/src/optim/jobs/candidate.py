"""Job: apply one pass to a model, and judge the result as far as that goes without a clock.

What a plugin hands back is not trusted: the input must be as it was, the graph must pass the checker, the backend
must open it on the target, and every output is compared.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optim.errors import OptimError
from optim.gate.drift import OutputComparison
from optim.graphs.checker import check_graph
from optim.graphs.digests import file_digest
from optim.graphs.external_data import external_files
from optim.graphs.files import describe, size_bytes
from optim.graphs.limits import check_limits
from optim.graphs.skeleton import read_skeleton
from optim.jobs.offer import context_for
from optim.jobs.place import Place, Reference, compare_session
from optim.model import Model
from optim.options import parse_options
from optim.passes import Interface, PassResult
from optim.plugins.registry import load_registry
from optim.processes.channel import Channel

_REPORT = "this is a defect of the plugin: report it to its author, and leave the pass out with --without"


@dataclass(frozen=True, slots=True)
class Request:
    """One pass with its options on one model.

    Attributes:
        model: the parent, in the store.
        name: of the pass.
        plugin: that has it.
        options: JSON values.
        place: where the result must run.
        reference: what it is compared with.
        samples: to compare on.
        interfaces: of the steps before.
        store: folder of the store.
        seed: of the run.
    """

    model: Model
    name: str
    plugin: str
    options: dict[str, Any]
    place: Place
    reference: Reference
    samples: tuple[int, ...]
    interfaces: tuple[Interface, ...]
    store: Path
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What the pass did, and how far the result is from the original; no comparisons where nothing changed."""

    result: PassResult
    size_bytes: int
    comparisons: tuple[OutputComparison, ...]
    executed_on: dict[str, float]


def run(request: Request, channel: Channel) -> Answer:
    """Apply, check, open, compare."""
    pass_class = load_registry(only=[request.plugin]).find_pass(request.name, request.place.target).over_models
    options = parse_options(pass_class, request.options)
    before = _fingerprint(request.model)
    with context_for(request.place.target, request.store, request.reference.feeds, request.seed) as context:
        result = pass_class().apply(request.model, options, context)
    _require_untouched(request.model, before)
    if not isinstance(result, PassResult):
        raise OptimError(
            "bad-result", f"{request.name} returned {type(result).__name__}, not a PassResult", fix=_REPORT
        )
    channel.event("applied")
    if not result.changed or result.model.digest == request.model.digest:
        return Answer(
            replace(result, changed=False, notes=result.notes or ("the model came out as it went in",)), 0, (), {}
        )
    model = _checked_model(result.model, request)
    result = replace(result, model=model)
    interfaces = (*request.interfaces, result.interface) if result.interface else request.interfaces
    backend = request.place.backend()
    check_limits(model, backend.limits(), backend.name)
    with backend.open(model, request.place.target) as session:
        channel.event("opened")
        comparisons = compare_session(session, request.reference, request.samples, interfaces)
        return Answer(result, size_bytes(model), tuple(comparisons), dict(session.executed_on))


def _checked_model(model: Model, request: Request) -> Model:
    """The plugin's model as it really is on disk: in the store, valid, described anew."""
    if model.path.parent.resolve() != request.store.resolve():
        raise OptimError(
            "not-in-store", f"{request.name} returned a model outside the store", str(model.path),
            "a pass returns what context.save or context.adopt gave it",
        )  # fmt: skip
    found = describe(model.path, session=model.session, provenance=(*request.model.provenance, request.name))
    if hashlib.sha256(model.path.read_bytes()).hexdigest() != model.path.stem:
        raise OptimError(
            "store-changed", f"{request.name} wrote into a file of the store", model.path.stem[:12], _REPORT
        )
    try:
        check_graph(read_skeleton(model.path), model.path)
    except OptimError as error:
        raise OptimError("invalid-graph", f"{request.name} made an invalid graph", error.cause or error.what) from error
    return found


def _fingerprint(model: Model) -> tuple[str, tuple[tuple[str, int, int], ...]]:
    data = []
    for location in external_files(model.path):
        status = os.stat(model.path.parent / location)  # noqa: PTH116
        data.append((location, status.st_size, status.st_mtime_ns))
    return file_digest(model.path), tuple(data)


def _require_untouched(model: Model, before: object) -> None:
    try:
        same = _fingerprint(model) == before
    except OSError:
        same = False
    if not same:
        raise OptimError(
            "mutated-input", "the pass changed its input model", f"{model.path.stem[:12]} is not as it was", _REPORT
        )
