"""Faults while a command runs, and surroundings that it has not chosen: each in a process of its own."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from case import Case, check_end, hold, rows
from test_malformed_models import loop, many_nodes, named, saved, scan, small
from world import World

pytestmark = [pytest.mark.faults, pytest.mark.slow]

RUN = Case("").command
INSPECT = ("inspect", "{model}")
VERIFY = ("verify", "{model}", "{model}")
SOURCE = Path(__file__).parents[2] / "core" / "src" / "optim"


def model(world: World) -> None:
    world.model.write_bytes(small().SerializeToString())


def tight(world: World) -> None:
    """Weights of two megabytes: more than the limit that the shell sets for a file."""
    import numpy as np
    from feed_models import FLOAT, build, constant, value
    from onnx import helper

    table = constant("w", np.random.default_rng(0).standard_normal((700, 700)).astype(np.float32))
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    made = build([node], [value("x", FLOAT, [1, 700])], [value("y", FLOAT, [1, 700])], [table])
    world.model.write_bytes(made.SerializeToString())


def a_file_for_locks(world: World) -> None:
    model(world)
    shutil.rmtree(world.locks)
    world.locks.write_text("mine")


def locks_in_the_way(world: World) -> None:
    """A stranger has made folders of the names that locks have."""
    model(world)
    (world.locks / "optim").mkdir(mode=0o700)
    (world.locks / "optim" / "clock.lock").mkdir()


def another_version(world: World) -> None:
    """A cache that another version of optim filled, with other types in its records."""
    model(world)
    other = world.root / "other"
    shutil.copytree(SOURCE, other / "optim", ignore=shutil.ignore_patterns("__pycache__"))
    store = other / "optim" / "_engine" / "store.py"
    text = store.read_text()
    assert "json.dumps(data)" in text
    store.write_text(text.replace("json.dumps(data)", "json.dumps({'of another version': data})"))
    kept = dict(world.settings)
    world.settings["PYTHONPATH"] = os.pathsep.join([str(other), os.environ.get("PYTHONPATH", "")])
    done = world.call([part.format(model=world.model, out=world.root / "tmp" / "first") for part in RUN])
    world.settings.clear()
    world.settings.update(kept)
    assert done.status == 0, done.err
    shutil.rmtree(world.root / "tmp" / "first")


def odd_folder(name: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        folder = world.work / name
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(small().SerializeToString())

    return make


def in_folder(name: str) -> tuple[str, ...]:
    return ("run", f"{{work}}/{name}/model.onnx", "-o", f"{{work}}/out/{name}", *RUN[4:])


ODD = {
    "spaces": "a folder with spaces",
    "another alphabet": "папка-フォルダ-😀",
    "a new line": "two\nlines",
    "an escape": "red\x1b[31m",
    "markup": "[bold]x[/bold]",
    "a dash": "-rf",
    "a percent sign": "%s%n{}",
    "four kilobytes": "/".join(["d" * 200] * 14),
}

NO_TEXT = os.fsdecode(b"\xff\xfe")
OPEN_PIPE = 'set -o pipefail; "$@" | true; exit ${PIPESTATUS[0]}'
TABLE = [
    Case("stdin is closed", model, RUN, (0,), real=True, shell='exec "$@" <&-'),
    Case("stdout is closed", model, RUN, (0,), json=False, real=True, shell='exec "$@" >&-'),
    Case("stderr is closed", model, RUN, (0,), real=True, shell='exec "$@" 2>&-'),
    Case("all are closed", model, RUN, (0,), json=False, real=True, shell='exec "$@" <&- >&- 2>&-'),
    Case("stdout is full", model, INSPECT, (2,), json=False, real=True, shell='exec "$@" >/dev/full'),
    Case("nobody reads inspect", model, INSPECT, (0, 141), json=False, real=True, shell=OPEN_PIPE),
    Case("nobody reads a run", model, RUN, (0, 141), json=False, real=True, shell=OPEN_PIPE),
    Case("nobody reads a list", model, ("passes", "list"), (0, 141), json=False, real=True, shell=OPEN_PIPE),
    Case(
        "stdout is Latin",
        saved(lambda: named("имя-層")),
        RUN,
        (0,),
        json=False,
        real=True,
        settings={"PYTHONIOENCODING": "latin-1"},
    ),
    Case(
        "stdout is ASCII, inspect",
        saved(lambda: named("имя-層")),
        INSPECT,
        (0,),
        json=False,
        real=True,
        settings={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
    ),
    Case(
        "the working folder is gone",
        model,
        RUN,
        (0,),
        real=True,
        shell='mkdir gone && cd gone && rmdir ../gone && exec "$@"',
    ),
    Case("asserts are off", model, RUN, (0,), real=True, settings={"PYTHONOPTIMIZE": "2"}),
    Case("warnings are errors", model, RUN, (0,), real=True, settings={"PYTHONWARNINGS": "error"}),
    Case(
        "little address space",
        model,
        RUN,
        (0, 2, 3, 4),
        ("ingest-failed", "prepare-failed", "failed", "session-failed", "not-reproducible"),
        real=True,
        shell='ulimit -v 600000; exec "$@"',
        mend=lambda world: None,
    ),
    Case(
        "few files may be open",
        model,
        RUN,
        (0, 2, 3),
        ("ingest-failed", "prepare-failed", "file-refused", "not-reproducible"),
        real=True,
        shell='ulimit -n 20; exec "$@"',
        mend=lambda world: None,
    ),
    Case(
        "files may not be large",
        tight,
        RUN,
        (2,),
        ("disk-full",),
        real=True,
        shell='ulimit -f 500; exec "$@"',
        mend=lambda world: None,
    ),
    Case(
        "no file may have a byte",
        model,
        RUN,
        (2,),
        ("disk-full", "file-refused"),
        real=True,
        shell='ulimit -f 0; exec "$@"',
        mend=lambda world: None,
    ),
    Case("nobody else may read", model, RUN, (0,), real=True, shell='umask 077; exec "$@"'),
    Case("no home", model, RUN, (0,), real=True, settings={"HOME": "/nowhere/at/all"}),
    Case("no temporary folder", model, RUN, (0,), real=True, settings={"TMPDIR": "/nowhere/at/all"}),
    Case("a file where locks are to be", a_file_for_locks, RUN, (0, 2), ("lock-folder-unusable",), real=True),
    Case("folders where locks are to be", locks_in_the_way, RUN, (0, 2), ("lock-folder-unusable",), real=True),
    Case("another version used the cache", another_version, RUN, (0,), real=True),
    Case("ten thousand nodes", saved(lambda: many_nodes(10_000)), RUN, (0,), real=True),
    Case("a loop", saved(loop), RUN, (0,), real=True),
    Case("a scan", saved(scan), RUN, (0,), real=True),
    Case(
        "a folder of bytes that are no text",
        odd_folder(NO_TEXT),
        in_folder(NO_TEXT),
        (2,),
        ("file-refused",),
        real=True,
        earlier=False,
    ),
    *(
        Case(f"a folder of {name}", odd_folder(folder), in_folder(folder), (0,), real=True, earlier=False)
        for name, folder in ODD.items()
    ),
]


@rows(TABLE)
def test_a_moment(case, world):
    hold(case, world)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("after_s", [0.3, 1.5, 4])
def test_an_interrupted_run_says_so_and_leaves_nothing(world, number, after_s):
    model(world)
    arguments = [part.format(model=world.model, out=world.out) for part in RUN]
    with world.start(arguments) as process:
        time.sleep(after_s)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode in (0, 130, -number), err  # before Python is ready nobody is told
    assert "Traceback" not in err or after_s < 1, err
    del out
    assert not world.left_running()
    done = world.call([*arguments, "--json"])
    check_end(Case("again", status=(0,)), done)


@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_is_killed_at_any_moment_is_followed_by_a_right_one(world, seed):
    model(world)
    arguments = [part.format(model=world.model, out=world.out) for part in RUN]
    with world.start(arguments) as process:
        time.sleep(random.Random(seed).uniform(0.1, 8))
        process.kill()
        process.communicate()
    assert not world.left_running()
    check_end(Case("again", status=(0,)), world.call([*arguments, "--json"]))
    assert {"model.onnx", "report.json", "run.json", "session.json"} <= {entry.name for entry in world.out.iterdir()}
    assert sorted(entry.name for entry in world.work.iterdir()) == ["model.onnx", "out"]


def test_the_folder_of_a_killed_run_is_swept_by_the_next(world):
    model(world)
    left = world.temporary / "optim-isolated-killed"
    left.mkdir()
    (left / "owner").touch()
    young = world.temporary / "optim-isolated-young"
    young.mkdir()
    os.utime(left, (1, 1))
    assert world.call([str(part).format(model=world.model) for part in VERIFY]).status == 0
    assert not left.exists()
    assert young.exists()


def test_a_full_disk_leaves_the_earlier_result(world):
    """A file system of its own with two megabytes."""
    disk = world.root / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "none", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        tight(world)
        done = world.call(["run", str(world.model), "-o", str(disk / "out"), *RUN[4:], "--json"])
        check_end(Case("full", status=(2,), reference=("disk-full",)), done)
        assert not list(disk.iterdir())
    finally:
        subprocess.run(["umount", disk], check=True)


def main(kills: int) -> int:
    """Kill a run again and again: ``python tests/faults/test_moments.py 50`` prints how many went right afterwards."""
    import tempfile

    right = 0
    for number in range(kills):
        with tempfile.TemporaryDirectory(prefix="optim-kills-") as root:
            world = World(Path(root))
            model(world)
            arguments = [part.format(model=world.model, out=world.out) for part in RUN]
            moment = random.Random(number).uniform(0.05, 9)
            with world.start(arguments) as process:
                time.sleep(moment)
                process.kill()
                process.communicate()
            left = world.left_running()
            done = world.call(arguments)
            whole = (world.out / "model.onnx").is_file() and (world.out / "report.json").is_file()
            beside = sorted(entry.name for entry in world.work.iterdir()) == ["model.onnx", "out"]
            good = done.status == 0 and whole and beside and not left
            right += good
            print(f"killed after {moment:.2f} s: {'right' if good else f'WRONG {done} {left}'}", flush=True)
    print(f"{right} of {kills} right")
    return int(right != kills)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
