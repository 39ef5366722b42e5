"""Whether processes do more than sessions of one process, where many calls come at once.

    python benchmarks/runs/sessions_processes.py [--rounds 8] [--models FOLDER]

``--goal throughput`` opens several sessions in one process, each called by a thread of its own. This compares them with
as many processes of one session, with the same threads each: both work in turns, half a second each, and the ratio of
samples a second is of the same round. Models are a product of matrices in four sizes, from a call of some 20
microseconds, of which Python is a large part, to one of milliseconds; and each NAME.onnx of FOLDER that has feeds,
NAME.npz. A minute on any machine; the ratio holds on a busy one too, as both are slowed down alike.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from optim._engine.feeds.sources import read_samples

_ROUND_S = 0.5
_WIDTHS = (32, 128, 512, 1024)


def main() -> None:
    """Print a line for each model."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=8)
    words.add_argument("--models", type=Path)
    asked = words.parse_args()
    count = max(2, (os.cpu_count() or 2) // 2)
    threads = max(1, (os.cpu_count() or 2) // count)
    print(f"{count} sessions or processes, of {threads} threads each; ratios are of samples a second")
    with tempfile.TemporaryDirectory() as folder:
        given = [(product(Path(folder), width), {"x": np.ones((16, width), np.float32)}) for width in _WIDTHS]
        for path in sorted(asked.models.glob("*.onnx")) if asked.models else ():
            if (data := path.with_suffix(".npz")).is_file():
                _, arrays = next(iter(read_samples(str(data), 0)))
                given.append((path, dict(arrays)))
        for path, feeds in given:
            compare(path, feeds, count, threads, asked.rounds)


def compare(path: Path, feeds: Mapping[str, Any], count: int, threads: int, rounds: int) -> None:
    """Both ways, in turns."""
    context = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    for _ in range(count):
        here, there = context.Pipe()
        context.Process(target=_process, args=(there, str(path), dict(feeds), threads), daemon=True).start()
        pipes.append(here)
    for pipe in pipes:
        pipe.recv()
    sessions = [_opened(str(path), threads) for _ in range(count)]
    alone_s = min(_timed(sessions[0], feeds) for _ in range(20))
    ratios, orders = [], [_in_sessions, _in_processes]
    for number in range(rounds + 1):
        rates = {way: way(sessions, pipes, feeds) for way in orders[:: 1 if number % 2 else -1]}
        if number:  # the first is a warm-up
            ratios.append(rates[_in_processes] / rates[_in_sessions])
    for pipe in pipes:
        pipe.send(False)
    low, high = min(ratios), max(ratios)
    said = f"processes to sessions {statistics.median(ratios):.2f} (rounds {low:.2f} to {high:.2f})"
    print(f"{path.stem}: a call alone {1e3 * alone_s:.3g} ms, {said}", flush=True)


def _in_sessions(sessions: list[Any], pipes: list[Connection], feeds: Mapping[str, Any]) -> float:
    rates: list[float] = []
    workers = [threading.Thread(target=lambda one=one: rates.append(_rate(one, feeds))) for one in sessions]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(rates)


def _in_processes(sessions: list[Any], pipes: list[Connection], feeds: Mapping[str, Any]) -> float:
    for pipe in pipes:
        pipe.send(True)
    return sum(pipe.recv() for pipe in pipes)


def _process(pipe: Connection, path: str, feeds: Mapping[str, Any], threads: int) -> None:
    session = _opened(path, threads)
    pipe.send("open")
    while pipe.recv():
        pipe.send(_rate(session, feeds))


def _rate(session: Any, feeds: Mapping[str, Any]) -> float:
    """Calls a second of one session, called again and again."""
    began, calls = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < _ROUND_S:
        session.run(None, feeds)
        calls += 1
    return calls / spent


def _timed(session: Any, feeds: Mapping[str, Any]) -> float:
    began = time.perf_counter()
    session.run(None, feeds)
    return time.perf_counter() - began


def _opened(path: str, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def product(folder: Path, width: int) -> Path:
    """Four products of matrices of one width, with 16 rows."""
    rng = np.random.default_rng(0)
    names = ["x", "a", "b", "c", "y"]
    weights = [
        numpy_helper.from_array((rng.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32), f"w{place}")
        for place in range(4)
    ]
    nodes = [helper.make_node("MatMul", [names[place], f"w{place}"], [names[place + 1]]) for place in range(4)]
    x, y = (helper.make_tensor_value_info(one, TensorProto.FLOAT, [16, width]) for one in "xy")
    graph = helper.make_graph(nodes, "products", [x], [y], weights)
    path = folder / f"products-{width}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


if __name__ == "__main__":
    main()
