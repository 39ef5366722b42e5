"""A case of a table, and the one checker that holds the invariants for all of them.

Whatever is wrong with what the command is given, or happens on its way:

1. the exit status and the reference are those that the table says, and that ``optim help errors`` lists;
2. there is no traceback on stderr, and nothing unprintable; an error has a cause and a fix;
3. with ``--json`` stdout is one JSON value;
4. nothing outside of OUT and the cache has changed, so no input either, and no process is left;
5. an earlier result in OUT is as it was, unless a new one was delivered;
6. what was only wrong for a moment leaves nothing behind: mended, the same command succeeds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from world import Done, World

from optim._engine.cli.error_catalogue import catalogue, installed_packages
from optim._engine.runs.folder import RunFolder

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@cache
def _references() -> frozenset[str]:
    """Every error that ``optim help errors`` lists; it reads all sources, so not while tests are collected."""
    return frozenset(catalogue(installed_packages()))


def nothing(world: World) -> None:
    """There is nothing to prepare."""


@dataclass(frozen=True)
class Case:
    """One row.

    Attributes:
        name: what is wrong, in words.
        make: puts the files of the case into the world.
        command: arguments of ``optim``; ``{model}``, ``{out}``, ``{work}``, ``{root}`` are filled in.
        status: the exit statuses that are right.
        reference: the errors that are right; empty where there is none, and several where it depends on the run.
        json: whether the command takes ``--json``.
        earlier: a result lies in OUT before.
        mend: makes good what was wrong; then the same command must succeed.
        real: the command runs in a process of its own, its jobs too.
        dear: takes more than a second; as real ones, only ``make test-faults`` plays it.
        shell: what a shell does before and after ``"$@"``, which is the command.
        settings: environment variables.
        says: what the error must have in it.
        look: more that must hold, looked at in the end.
    """

    name: str
    make: Callable[[World], object] = nothing
    command: tuple[str, ...] = ("run", "{model}", "-o", "{out}", "--search-seconds", "0.2", "--stage", "fuse")
    status: tuple[int, ...] = (3,)
    reference: tuple[str, ...] = ()
    json: bool = True
    earlier: bool = True
    mend: Callable[[World], object] | None = None
    real: bool = False
    dear: bool = False
    shell: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    says: str = ""
    look: Callable[[World, Done], object] | None = None


def rows(table: Iterable[Case]) -> pytest.MarkDecorator:
    """A table as parameters of a test; a name stands for one row only."""
    table = list(table)
    names = [case.name for case in table]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    marks = [pytest.mark.faults, pytest.mark.slow]
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.name, marks=marks if case.real or case.dear else []) for case in table]
    )


def hold(case: Case, world: World) -> Done:
    """Play a case, and hold it to the invariants."""
    world.settings.update(case.settings)
    case.make(world)
    if case.earlier and not world.out.exists():
        RunFolder.claim(world.out, "earlier").publish(_write_earlier)
    before, result = world.snapshot(), world.result()
    arguments = _filled(case, world)
    done = world.call(arguments, shell=case.shell) if case.real else world.run(arguments)
    check_end(case, done)
    after = world.snapshot()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert not changed, f"changed outside of OUT and the cache: {sorted(changed)}\n{done.err}"
    if done.status not in (0, 141):  # what was delivered stays, though nobody read about it
        assert world.result() == result, "what lay in OUT has changed"
    assert not world.left_running()
    if case.look:
        case.look(world, done)
    if case.mend:
        case.mend(world)
        again = world.call(arguments) if case.real else world.run(arguments)
        assert again.status == 0, f"the same command again: {again}"
    return done


def check_end(case: Case, done: Done) -> None:
    """Status, reference, texts and JSON of a command that ended."""
    said = f"status {done.status}\n{done.out[-2000:]}\n{done.err[-3000:]}"
    assert "Traceback (most recent call last)" not in done.err, said
    assert done.status in case.status, said
    bad = _UNPRINTABLE.search(done.err + done.out.replace("\x1b[", ""))
    assert not bad, f"{bad} in {said!r}"
    if not case.json:
        if case.reference:
            assert any(f"error[{reference}]" in done.err for reference in case.reference), said
        return
    answer = json.loads(done.out)
    assert case.says in done.err, said
    if not case.reference:
        return
    if done.status:
        found = answer.get("error") or {"reference": answer.get("status"), "cause": "in the report", "fix": "there"}
        assert found["reference"] in case.reference, said
        assert found["reference"] in _references(), f"{found['reference']} is no error that optim help lists"
        assert found["cause"], f"no cause: {said}"
        assert found["fix"], f"no fix: {said}"


def _filled(case: Case, world: World) -> list[str]:
    places = {"model": str(world.model), "out": str(world.out), "work": str(world.work), "root": str(world.root)}
    filled = []
    for part in case.command:
        for name, value in places.items():
            part = part.replace(f"{{{name}}}", value)
        filled.append(part)
    return [*filled, *(["--json"] if case.json else [])]


def _write_earlier(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"an earlier result")
    (folder / "report.json").write_text("{}")
