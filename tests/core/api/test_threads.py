"""The Python API in threads: the process's stdout stays where it was, and no two threads write one file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from timed_models import network

import optim
from optim._engine.feeds.feedset import FeedSet, FeedWriter
from optim._engine.plugins.registry import load_registry
from optim._engine.stdout import prints_dropped, stdout_on_stderr
from optim._engine.store import Store
from optim.onnx.data_files import write_tensors
from optim.onnx.files import deliver_model, describe_model, save_in_store

THREADS = 4


def at_once(work: Callable[[int], object], times: int = THREADS) -> list[object]:
    """Return what the work made in threads that begin together."""
    start = threading.Barrier(THREADS)

    def begin(number: int) -> object:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return [found for _ in range(times // THREADS) for found in pool.map(begin, range(THREADS))]


def stdout_now() -> tuple[object, int, int]:
    found = os.fstat(1)
    return sys.stdout, found.st_dev, found.st_ino


def test_threads_that_verify_leave_stdout_where_it_was(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "one.onnx")
    onnx.save(network({"a": 1}), tmp_path / "two.onnx")
    before = stdout_now()
    found = at_once(lambda _: optim.verify(tmp_path / "one.onnx", tmp_path / "two.onnx").within)
    assert found == [True] * THREADS
    assert stdout_now() == before


def test_threads_that_load_plugins_leave_stdout_where_it_was() -> None:
    before = stdout_now()
    found = at_once(lambda _: sorted(load_registry().targets()), 2 * THREADS)
    assert found[0] and found == [found[0]] * len(found)
    assert stdout_now() == before


def test_stdout_stays_away_until_the_last_thread_is_done() -> None:
    before = sys.stdout
    inside, first_is_out = threading.Event(), threading.Event()

    def last() -> object:
        with stdout_on_stderr():
            inside.set()
            first_is_out.wait(60)
            return sys.stdout

    with ThreadPoolExecutor(1) as pool:
        with stdout_on_stderr():
            waiting = pool.submit(last)
            inside.wait(60)
        assert sys.stdout is sys.stderr
        first_is_out.set()
        assert waiting.result() is sys.stderr
    assert sys.stdout is before


def test_prints_that_are_dropped_in_threads_leave_stdout_where_it_was() -> None:
    before = stdout_now()

    def drop_or_divert(number: int) -> None:
        for _ in range(50):
            with prints_dropped() if number % 2 else stdout_on_stderr():
                sys.stdout.flush()

    at_once(drop_or_divert)
    assert stdout_now() == before


FORK = """
import os, sys, threading
from optim._engine.stdout import prints_dropped, stdout_on_stderr
inside, done = threading.Event(), threading.Event()
def divert():
    with stdout_on_stderr():
        inside.set()
        done.wait(60)
thread = threading.Thread(target=divert)
thread.start()
inside.wait(60)
if (child := os.fork()) == 0:
    print("of the child", flush=True)
    os._exit(0)
os.waitpid(child, 0)
done.set()
thread.join()
print("of the parent")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
def test_a_fork_gets_its_stdout_back_from_a_thread_that_it_does_not_have() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("of the child\nof the parent\n", "")


def test_threads_save_and_deliver_one_graph(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "one.onnx")
    store, out = tmp_path / "store", tmp_path / "out"
    graphs = {number: describe_model(tmp_path / "one.onnx").ir() for number in range(THREADS)}

    def save(number: int) -> str:
        for _ in range(20):
            model = save_in_store(graphs[number], store)
            deliver_model(model, out)
        return model.digest

    assert len(set(at_once(save))) == 1
    assert sorted(file.name for file in out.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert not [file.name for file in store.iterdir() if file.name.endswith(".tmp")]


def test_threads_write_one_file_of_tensors(tmp_path: Path) -> None:
    array = np.arange(1 << 16, dtype=np.float32)

    def write(_: int) -> None:
        for _ in range(20):
            value = ir.Value(name="w", const_value=ir.Tensor(array, name="w"))
            write_tensors([(value, ir.Tensor(array, name="w"))], tmp_path / "w.data")

    at_once(write)
    assert [file.name for file in tmp_path.iterdir()] == ["w.data"]
    assert (tmp_path / "w.data").read_bytes() == array.tobytes()


def test_threads_write_the_samples_of_one_folder(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fill(folder: Path) -> None:
        with FeedWriter(folder / "feeds") as writer:
            writer.add({"x": np.ones(3, np.float32)})
            writer.finish("made up", ())

    def write(_: int) -> str:
        return FeedSet.open(store.folder("references", "key", fill) / "feeds").digest

    assert len(set(at_once(write))) == 1
    assert FeedSet.open(tmp_path / "references" / "key" / "feeds").count == 1
    assert [folder.name for folder in (tmp_path / "references").iterdir()] == ["key"]
