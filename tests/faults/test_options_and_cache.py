"""The command line, recipes, the cache and the folders that commands are told to use."""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from case import Case, hold, rows
from test_malformed_models import ESCAPES, small
from world import SHARED, World

RUN = Case("").command
VERIFY = ("verify", "{model}", "{model}")
USAGE = (2,)


def model(world: World) -> None:
    world.model.write_bytes(small().SerializeToString())


def recipe(text: str | bytes) -> Callable[[World], None]:
    def make(world: World) -> None:
        model(world)
        (world.work / "r.toml").write_bytes(text.encode() if isinstance(text, str) else text)

    return make


def at(place: str, make: Callable[[World], object]) -> Callable[[World], None]:
    """A file in the way of a folder."""

    def prepare(world: World) -> None:
        model(world)
        path = world.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        make(world)

    return prepare


WORDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "no command of that name": (("rum", "{model}"), ("unknown-command",)),
    "no option of that name": (("run", "{model}", "--fast"), ("usage",)),
    "no argument": (("run",), ("usage",)),
    "an unknown target": ((*RUN, "--target", "toaster"), ("unknown-target",)),
    "a target with settings that it lacks": (
        (*RUN, "--target", "cpu:soc=x"),
        ("bad-target-setting", "unknown-target-setting", "unknown-target"),
    ),
    "a target that is an escape": ((*RUN, "--target", ESCAPES), ("unknown-target",)),
    "an unknown pass": ((*RUN, "--with", "ort.quantise-dynamic"), ("unknown-pass",)),
    "an unknown pass left out": ((*RUN, "--without", "ort.nothing"), ("unknown-pass",)),
    "an option that the pass lacks": (
        (*RUN, "--with", "ort.clean:speed=11"),
        ("unknown-option", "conflicting-request", "bad-option"),
    ),
    "options that are no TOML": ((*RUN, "--with", "ort.clean:="), ("bad-option",)),
    "options that are brackets": ((*RUN, "--with", "ort.clean:a=" + "[" * 3000), ("bad-option",)),
    "an unknown stage": ((*RUN, "--stage", "melt"), ("unknown-stage",)),
    "an unknown goal": ((*RUN, "--goal", "beauty"), ("unknown-goal",)),
    "a drift of zero": ((*RUN, "--max-drift", "0"), ("bad-budget",)),
    "a drift of NaN": ((*RUN, "--max-drift", "nan"), ("bad-budget",)),
    "a drift of infinity": ((*RUN, "--max-drift", "inf"), ("bad-budget",)),
    "a drift that is negative": ((*RUN, "--max-drift", "-1"), ("bad-budget",)),
    "a drift that is no number": ((*RUN, "--max-drift", "small"), ("usage",)),
    "a drift and lossless": ((*RUN, "--max-drift", "1", "--lossless"), ("conflicting-request",)),
    "a loss without a metric": ((*RUN, "--max-loss", "1%"), ("bad-budget",)),
    "a loss that is none": ((*RUN, "--metric", "top-1", "--max-loss", "NaN%"), ("bad-budget",)),
    "a metric without data": ((*RUN, "--metric", "top-1"), ("data-required",)),
    "an unknown metric": ((*RUN, "--metric", "beauty"), ("unknown-metric", "data-required")),
    "an output of four kilobytes of name": (
        ("run", "{model}", "-o", "{work}/" + "o" * 4000),
        ("not-writable", "file-refused"),
    ),
    "data of four kilobytes of name": ((*RUN, "--data", "{work}/" + "d" * 4000), ("file-refused", "feeds-missing")),
    "an output that is the root": (("run", "{model}", "-o", "/"), ("not-our-folder",)),
    "an output that is the working folder": (("run", "{model}", "-o", "."), ("not-our-folder",)),
    "an output that is the model": (("run", "{model}", "-o", "{model}"), ("not-a-folder",)),
    "an output below the model": (("run", "{model}", "-o", "{model}/out"), ("not-a-folder",)),
    "an output in /proc": (("run", "{model}", "-o", "/proc/nothing"), ("not-writable",)),
    "an output that is a device": (("run", "{model}", "-o", "/dev/null"), ("not-a-folder",)),
    "verify: one model": (("verify", "{model}"), ("nothing-to-compare",)),
    "bench: an unknown target": (("bench", "{model}", "--target", "toaster"), ("unknown-target",)),
    "sensitivity: no pass": (("sensitivity", "{model}", "--as", "no.pass"), ("unknown-type",)),
    "sensitivity: a lossless pass": (("sensitivity", "{model}", "--as", "ort.clean"), ("not-lossy",)),
    "passes: one that is not there": (("passes", "show", "no.pass"), ("unknown-pass",)),
    "plugins: one that is not there": (("plugins", "show", "nobody"), ("unknown-plugin",)),
    "cache: all records, and a size": (
        ("cache", "prune", "--experience", "--max-size", "1GB"),
        ("conflicting-request",),
    ),
    "cache: a size that is none": (("cache", "prune", "--max-size", "some"), ("usage",)),
}

RECIPES: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "no TOML": ("= =", ("bad-toml",)),
    "no text": (b"\xff\xfe\x00", ("recipe-not-readable",)),
    "brackets": ("a = " + "[" * 100_000, ("bad-toml",)),
    "an unknown key": ("taget = 'cpu'", ("unknown-recipe-key",)),
    "an escape for a key": (f"{json.dumps(ESCAPES)} = 1", ("unknown-recipe-key",)),
    "a seed that is true": ("seed = true", ("bad-recipe",)),
    "a seed that is text": ("seed = '1'", ("bad-recipe",)),
    "a seed that is negative": ("seed = -1", ("bad-recipe",)),
    "seconds that are true": ("search_seconds = true", ("bad-recipe",)),
    "seconds that are NaN": ("search_seconds = nan", ("bad-recipe", "bad-budget")),
    "a drift that is true": ("[budget]\nmax_drift = true", ("bad-recipe",)),
    "a loss that is true": ("metric = 'top-1'\n[budget]\nmax_loss = true", ("bad-recipe",)),
    "lossless that is text": ("[budget]\nlossless = 'yes'", ("bad-recipe",)),
    "an unknown goal": ("goal = 'beauty'", ("unknown-goal",)),
    "an unknown stage": ("stages = ['melt']", ("bad-recipe",)),
    "an unknown target": ("target = 'toaster'", ("unknown-target",)),
    "an unknown pass": ("[[passes]]\nname = 'no.pass'", ("unknown-pass",)),
    "a pass twice": ("[[passes]]\nname = 'ort.clean'\n[[passes]]\nname = 'ort.clean'", ("bad-recipe",)),
    "data that is gone": ("data = 'gone.npz'", ("feeds-missing",)),
    "a lock of nothing": ("[lock]\nversion = 1", ("bad-recipe", "unknown-recipe-key")),
    "a lock of the future": (
        "[lock]\nformat = 99\nversion = 99\noptim = '99'",
        ("lock-too-new", "bad-recipe", "unknown-recipe-key"),
    ),
}

PLACES: dict[str, tuple[Callable[[World], None], dict[str, str], tuple[str, ...]]] = {
    "the cache is a file": (at("cache", lambda world: world.cache.write_text("mine")), {}, ("not-writable",)),
    "the cache is a device": (model, {"OPTIM_CACHE_DIR": "/dev/null"}, ("not-writable",)),
    "the cache is in /proc": (model, {"OPTIM_CACHE_DIR": "/proc/cache"}, ("not-writable",)),
    "the cache is a link to nothing": (
        at("cache", lambda world: world.cache.symlink_to("/nowhere/at/all")),
        {},
        ("not-writable",),
    ),
    "the cache has a name of a thousand letters": (model, {"OPTIM_CACHE_DIR": "/tmp/" + "c" * 1000}, ("not-writable",)),
    "a shelf of the cache is a file": (
        at("cache/models", lambda world: (world.cache / "models").write_text("mine")),
        {},
        ("not-writable",),
    ),
}


SHELVES = ("models", "references", "steps", "runs")


@functools.cache
def _filled_once() -> Path:
    """A place with a world whose cache a run has filled, and a copy of it: records know where their cache lies."""
    place = SHARED[0] / "filled"
    world = World(place / "world")
    model(world)
    np.savez(world.work / "feeds.npz", x=np.ones((2, 4), np.float32))
    done = world.run(
        [*(part.format(model=world.model, out=world.out) for part in RUN), "--data", f"{world.work}/feeds.npz"]
    )
    assert done.status == 0, done.err
    shutil.copytree(place / "world", place / "kept", symlinks=True)
    return place


def filled(world: World) -> None:
    """Move a case into the world of a run that has been finished."""
    place = _filled_once()
    shutil.rmtree(place / "world")
    shutil.copytree(place / "kept", place / "world", symlinks=True)
    world.root = place / "world"


def damaged(shelf: str, data: bytes) -> Callable[[World], None]:
    """A cache in which every entry of a shelf has been overwritten, after a run that filled it."""

    def make(world: World) -> None:
        filled(world)
        for record in (world.cache / "runs").iterdir() if shelf == "references" else ():
            record.unlink()  # else the run is answered by its record, and nobody looks
        found = [path for path in (world.cache / shelf).rglob("*") if path.is_file()]
        assert found, f"nothing in {shelf}"
        for path in found:
            path.chmod(0o644)
            path.write_bytes(data if data != b"cut" else path.read_bytes()[: path.stat().st_size // 2])

    return make


def emptied(shelf: str) -> Callable[[World], None]:
    """The files of a shelf are gone, its folders are not."""

    def make(world: World) -> None:
        damaged(shelf, b"")(world)
        for path in [path for path in (world.cache / shelf).rglob("*") if path.is_file()]:
            path.unlink()

    return make


def links_to_nothing(shelf: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        damaged(shelf, b"")(world)
        for path in [path for path in (world.cache / shelf).rglob("*") if path.is_file()]:
            path.unlink()
            path.symlink_to("/nowhere/at/all")

    return make


def strange_entries(world: World) -> None:
    """What no optim ever wrote lies in the cache."""
    damaged("runs", b"{}")(world)
    for shelf in ("models", "feeds", "references", "steps", "runs", "active"):
        place = world.cache / shelf
        (place / "link.json").symlink_to("/nowhere/at/all")
        (place / "folder.json").mkdir()
        (place / "\udcff.onnx").write_bytes(b"")
        (place / "loop").symlink_to(place)
        os.mkfifo(place / "pipe.json")


CACHED = (*RUN, "--data", "{work}/feeds.npz")
TABLE = [
    *(Case(name, model, words, USAGE, refs) for name, (words, refs) in WORDS.items()),
    *(
        Case(f"recipe: {name}", recipe(text), (*RUN, "--recipe", "{work}/r.toml"), (2, 3), refs)
        for name, (text, refs) in RECIPES.items()
    ),
    *(
        Case(f"dry: recipe: {name}", recipe(text), (*RUN, "--recipe", "{work}/r.toml", "--dry-run"), (0, 2), refs)
        for name, (text, refs) in RECIPES.items()
    ),
    *(Case(name, make, RUN, USAGE, refs, settings=settings) for name, (make, settings, refs) in PLACES.items()),
    *(
        Case(f"{shelf} in the cache: {name}", damaged(shelf, data), CACHED, (0,))
        for shelf in SHELVES
        for name, data in {
            "empty": b"",
            "one byte": b"\0",
            "cut": b"cut",
            "other JSON": b'{"a": [1]}',
            "brackets": b"[" * 50_000,
            "text": b"hello",
        }.items()
    ),
    *(Case(f"{shelf} in the cache: gone", emptied(shelf), CACHED, (0,)) for shelf in ("models", "references")),
    *(Case(f"{shelf} in the cache: links to nothing", links_to_nothing(shelf), CACHED, (0,)) for shelf in SHELVES),
    Case("strange entries in the cache", strange_entries, CACHED, (0,)),
    Case("strange entries in the cache, pruned", strange_entries, ("cache", "prune", "--max-size", "0"), (0,)),
    Case("strange entries in the cache, listed", strange_entries, ("cache", "show"), (0,)),
]


@rows(TABLE)
def test_options_and_cache(case, world):
    hold(case, world)


@pytest.mark.parametrize("shelf", SHELVES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.faults) for seed in range(1, 4))])
def test_a_flipped_byte_in_the_cache_is_found_or_does_no_harm(world, shelf, seed):
    """The answer is the same, and never a failure."""
    filled(world)
    rng = np.random.default_rng([seed, len(shelf)])
    for path in sorted(path for path in (world.cache / shelf).rglob("*") if path.is_file()):
        content = bytearray(path.read_bytes())
        if content:
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
            path.chmod(0o644)
            path.write_bytes(content)
    hold(Case("flipped", command=CACHED, status=(0,)), world)
