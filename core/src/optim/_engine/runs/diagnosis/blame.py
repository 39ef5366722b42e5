"""Which nodes of a model make it differ from another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from optim._engine.diagnosis import blame_job
from optim._engine.jobs import prepare
from optim._engine.runs.compare.conditions import Conditions, notes_on_targets, other_model, workbench_for
from optim._engine.store import names_in_messages
from optim.errors import ExitStatus, OptimError
from optim.model import Model


@dataclass(frozen=True, slots=True)
class Blame:
    """What was found, and on which feeds."""

    found: blame_job.Answer
    prepared: prepare.Answer


def blame_models(reference: Path, other: Path, conditions: Conditions, names: Mapping[str, str]) -> Blame:
    """Find the nodes of ``other`` that are given what the reference's are and make something else.

    Args:
        reference: an ``.onnx`` file or a run folder.
        other: the same.
        conditions: under which both run.
        names: of inputs and outputs of ``other`` by those of the reference, where they differ.

    Raises:
        OptimError: interface-differs, no-common-tensor; a model or the feeds cannot be used.
    """
    with workbench_for(reference, conditions, beside=[other]) as (bench, first):
        candidate = other_model(bench, other, renamed=True)
        second = candidate.model
        known = _interface(first.model, second, names)
        request = blame_job.Request(
            reference=first.model,
            other=second,
            place=bench.place,
            feeds=bench.reference.feeds,
            samples=bench.prepared.compared,
            names=known,
            tolerance=bench.prepared.tolerance,
            store=bench.store.models,
        )
        try:
            found = bench.need(blame_job.JOB, request, "blame")
        except OptimError as error:
            names_of_files = names_in_messages(first.model.path, reference) | names_in_messages(second.path, other)
            raise error.naming(names_of_files) from error
        notes = notes_on_targets(bench, (reference, other), (first, candidate))
        return Blame(replace(found, notes=(*found.notes, *notes)), bench.prepared)


def _interface(reference: Model, other: Model, names: Mapping[str, str]) -> dict[str, str]:
    """Names of inputs and outputs of the other model by the reference's.

    Raises:
        OptimError[interface-differs]: one is in one model only.
        OptimError[bad-map]: a name that was given is in neither the inputs nor the outputs of its model.
    """
    _require_there(names.keys(), reference, "first")
    _require_there(names.values(), other, "second")
    for kind, ours, theirs in (("input", reference.inputs, other.inputs), ("output", reference.outputs, other.outputs)):
        have, wanted = {info.name for info in theirs}, {info.name for info in ours}
        mapped = {names.get(name, name) for name in wanted}
        missing = sorted(have - mapped) if kind == "input" else sorted(mapped - have)
        if missing:
            near = get_close_matches(missing[0], sorted(wanted if kind == "input" else have), 1, 0.0)
            pair = (near or ["NAME"])[0], missing[0]
            raise OptimError(
                "interface-differs",
                f"the models have different {kind}s",
                f"the first has {', '.join(sorted(wanted))}; the second has {', '.join(sorted(have))}",
                f"--map {'='.join(pair if kind == 'input' else pair[::-1])}",
                status=ExitStatus.BAD_INPUT,
            )
    return dict(names)


def _require_there(names: Iterable[str], model: Model, which: str) -> None:
    there = sorted(info.name for info in (*model.inputs, *model.outputs))
    for name in names:
        if name not in there:
            raise OptimError.usage(
                "bad-map",
                f"--map names '{name}', and the {which} model has no such input or output",
                f"it has {', '.join(there)}",
                f"name {get_close_matches(name, there, 1, 0.0)[0]}, or another of these",
            )
