"""Run folders of a stranger: each of their files says something that no run wrote, or leads elsewhere."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case import Case, hold, rows
from test_malformed_models import ESCAPES, small
from world import SHARED, World

import optim
from optim.errors import OptimError

RUN = Case("").command
VERIFY = ("verify", "{model}", "{out}")
BENCH = ("bench", "{out}", "--seconds", "0.2")
PICK = ("pick", "{out}", "1")
REPEAT = ("run", "{model}", "-o", "{work}/out", "--recipe", "{out}/recipe.lock.toml")


@functools.cache
def finished() -> Path:
    """The world of a run that has been finished, made once."""
    world = World(SHARED[0] / "finished")
    world.model.write_bytes(small().SerializeToString())
    done = world.run([part.format(model=world.model, out=world.out) for part in RUN])
    assert done.status == 0, done.err
    return world.root


def a_run(world: World) -> None:
    for place in ("work", "cache"):
        shutil.copytree(finished() / place, world.root / place, dirs_exist_ok=True)


def written(name: str, data: str | bytes) -> Callable[[World], None]:
    def make(world: World) -> None:
        a_run(world)
        (world.out / name).write_bytes(data.encode() if isinstance(data, str) else data)

    return make


def said(name: str, change: Callable[[Any], object]) -> Callable[[World], None]:
    """A JSON file of the run with something changed."""

    def make(world: World) -> None:
        a_run(world)
        value = json.loads((world.out / name).read_text())
        change(value)
        (world.out / name).write_text(json.dumps(value))

    return make


def replaced(name: str, old: str, new: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        a_run(world)
        text = (world.out / name).read_text()
        assert old in text
        (world.out / name).write_text(text.replace(old, new))

    return make


def gone(*names: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        a_run(world)
        for name in names:
            (world.out / name).unlink()

    return make


def linked(name: str, target: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        a_run(world)
        (world.home / "victim").write_text("years of work")
        (world.out / name).unlink(missing_ok=True)
        (world.out / name).symlink_to(target.format(home=world.home, out=world.out))

    return make


def out_is_a_link(world: World) -> None:
    a_run(world)
    shutil.move(world.out, world.home / "elsewhere")
    world.out.symlink_to(world.home / "elsewhere")


def folder_named(name: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        a_run(world)
        (world.out / name).unlink(missing_ok=True)
        (world.out / name).mkdir()
        (world.out / name / "mine").write_text("years of work")

    return make


def holds(*names: Any) -> Callable[[World], None]:
    return said("run.json", lambda mark: mark["holds"].update(files=list(names)))


def session(**words: Any) -> Callable[[World], None]:
    return said("session.json", lambda saved: saved.update(words))


BAD_JSON = {
    "empty": b"",
    "no JSON": b"hello",
    "no text": b"\xff\xfe",
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "brackets": b"[" * 100_000,
    "an object of objects": b'{"a":' * 50_000,
    "a huge number": b'{"status": ' + b"9" * 5000 + b"}",
    "odd types": b'{"key": ["x"], "points": 7, "status": {}, "holds": "x", "session_options": 3, "provider": []}',
    "odd points": b'{"key": "x", "points": [1, null, "x"]}',
    "an escape": json.dumps({ESCAPES: ESCAPES, "key": ESCAPES, "points": [{"number": ESCAPES}]}).encode(),
}

MARKS: dict[str, Callable[[World], None]] = {
    "a file above": holds("../victim"),
    "an absolute file": holds("/etc/passwd"),
    "the folder itself": holds("."),
    "the folder above": holds(".."),
    "nothing of a name": holds(""),
    "a name with a zero byte": holds("a\0b"),
    "a number": holds(7),
    "a name that is an escape": holds(ESCAPES),
}

SESSIONS: dict[str, tuple[Callable[[World], None], tuple[str, ...]]] = {
    "it writes a model": (session(session_options={"optimized_model_filepath": "victim"}), ("untrusted-setting",)),
    "it writes a profile": (
        session(session_options={"profile_file_prefix": "victim", "enable_profiling": True}),
        ("untrusted-setting",),
    ),
    "it names a config entry that writes": (
        session(session_config={"session.model_external_initializers_file_folder_path": "/etc"}),
        ("untrusted-setting",),
    ),
    "it names a library": (session(library="planted"), ("untrusted-setting",)),
    "it names a library of operators": (
        session(operator_libraries=["planted"]),
        ("untrusted-setting", "bad-session-file"),
    ),
    "it names a provider that is none": (
        session(provider="ToasterExecutionProvider"),
        ("provider-missing", "session-failed", "bad-session-file"),
    ),
    "its provider is an escape": (
        session(provider=ESCAPES),
        ("provider-missing", "session-failed", "bad-session-file"),
    ),
    "its provider options name a place": (
        session(provider_options={"path": "/etc/passwd"}),
        ("untrusted-setting", "bad-session-file"),
    ),
    "threads that are text": (
        session(session_options={"intra_op_num_threads": "many"}),
        ("bad-session-setting", "other-failed", "bad-session-file", "session-failed"),
    ),
    "threads beyond a number": (
        session(session_options={"intra_op_num_threads": 2**70}),
        ("bad-session-setting", "other-failed", "bad-session-file", "session-failed"),
    ),
    "a level that is none": (
        session(session_options={"graph_optimization_level": "ORT_MAX"}),
        ("bad-session-setting", "other-failed", "bad-session-file", "session-failed"),
    ),
    "options in a list": (session(session_options=[1]), ("bad-session-file",)),
    "a key that nobody knows": (session(evil="yes"), ("bad-session-file", "untrusted-setting")),
}

LOCKS: dict[str, tuple[Callable[[World], None], tuple[str, ...]]] = {
    "empty": (written("recipe.lock.toml", ""), ()),
    "no TOML": (written("recipe.lock.toml", "= ="), ("bad-toml",)),
    "no text": (written("recipe.lock.toml", b"\xff"), ("recipe-not-readable",)),
    "brackets": (written("recipe.lock.toml", "a = " + "[" * 50_000), ("bad-toml",)),
    "gone": (gone("recipe.lock.toml"), ("recipe-not-readable",)),
    "a folder": (folder_named("recipe.lock.toml"), ("recipe-not-readable",)),
    "a link to nothing": (linked("recipe.lock.toml", "/nowhere/at/all"), ("recipe-not-readable",)),
    "another model": (replaced("recipe.lock.toml", 'file_name = "model.onnx"', 'file_name = "other.onnx"'), ()),
    "another target": (replaced("recipe.lock.toml", 'name = "cpu"', 'name = "toaster"'), ("unknown-target",)),
    "a goal that is none": (replaced("recipe.lock.toml", 'goal = "latency"', 'goal = "beauty"'), ("unknown-goal",)),
    "an unknown key": (
        replaced("recipe.lock.toml", 'goal = "latency"', 'goal = "latency"\nevil = 1'),
        ("unknown-recipe-key",),
    ),
    "a seed that is text": (replaced("recipe.lock.toml", "seed = 0", 'seed = "x"'), ("bad-recipe",)),
}

NOT_OURS = ("not-our-folder",)
TABLE = [
    *(
        Case(f"run.json: {name}", written("run.json", data), (*RUN, "--no-cache"), (2,), NOT_OURS)
        for name, data in BAD_JSON.items()
    ),
    *(Case(f"run.json names {name}", make, (*RUN, "--no-cache"), (0, 2), NOT_OURS) for name, make in MARKS.items()),
    *(
        Case(
            f"report.json: {name}",
            written("report.json", data),
            PICK,
            (2,),
            ("not-a-run-folder", "no-points", "points-gone"),
        )
        for name, data in BAD_JSON.items()
    ),
    *(
        Case(f"session.json: {name}", written("session.json", data), VERIFY, (3,), ("bad-session-file",))
        for name, data in BAD_JSON.items()
    ),
    *(
        Case(f"verify: session.json: {name}", make, VERIFY, (0, 2, 3, 5), refs)
        for name, (make, refs) in SESSIONS.items()
    ),
    *(Case(f"bench: session.json: {name}", make, BENCH, (0, 2, 3, 5), refs) for name, (make, refs) in SESSIONS.items()),
    *(
        Case(f"lock: {name}", make, REPEAT, (0, 2, 4), refs, dear=name == "empty")
        for name, (make, refs) in LOCKS.items()
    ),
    *(
        Case(
            f"model.onnx: {name}",
            written("model.onnx", data),
            ("verify", "{model}", "{out}"),
            (3,),
            ("not-onnx", "model-empty", "model-truncated"),
        )
        for name, data in list(BAD_JSON.items())[:6]
    ),
    Case("model.onnx is gone", gone("model.onnx"), VERIFY, (2, 3), ("no-model", "model-missing")),
    Case(
        "model.onnx is a link to nothing",
        linked("model.onnx", "/nowhere/at/all"),
        VERIFY,
        (2, 3),
        ("no-model", "model-missing"),
    ),
    Case("model.onnx is a link elsewhere", linked("model.onnx", "{home}/victim"), (*RUN, "--no-cache"), (0,)),
    Case("model.onnx.data is a link elsewhere", linked("model.onnx.data", "{home}/victim"), (*RUN, "--no-cache"), (0,)),
    Case("run.json is a link elsewhere", linked("run.json", "{home}/victim"), (*RUN, "--no-cache"), (2,), NOT_OURS),
    Case("report.html is a link to itself", linked("report.html", "{out}/report.html"), (*RUN, "--no-cache"), (0,)),
    Case(
        "session.json is a folder",
        folder_named("session.json"),
        VERIFY,
        (2, 3),
        ("bad-session-file", "not-a-run-folder", "file-refused"),
    ),
    Case(
        "session.json is a link to nothing",
        linked("session.json", "/nowhere/at/all"),
        VERIFY,
        (2,),
        ("not-a-run-folder",),
    ),
    Case("OUT is a link", out_is_a_link, ("verify", "{model}", "{out}"), (0,), earlier=False),
    Case(
        "pick from a folder that is none",
        lambda world: (a_run(world), shutil.rmtree(world.out), world.out.mkdir()),
        PICK,
        (2, 3),
        ("not-a-run-folder", "model-is-a-folder"),
    ),
    Case(
        "pick from a cache that was emptied",
        lambda world: (a_run(world), shutil.rmtree(world.cache)),
        PICK,
        (2,),
        ("points-gone", "no-points"),
    ),
    Case(
        "verify a folder that is none",
        lambda world: (a_run(world), gone("session.json", "run.json")(world)),
        VERIFY,
        (2,),
        ("not-a-run-folder",),
    ),
]


@rows(TABLE)
def test_a_foreign_folder(case, world):
    hold(case, world)


@pytest.mark.parametrize("name", ["run.json", "report.json", "session.json", "recipe.lock.toml", "model.onnx"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.faults) for seed in range(1, 5))])
def test_flipped_bytes_of_a_run_folder_end_in_an_answer_or_an_error(world, name, seed):
    a_run(world)
    content = bytearray((world.out / name).read_bytes())
    rng = np.random.default_rng([seed, len(name)])
    for place in rng.integers(0, len(content), 3):
        content[place] = int(rng.integers(256))
    cut = content[: int(rng.integers(len(content)))] if seed == 4 else content
    (world.out / name).write_bytes(cut)
    command = {"run.json": (*RUN, "--no-cache"), "report.json": PICK, "recipe.lock.toml": REPEAT}.get(name, VERIFY)
    hold(Case("flipped", command=command, status=(0, 2, 3, 4, 5)), world)


def test_load_refuses_what_a_strangers_session_asks_for(world):
    session(session_options={"optimized_model_filepath": str(world.home / "victim")})(world)
    with pytest.raises(OptimError, match="untrusted-setting"):
        optim.load(world.out)
    assert not (world.home / "victim").exists()
